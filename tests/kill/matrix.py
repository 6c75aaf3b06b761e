"""What must be true after a kill, and after the resume? The expectations, written down by hand.

Nothing here asks the code under test. A state is what a crash left behind: how the ledger row
stands, and how often the effect really happened. ``after_kill`` says which state a kill leads to,
``ENDINGS`` what the next process makes of a state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tests.kill.agents import RESULT
from tests.kill.processes import Agent, Case

EFFECTFUL = ("keyed", "unsafe", "verified", "settled")


@dataclass(frozen=True)
class State:
    """What a crash left behind."""

    row: str | None = None
    effects: int = 0
    attempts: int = 0
    """What the row says about attempts; each must have been recorded before it was made."""
    settled_by: str | None = None
    """What ended a doubt about it, if there was one and it ended."""

    @property
    def doubtful(self) -> tuple[str | None, int]:
        return self.row, self.effects


@dataclass(frozen=True)
class Ending:
    """What the next process makes of a state: how it goes about it, and how it ends."""

    course: str
    effects: int
    """At the upstream, when all is done."""

    @property
    def waits(self) -> bool:
        return self.course.endswith("review")


CLEAN = State()
# The row and the effects that a process finds, for each kind of tool → what it must do about them.
ENDINGS: dict[str, dict[tuple[str | None, int], Ending]] = {
    "keyed": {
        (None, 0): Ending("first attempt", 1),
        ("PENDING", 0): Ending("another attempt", 1),
        # The upstream recognises the stored key, so another attempt is not another effect.
        ("PENDING", 1): Ending("another attempt", 1),
        ("DONE", 1): Ending("receipt", 1),
    },
    "unsafe": {
        (None, 0): Ending("first attempt", 1),
        ("PENDING", 0): Ending("review", 0),
        ("PENDING", 1): Ending("review", 1),
        ("DONE", 1): Ending("receipt", 1),
    },
    "verified": {
        (None, 0): Ending("first attempt", 1),
        ("PENDING", 0): Ending("verify, review", 0),
        ("PENDING", 1): Ending("verify, receipt", 1),
        ("DONE", 1): Ending("receipt", 1),
    },
    "settled": {
        (None, 0): Ending("first attempt", 1),
        ("PENDING", 0): Ending("verify, another attempt", 1),
        ("PENDING", 1): Ending("verify, receipt", 1),
        ("DONE", 1): Ending("receipt", 1),
    },
}

ATTEMPT = (
    "before intent",
    "after intent",
    "body start",
    "held after",
    "body end",
    "before result",
    "after result",
)
# The places that a process passes on each course, in order.
PLACES: dict[str, tuple[str, ...]] = {
    "first attempt": ("before claim", "after claim", *ATTEMPT, "after the call", "before release"),
    "another attempt": ("after claim", *ATTEMPT),
    "review": ("after claim", "before review", "after review", "after release"),
    "verify, review": ("verify start", "verify end", "before review", "after review"),
    "verify, receipt": ("verify start", "verify end", "before result", "after result"),
    "verify, another attempt": ("verify start", "verify end", *ATTEMPT),
    "receipt": ("after claim", "after the call", "after release"),
}


def after_kill(kind: str, state: State, place: str) -> State:
    """The state that a kill at this place leaves behind."""
    course = ENDINGS[kind][state.doubtful].course
    if place in ("after the call", "before release"):
        return replace(state, row="DONE", effects=1, attempts=max(state.attempts, 1))
    if "attempt" not in course:
        # The result is the one that verify gave.
        found = replace(state, row="DONE", settled_by="verify")
        return found if place == "after result" else state
    match place:
        case "after intent" | "body start":
            return State("PENDING", state.effects, state.attempts + 1)
        case "held after" | "body end" | "before result":
            return State("PENDING", 1, state.attempts + 1)
        case "after result":
            return State("DONE", 1, state.attempts + 1)
    return state


def kill_at(case: Case, place: str, kind: str, *, is_async: bool) -> Agent:
    """Let a process run until it dies at this place."""
    if place != "held after":
        agent = case.finish(kind=kind, is_async=is_async, die_at=place)
    else:
        # The upstream has applied the effect and keeps its answer back.
        gate = case.gate(f"of process {case.started + 1}")
        agent = case.start(kind=kind, is_async=is_async, faults={"hold": gate})
        case.client.wait_until_held(gate)
        agent.kill()
        case.client.release(gate)
    assert agent.was_killed, f"{place!r} was not reached: {agent.lines}"
    return agent


def check_state(case: Case, state: State) -> None:
    """Compare the upstream and the ledger with what they must show."""
    found = [(row["status"], row["attempt"]) for row in case.rows()]
    assert case.effects() == state.effects
    assert found == ([] if state.row is None else [(state.row, state.attempts)])


def check_ending(case: Case, kind: str, state: State, resumed: Agent) -> None:
    """The resumed process did what its class allows, and the upstream shows it."""
    ending = ENDINGS[kind][state.doubtful]
    fired = "attempt" in ending.course
    attempts = state.attempts + 1 if fired else state.attempts
    assert resumed.exit_code == 0
    check_state(case, State("PENDING" if ending.waits else "DONE", ending.effects, attempts))
    if ending.waits:
        assert resumed.said["error"] == "ReplayUnsafeError"
        assert resumed.said["non_retryable"] is True
        assert resumed.said["review"] == case.open_review()
        assert case.run_record()["status"] == "waiting"
    else:
        assert resumed.said["value"] == RESULT
        assert resumed.said["replayed"] is (ending.course != "first attempt")
        settled_by = "verify" if ending.course == "verify, receipt" else state.settled_by
        assert case.row()["settled_by"] == settled_by
        assert case.run_record()["status"] == "completed"
        assert [one for one in case.reviews() if one["status"] in ("open", "decided")] == []
    assert case.run_record()["holder_id"] is None


def cases_of_two_kills() -> list[Any]:
    """Every kind, every kind of doubt, and every place on the way out of it."""
    found = []
    for kind in EFFECTFUL:
        # Without a doubt to begin with, the kinds do not differ: one of them is enough.
        certain = ("before intent", "after result") if kind == "unsafe" else ()
        for first in ("after intent", "body end", *certain):
            state = after_kill(kind, CLEAN, first)
            for second in PLACES[ENDINGS[kind][state.doubtful].course]:
                found.append((kind, first, second))
    return found
