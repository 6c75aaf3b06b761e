"""Sharing commits: many runs, one fsync.

A caller that is alone commits inline, in its own thread. Of those who arrive meanwhile the first
leads the next batch, for all. There is no writer thread; only callers that must not block (event
loops) are led by a small pool thread. Success is reported after COMMIT, never before.

An interrupt (KeyboardInterrupt) strikes the main thread between any two instructions, so the main
thread has no duties to others: it commits alone, or joins a batch that somebody else leads. The
lead is a lock that is only ever taken by ``with``, which no interrupt can leave behind.

Of the threads that a batch was committed for only a few are woken at once, and each of them wakes
one more. Were all woken together, most would only wait again, for the interpreter's lock, and
fight over it with whoever commits the next batch: twice as many changes of thread a call.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from nottwice.errors import CommitUnknown
from nottwice.store.interface import Commit, CommitMany
from nottwice.store.soon import Soon, wake

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
        """Who will lead the next batch: a waiting member, or this object for the pool thread."""
        self._will_look: asyncio.AbstractEventLoop | None = None
        """The event loop that was told last to find a leader, until it has looked for one."""
        self._pool: ThreadPoolExecutor | None = None
        # A forked child, in which another thread may be the main one, opens its store anew.
        self._main_thread = threading.main_thread().ident

    def commit(self, commit: Commit) -> None:
        """Commit and wait. Durable: when it returns."""
        if threading.get_ident() != self._main_thread:
            error = self._commit_or_lead(commit)
        elif self._next is None:
            with self._lead:
                error = self._commit_many((commit,))[0]
        else:
            error = self._commit_without_duties(commit)
        if error is not None:
            raise error

    def commit_soon(self, commit: Commit) -> Soon:
        """Commit without blocking. Durable: when the future has a result."""
        soon = Soon()
        with self._guard:
            self._waiting.append(_Member(commit, soon))
            led_by_nobody = self._next is None
        if led_by_nobody:
            if soon.loop is None:
                self._find_leader()
            elif soon.loop is not self._will_look:
                # Once all tasks that can go on now have said what they want to commit: one batch.
                soon.loop.call_soon(self._find_leader)
                # Again: an interrupt that strikes as the loop calls the first one loses it.
                soon.loop.call_soon(self._find_leader)
                # Noted down last: an interrupt in between costs a needless look.
                self._will_look = soon.loop
        return soon

    def _find_leader(self) -> None:
        """Let the pool thread lead those who wait, unless somebody else already will."""
        self._will_look = None
        with self._guard:
            # Noted down last: an interrupt in between costs a needless look, not the lead.
            asked = self._next is not None or not self._waiting or self._ask_pool()
            if asked and self._next is None and self._waiting:
                self._next = self
        if not asked:
            self._lead_batch()

    def close(self) -> None:
        """Wait for what is under way and give the pool thread back."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown(wait=True)
        if self._waiting:
            # Their event loop was about to find a leader, and may never run again.
            self._lead_batch()

    def _commit_without_duties(self, commit: Commit) -> BaseException | None:
        """The main thread: in a batch if somebody is still there to lead it, and else alone."""
        with self._guard:
            member = _Member(commit, wakes=False) if self._next is not None else None
            if member is not None:
                self._waiting.append(member)
        if member is None:
            with self._lead:
                return self._commit_many([commit])[0]
        member.wait()
        return member.error

    def _commit_or_lead(self, commit: Commit) -> BaseException | None:
        member = _Member(commit)
        with self._guard:
            self._waiting.append(member)
            leads = self._next is None
            if leads:
                self._next = member
                # It has other things to do first, whenever it leads more than one batch.
                member.wakes = False
        if leads:
            self._lead_batch()
        # Who leads may still have to wait: a full batch goes on without it, led by somebody else.
        member.wait()
        return member.error

    def _lead_batch(self) -> None:
        """Commit for all who wait, give up the lead, then wake everybody."""
        led_by_nobody = True
        while led_by_nobody:
            with self._lead:
                batch = self._take_batch()
                outcomes = self._outcomes(batch) if batch else ()
            for member, outcome in zip(batch, outcomes, strict=True):
                member.finish(outcome)
            _wake_threads([member for member in batch if member.soon is None])
            wake(member.soon for member in batch if member.soon is not None)
            # Those who did not fit in. Whoever came later leads, or will find somebody who does.
            with self._guard:
                left_over = len(batch) == MOST_IN_A_BATCH and bool(self._waiting)
                led_by_nobody = left_over and self._next is None

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
            # Whatever struck here struck all: nobody may believe in success, or in failure.
            text = f"A shared commit was broken off ({error!r}). It may or may not be durable."
            return [CommitUnknown(text) for _ in batch]

    def _ask_pool(self) -> bool:
        """Let the pool thread lead a batch; False when no thread can be had any more."""
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="nottwice-commit")
            self._pool.submit(self._lead_batch)
        except RuntimeError:
            # The interpreter is shutting down, or the pool was closed at this very moment.
            return False
        return True


class _Member:
    """One caller's commit: its thread sleeps until it is done, or will hear of it soon."""

    __slots__ = ("_asleep", "_next", "commit", "error", "soon", "wakes")

    def __init__(self, commit: Commit, soon: Soon | None = None, *, wakes: bool = True) -> None:
        self.commit = commit
        self.error: BaseException | None = None
        self.soon = soon
        self.wakes = wakes
        """Whether its thread can be relied upon to wake another one."""
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
        """Leave it to another one, which is not awake yet, to wake this one."""
        other._next = self


def _wake_threads(finished: list[_Member]) -> None:
    """Wake a few, and leave it to each of them to wake one more."""
    links = [member for member in finished if member.wakes]
    for earlier, later in zip(links, links[WOKEN_AT_ONCE:], strict=False):
        later.wake_after(earlier)
    for member in finished:
        if not member.wakes:
            member.wake()
    for member in links[:WOKEN_AT_ONCE]:
        member.wake()
