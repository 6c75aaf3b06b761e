"""The only thing that our tests replace: time. Everything else in them is real."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.clock import SystemClock
from nottwice.guard import registry
from nottwice.guard.attached import joining
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import Review, Verb
from nottwice.reviews.decide import decide
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryData, MemoryStore


class Killed(BaseException):
    """Plays SIGKILL in a test that kills inside one process; nothing may catch it."""


@contextmanager
def another_program() -> Iterator[None]:
    """Tools that are declared inside are those of another program, and end with it."""
    declared = registry.remember_tools()
    registry.forget_tools()
    try:
        yield
    finally:
        registry.forget_tools(known=declared)


class FakeClock:
    """A clock that moves only when told to, or when someone pauses."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.time = now
        self.pauses: list[float] = []
        self._put_off: list[tuple[float, Callable[[], None]]] = []
        self._guard = threading.Lock()

    def now(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        with self._guard:
            self.time += seconds

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.advance(seconds)

    async def pause_async(self, seconds: float) -> None:
        self.pause(seconds)

    def random_unit(self) -> float:
        return 1.0

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """There are no background calls here; ``make_due`` makes what was put off."""
        self._put_off.append((self.now() + seconds, call))

    def make_due(self, after: float | None = None) -> None:
        """Make the calls that were put off; ``after``: only those due within that many seconds."""
        until = None if after is None else self.now() + after
        put_off, self._put_off = self._put_off, []
        for due, call in put_off:
            if until is None or due <= until:
                call()
            else:
                self._put_off.append((due, call))


class UnhurriedClock(SystemClock):
    """The real time, in which nothing that waits for a commit gets one of its own.

    For tests that count commits: on a busy machine a moment may pass anywhere.
    """

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        return None


class Host:
    """A machine whose processes come and go: each ``process()`` finds what the last one left."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.data = MemoryData()
        self.points = 0

    @contextmanager
    def process(self, *, dies_at: int | None = None) -> Iterator[nt.Ledger]:
        """A process that opens the ledger; when the block ends, it is dead.

        With ``dies_at`` it dies earlier, at that point, and the block ends there.
        """
        store = MortalStore(self.data, dies_at=dies_at, now=self.clock.now())
        try:
            yield nt.Ledger(store, clock=self.clock)
        except Killed:
            assert store.dead
        finally:
            self.points = store.points
            store.close()
            for joined in list(joining._joined.values()):
                # Only this process was attached to it, and it is dead.
                if joined.is_usable and joined.session.store is store:
                    joined.drop()

    @property
    def calls(self) -> list[CallRow]:
        """All rows of the ledger, oldest first."""
        return sorted(self.data.calls.values(), key=lambda row: row.created_at)

    @property
    def open_reviews(self) -> list[Review]:
        return MemoryStore(self.data).open_reviews()

    def decide(self, verb: Verb, *, result: object = None, why: str = "looked") -> Review:
        """Decide the one open review, as a person would."""
        (review,) = self.open_reviews
        return decide(
            MemoryStore(self.data),
            self.clock,
            review.review_id,
            verb,
            by="ann",
            why=why,
            result=result,
            has_result=verb in (Verb.HAPPENED, Verb.ANSWER),
        )


class MortalStore(MemoryStore):
    """A store whose process dies at a chosen point: just before or after one of its commits.

    After that nothing can be read or written through it, so whatever the dying process still
    runs has no durable trace: the state it leaves is the state a SIGKILL leaves.
    """

    def __init__(self, data: MemoryData, *, dies_at: int | None = None, now: float = 0.0) -> None:
        super().__init__(data, now=now)
        self.points = 0
        self.dead = False
        self._dies_at = dies_at

    def commit(self, commit: Commit) -> None:
        self._point()
        super().commit(commit)
        self._point()

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        self._check_alive()
        return super().load_call(identity)

    def open_reviews(self, workflow_id: str | None = None) -> list[Review]:
        self._check_alive()
        return super().open_reviews(workflow_id)

    def _point(self) -> None:
        self._check_alive()
        self.points += 1
        if self.points == self._dies_at:
            self.dead = True
            self.close()
            raise Killed

    def _check_alive(self) -> None:
        if self.dead:
            raise Killed


def dying(ledger: nt.Ledger) -> Callable[[dict[str, Any]], None]:
    """The body of a call in which the process of a `Host` dies, after the effect."""
    store = ledger.store
    assert isinstance(store, MortalStore)

    def body(arguments: dict[str, Any]) -> None:
        store.dead = True
        store.close()
        raise Killed

    return body


def unwanted(arguments: dict[str, Any]) -> None:
    """The body of a call that must not be made; its failure is not taken for the tool's."""
    pytest.fail(f"The call was made, with {arguments}")
