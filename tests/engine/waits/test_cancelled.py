"""Does a run notice that it was cancelled, without asking for it all the time?"""

from __future__ import annotations

import pytest

from nottwice.engine.asks import Read
from nottwice.engine.session import Session
from nottwice.engine.waits.cancelled import LOOK_SECONDS, left_word, stop_if_cancelled
from nottwice.engine.waits.stops import Stops
from nottwice.errors import RunAborted
from nottwice.model.run import CANCEL, EventRecord

WORD = EventRecord("r", CANCEL, CANCEL, '{"by":"ann","why":"called off"}', 0.0, "ann")


class Watched:
    """A session of which only its clock counts, and how often it looked."""

    run_id = "r"

    def __init__(self) -> None:
        self.clock = self
        self.at = 100.0
        self.looked_for_word = (float("-inf"), 0)
        self.stops = Stops()

    def now(self) -> float:
        return self.at

    def look_for_word(self, now: float, words: int) -> None:
        self.looked_for_word = (now, words)

    def looks(self, *found: EventRecord) -> bool:
        doing = stop_if_cancelled(_as_session(self))
        asked = list(_first(doing))
        if asked:
            with pytest.raises(StopIteration):
                doing.send(list(found))
        return bool(asked)


def _first(doing: object) -> list[Read]:
    try:
        return [next(doing)]  # type: ignore[call-overload]
    except StopIteration:
        return []


def _as_session(watched: Watched) -> Session:
    return watched  # type: ignore[return-value]


def test_it_looks_at_first_and_then_now_and_again() -> None:
    watched = Watched()
    assert watched.looks()
    assert not watched.looks()
    watched.at += LOOK_SECONDS / 2
    assert not watched.looks()
    watched.at += LOOK_SECONDS
    assert watched.looks()


def test_a_cancellation_made_in_this_process_is_looked_for_immediately() -> None:
    watched = Watched()
    assert watched.looks()
    left_word()
    assert watched.looks()
    assert not watched.looks()


def test_a_clock_that_was_put_back_does_not_keep_it_from_looking() -> None:
    watched = Watched()
    assert watched.looks()
    watched.at -= 3600
    assert watched.looks()


def test_a_cancelled_run_says_by_whom_and_why() -> None:
    with pytest.raises(RunAborted, match="cancelled by ann: called off"):
        Watched().looks(WORD)
