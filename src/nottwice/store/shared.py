"""How do many runs share one fsync? By sharing commits.

A caller that is alone commits inline, in its own thread. Of the callers that arrive meanwhile, the
first leads the next batch for all of them. There is no writer thread. Only callers that must not
block (event loops) are led by a small pool thread. Success is reported after COMMIT, never before.

An interrupt (KeyboardInterrupt) can hit the main thread between any two instructions, so no other
thread may depend on the main thread: it commits alone, or joins a batch that another thread leads.
The lead is a lock that is only ever taken by ``with``, so an interrupt cannot leave it locked.

When a batch is committed, only a few of its threads are woken, and each of them wakes one more. If
all were woken together, most would only wait again for the interpreter's lock and compete for it
with the thread that commits the next batch, with twice as many thread switches per call.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from nottwice.errors import CommitUnknown, SelfWait
from nottwice.store.interface import Commit, CommitMany
from nottwice.store.soon import Soon, wake

if TYPE_CHECKING:
    import asyncio

MOST_IN_A_BATCH = 256
WOKEN_AT_ONCE = 2


class SharedCommits:
    """Gathers commits of concurrent callers into batches for ``commit_many``."""

    def __init__(self, commit_many: CommitMany) -> None:
        self._commit_many = commit_many
        self._lead = threading.Lock()
        self._guard = threading.Lock()
        self._waiting: deque[_Member] = deque()
        self._next: object | None = None
        """The leader of the next batch: a waiting member, or this object for the pool thread."""
        self._will_look: asyncio.AbstractEventLoop | None = None
        """The event loop that was last asked to find a leader, until it has done so."""
        self._pool: ThreadPoolExecutor | None = None
        # In a forked child another thread may be the main one; there the store opens again.
        self._main_thread = threading.main_thread().ident
        self._main_commits = False
        """Whether the main thread leads. A signal handler may interrupt it and commit, too."""

    def commit(self, commit: Commit) -> None:
        """Commit and wait. Durable: when it returns."""
        if threading.get_ident() != self._main_thread:
            error = self._commit_or_lead(commit)
        elif self._main_commits and self._lead.locked():
            raise SelfWait(
                "A signal handler called nottwice while the code that it interrupted was writing "
                "to the ledger. Nothing was written for the handler's call, and no tool was run. "
                "Let the handler set a flag, and make the call outside of it."
            )
        elif self._next is None:
            error = self._commit_alone(commit)
        else:
            error = self._commit_without_duties(commit)
        if error is not None:
            raise error

    def commit_soon(self, commit: Commit) -> Soon:
        """Commit without blocking. Durable: when the future has a result."""
        soon = Soon()
        with self._guard:
            self._waiting.append(_Member(commit, soon))
            without_leader = self._next is None
        if without_leader:
            if soon.loop is None:
                self._find_leader()
            elif soon.loop is not self._will_look:
                # Runs after all ready tasks have asked for their commits, so that they share one.
                soon.loop.call_soon(self._find_leader)
                # Twice, because an interrupt during the first callback would lose it.
                soon.loop.call_soon(self._find_leader)
                # Set last: an interrupt before this line costs only a superfluous callback.
                self._will_look = soon.loop
        return soon

    def _find_leader(self) -> None:
        """Let the pool thread lead the waiting members, unless they already have a leader."""
        self._will_look = None
        with self._guard:
            # Set last: an interrupt before that costs a superfluous batch, not the leader.
            asked = self._next is not None or not self._waiting or self._ask_pool()
            if asked and self._next is None and self._waiting:
                self._next = self
        if not asked:
            self._lead_batch()

    def close(self) -> None:
        """Wait for commits in progress and release the pool thread."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
        if self._waiting:
            # Their event loop was going to find a leader, but may never run again.
            self._lead_batch()

    def _commit_without_duties(self, commit: Commit) -> BaseException | None:
        """Commit for the main thread: in a batch that has a leader, or else alone."""
        with self._guard:
            member = _Member(commit, wakes=False) if self._next is not None else None
            if member is not None:
                self._waiting.append(member)
        if member is None:
            return self._commit_alone(commit)
        member.wait()
        return member.error

    def _commit_alone(self, commit: Commit) -> BaseException | None:
        """Commit for the main thread. Signal handlers run in it, and must not wait for it."""
        with self._lead:
            try:
                self._main_commits = True
                return self._commit_many((commit,))[0]
            finally:
                self._main_commits = False

    def _commit_or_lead(self, commit: Commit) -> BaseException | None:
        member = _Member(commit)
        with self._guard:
            self._waiting.append(member)
            leads = self._next is None
            if leads:
                self._next = member
                # It may lead more batches before it returns, so it cannot wake others in time.
                member.wakes = False
        if leads:
            self._lead_batch()
        # The leader may still have to wait: if the batch was full, another leader commits for it.
        member.wait()
        return member.error

    def _lead_batch(self) -> None:
        """Commit for all waiting members, release the lead, then wake them."""
        without_leader = True
        while without_leader:
            with self._lead:
                batch = self._take_batch()
                outcomes = self._outcomes(batch) if batch else ()
            for member, outcome in zip(batch, outcomes, strict=True):
                member.finish(outcome)
            _wake_threads([member for member in batch if member.soon is None])
            wake(member.soon for member in batch if member.soon is not None)
            # Members may be left over from a full batch. Later ones have a leader or find one.
            with self._guard:
                left_over = len(batch) == MOST_IN_A_BATCH and bool(self._waiting)
                without_leader = left_over and self._next is None

    def _take_batch(self) -> list[_Member]:
        with self._guard:
            size = min(len(self._waiting), MOST_IN_A_BATCH)
            batch = [self._waiting.popleft() for _ in range(size)]
            self._next = None
            return batch

    def _outcomes(self, batch: list[_Member]) -> Sequence[BaseException | None]:
        try:
            return self._commit_many([member.commit for member in batch])
        except BaseException as error:
            # The error concerns every member: none may assume success, or failure.
            text = f"A shared commit was interrupted ({error!r}). It may or may not be durable."
            return [CommitUnknown(text) for _ in batch]

    def _ask_pool(self) -> bool:
        """Let the pool thread lead a batch; False if no thread can be started any more."""
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="nottwice-commit")
            self._pool.submit(self._lead_batch)
        except RuntimeError:
            # The interpreter is shutting down, or the pool was just closed.
            return False
        return True


