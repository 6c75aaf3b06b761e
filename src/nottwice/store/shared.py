"""Sharing commits: many runs, one fsync.

A caller that is alone commits inline, in its own thread. When others arrive meanwhile, the first
of them leads the next batch for all. There is no writer thread; only callers that must not block
(event loops) are led by a small pool thread. Success is reported after COMMIT, never before.

There is always exactly one leader while anybody waits, also when an interrupt strikes a leader:
``_leader`` is the single fact about it, and whoever leaves early passes it on.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from nottwice.store.interface import Commit, CommitMany

MOST_IN_A_BATCH = 256


class SharedCommits:
    """Gathers commits of concurrent callers into batches for ``commit_many``."""

    def __init__(self, commit_many: CommitMany) -> None:
        self._commit_many = commit_many
        self._lock = threading.Lock()
        self._waiting: deque[_Member] = deque()
        self._leader: object | None = None
        self._pool: ThreadPoolExecutor | None = None

    def commit(self, commit: Commit) -> None:
        """Commit and wait. Durable: when it returns."""
        member = _Member(commit)
        try:
            with self._lock:
                if self._leader is None:
                    self._leader = member
                else:
                    member.fall_asleep()
                    self._waiting.append(member)
            if self._leader is member:
                self._commit_batch([member])
            else:
                member.wait()
                if self._leader is member:
                    self._commit_batch(self._take_batch())
        finally:
            self._leave(member)
        if member.error is not None:
            raise member.error

    def commit_soon(self, commit: Commit) -> Future[None]:
        """Commit without blocking. Durable: when the future has a result."""
        member = _Member(commit, future=Future())
        assert member.future is not None
        # A waiter that is cancelled must not cancel the commit: the batch tells every member.
        member.future.set_running_or_notify_cancel()
        with self._lock:
            self._waiting.append(member)
            start = self._leader is None
            if start:
                self._leader = self
        if start:
            self._lead_from_pool()
        return member.future

    def close(self) -> None:
        """Wait for what is under way and give the pool thread back."""
        if self._pool is not None:
            self._pool.shutdown(wait=True)
            self._pool = None

    def _take_batch(self) -> list[_Member]:
        with self._lock:
            size = min(len(self._waiting), MOST_IN_A_BATCH)
            return [self._waiting.popleft() for _ in range(size)]

    def _commit_batch(self, batch: list[_Member]) -> None:
        """Commit for all, pass the lead on, then wake everybody up."""
        outcomes: Sequence[BaseException | None]
        try:
            outcomes = self._commit_many([member.commit for member in batch])
        except BaseException as error:
            # Whatever struck here (an interrupt, say) struck all: nobody may believe in success.
            outcomes = [error] * len(batch)
        self._hand_over()
        for member, outcome in zip(batch, outcomes, strict=True):
            member.finish(outcome)

    def _hand_over(self) -> None:
        with self._lock:
            following = self._waiting[0] if self._waiting else None
            if following is None:
                self._leader = None
                return
            if following.future is None and not following.gone:
                self._leader = following
                following.wake()
                return
            self._leader = self
        self._lead_from_pool()

    def _leave(self, member: _Member) -> None:
        """Make sure that a caller that leaves, however it leaves, does not take the lead along."""
        member.gone = True
        if self._leader is member:
            self._hand_over()

    def _lead_from_pool(self) -> None:
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="nottwice-commit")
            self._pool.submit(self._lead_in_pool)
        except RuntimeError:
            # The interpreter is shutting down and starts no more threads.
            self._lead_in_pool()

    def _lead_in_pool(self) -> None:
        self._commit_batch(self._take_batch())


class _Member:
    """One caller's commit: its thread sleeps until it is done or must lead, or it has a future."""

    def __init__(self, commit: Commit, *, future: Future[None] | None = None) -> None:
        self.commit = commit
        self.future = future
        self.error: BaseException | None = None
        self.gone = False
        self._asleep: threading.Lock | None = None

    def fall_asleep(self) -> None:
        self._asleep = threading.Lock()
        self._asleep.acquire()

    def wait(self) -> None:
        assert self._asleep is not None
        self._asleep.acquire()

    def wake(self) -> None:
        assert self._asleep is not None
        if self._asleep.locked():
            self._asleep.release()

    def finish(self, error: BaseException | None) -> None:
        self.error = error
        if self.future is not None:
            if error is None:
                self.future.set_result(None)
            else:
                self.future.set_exception(error)
        elif self._asleep is not None and not self.gone:
            self.wake()
