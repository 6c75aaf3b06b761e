"""Is what was stored never recomputed by new code? Keys, windows, classes, arguments (D3, D12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kill.agents import RESULT
from tests.kill.matrix import State, check_state, kill_at
from tests.kill.processes import Agent, Case

both = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


def check_waits(case: Case, resumed: Agent, *, effects: int) -> None:
    """The run waits for a person, and nothing was sent."""
    assert resumed.said["error"] == "ReplayUnsafeError"
    assert resumed.said["review"] == case.open_review()
    check_state(case, State("PENDING", effects, 1))


# Keys.


@both
@pytest.mark.parametrize("place", ["after intent", "body end"])
def test_a_reissue_sends_the_stored_key_even_if_the_template_has_changed(
    case: Case, place: str, is_async: bool
) -> None:
    kill_at(case, place, "keyed", is_async=is_async)
    new_code: dict[str, Any] = {"options": {"key": "repayment-{order}-{cents}"}}
    resumed = case.finish(kind="keyed", is_async=is_async, **new_code)
    assert resumed.said["value"] == RESULT
    assert [effect.key for effect in case.world.effects(case.effect)] == ["refund-7"]
    assert case.row()["idempotency_key"] == "refund-7"
    check_state(case, State("DONE", 1, 2))


# The upstream forgets keys after its window: 24 hours here, less a minute for the way there.
WINDOWS: list[tuple[str, dict[str, Any], float, bool]] = [
    ("well inside", {}, 23.9, True),
    ("too late to arrive inside", {}, 23.995, False),
    ("passed", {}, 25, False),
    ("passed by what new code knows", {"window": "2h"}, 3, False),
    ("not reopened by new code", {"window": "72h"}, 25, False),
    ("on a clock that jumped back", {}, -2, False),
]


@pytest.mark.parametrize(
    ("options", "hours", "is_open"), [one[1:] for one in WINDOWS], ids=[one[0] for one in WINDOWS]
)
def test_a_keyed_call_is_reissued_only_while_the_upstream_remembers_its_key(
    case: Case, options: dict[str, Any], hours: float, is_open: bool
) -> None:
    kill_at(case, "body end", "keyed", is_async=False)
    resumed = case.finish(kind="keyed", options=options, hours_ahead=hours)
    if is_open:
        assert resumed.said["value"] == RESULT
        check_state(case, State("DONE", 1, 2))
    else:
        check_waits(case, resumed, effects=1)


def test_the_window_counts_from_the_first_intent_and_not_from_the_last(case: Case) -> None:
    for hours in (0, 20):
        crash = case.finish(kind="keyed", die_at="after intent", hours_ahead=hours)
        assert crash.was_killed
    check_state(case, State("PENDING", 0, 2))
    resumed = case.finish(kind="keyed", hours_ahead=30)
    assert resumed.said["error"] == "ReplayUnsafeError"
    check_state(case, State("PENDING", 0, 2))


@pytest.mark.parametrize("applied", [False, True])
def test_past_its_window_a_keyed_call_with_verify_is_treated_as_unsafe(
    case: Case, applied: bool
) -> None:
    plan: dict[str, Any] = {"kind": "keyed_and_verified"}
    crash = "body end" if applied else "body start"
    assert case.finish(**plan, die_at=crash).was_killed
    resumed = case.finish(**plan, hours_ahead=25)
    if applied:
        assert resumed.said["settled_by"] == "verify"
        check_state(case, State("DONE", 1, 1))
    else:
        check_waits(case, resumed, effects=0)


# Classes: recorded → declared by new code → what is done about a call in doubt that took effect.
CLASSES: list[tuple[str, str, str]] = [
    ("unsafe", "keyed", "a person is asked"),
    ("unsafe", "pure", "a person is asked"),
    ("keyed", "unsafe", "a person is asked"),
    ("keyed", "pure", "reissued with the stored key"),
    ("keyed", "verified", "verified"),
    ("unsafe", "verified", "verified"),
    ("verified", "unsafe", "a person is asked"),
    ("verified", "keyed", "a person is asked"),
]


@pytest.mark.parametrize(("recorded", "declared", "what_is_done"), CLASSES)
def test_new_code_can_tighten_a_class_and_never_loosen_it(
    case: Case, recorded: str, declared: str, what_is_done: str
) -> None:
    kill_at(case, "body end", recorded, is_async=False)
    resumed = case.finish(kind=declared)
    match what_is_done:
        case "a person is asked":
            check_waits(case, resumed, effects=1)
        case "reissued with the stored key":
            assert resumed.said["value"] == RESULT
            check_state(case, State("DONE", 1, 2))
        case "verified":
            assert resumed.said["settled_by"] == "verify"
            check_state(case, State("DONE", 1, 1))
    classes = {"keyed": "idempotent_with_key"}
    assert case.row()["replay_class"] == classes.get(recorded, "unsafe_on_replay")
    assert case.row()["idempotency_key"] == ("refund-7" if recorded == "keyed" else None)


@pytest.mark.parametrize("declared", ["pure", "keyed", "unsafe"])
def test_a_receipt_is_handed_out_whatever_class_new_code_declares(
    case: Case, declared: str
) -> None:
    case.finish(kind="unsafe")
    assert case.finish(kind=declared).said["replayed"] is True
    check_state(case, State("DONE", 1, 1))


# Tools that are gone or have changed.


@pytest.mark.parametrize("kind", ["keyed", "settled"])
@pytest.mark.parametrize("program", ["without_tools", "with_another_signature"])
def test_a_call_in_doubt_that_new_code_cannot_make_any_more_waits_for_a_person(
    case: Case, kind: str, program: str
) -> None:
    kill_at(case, "body start", kind, is_async=False)
    for _ in range(3):
        resumed = case.finish(program, kind=kind)
        check_waits(case, resumed, effects=0)
        why = {
            "without_tools": "does not declare its tool",
            "with_another_signature": "its recorded arguments no longer fit the tool",
        }
        assert why[program] in resumed.said["text"]
    # The old code could still do it, but a person has been asked.
    assert case.finish(kind=kind).said["review"] == case.open_review()
    case.decide("did-not-happen")
    # Code that cannot use the decision leaves it unchanged, and asks no person again.
    for _ in range(3):
        unable = case.finish(program, kind=kind)
        assert "cannot be used yet" in unable.said["text"]
        assert "undo --why TEXT" in unable.said["text"]
    assert [one["status"] for one in case.reviews()] == ["decided"]
    assert case.finish(kind=kind).said["value"] == RESULT
    check_state(case, State("DONE", 1, 2))


@pytest.mark.parametrize("program", ["without_tools", "with_another_signature"])
def test_that_it_happened_is_recorded_by_code_that_could_not_make_the_call(
    case: Case, program: str
) -> None:
    kill_at(case, "body end", "unsafe", is_async=False)
    assert case.finish(program).said["review"] == case.open_review()
    case.decide("happened", result={"receipt": "found"})
    assert case.finish(program).said["opened"] is True
    check_state(case, State("DONE", 1, 1, settled_by="decision by ann"))
    receipt = case.finish()
    assert (receipt.said["value"], receipt.said["replayed"]) == ({"receipt": "found"}, True)
    assert case.effects() == 1
    assert [one["status"] for one in case.reviews()] == ["used"]