class _Member:
    """One caller's commit. The caller's thread sleeps until it is done, or has a future instead."""

    __slots__ = ("_asleep", "_next", "commit", "error", "soon", "wakes")

    def __init__(self, commit: Commit, soon: Soon | None = None, *, wakes: bool = True) -> None:
        self.commit = commit
        self.error: BaseException | None = None
        self.soon = soon
        self.wakes = wakes
        """Whether its thread can be relied on to wake another one."""
        self._next: _Member | None = None
        if soon is None:
            self._asleep = threading.Lock()
            self._asleep.acquire()

    def wait(self) -> None:
        self._asleep.acquire()
        if self._next is not None:
            self._next.wake()

    def finish(self, error: BaseException | None) -> None:
        self.error = error
        if self.soon is not None:
            self.soon.tell(error)

    def wake(self) -> None:
        self._asleep.release()

    def wake_after(self, other: _Member) -> None:
        """Let another member, which is still asleep, wake this one."""
        other._next = self


def _wake_threads(finished: list[_Member]) -> None:
    """Wake a few threads and let each of them wake one more."""
    links = [member for member in finished if member.wakes]
    for earlier, later in zip(links, links[WOKEN_AT_ONCE:], strict=False):
        later.wake_after(earlier)
    for member in finished:
        if not member.wakes:
            member.wake()
    for member in links[:WOKEN_AT_ONCE]:
        member.wake()
