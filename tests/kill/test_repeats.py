"""Is the same call one effect, and a repeat on purpose another? (L5, L6)"""

from __future__ import annotations

import pytest

from tests.kill.agents import RESULT
from tests.kill.processes import Case

# Outside any step, three visits of steps, and two labels.
EFFECTS = 6


@pytest.mark.parametrize("kind", ["unsafe", "keyed"])
def test_the_same_call_is_one_effect_per_step_and_a_labelled_one_is_another(
    case: Case, kind: str
) -> None:
    # A business key would make all of them one at the upstream, whatever the ledger says.
    options = {"key_per_call": True} if kind == "keyed" else {}
    for resumed in (False, True):
        agent = case.finish("same_run_calls", kind=kind, more=options)
        receipts = [line for line in agent.words if "replayed" in line]
        first_of_each = [False, True] * 4
        assert [one["replayed"] for one in receipts] == ([True] * 8 if resumed else first_of_each)
        assert len({one["id"] for one in receipts}) == 4
        assert [line["value"] for line in agent.words] == [RESULT] * 11
        assert case.effects() == EFFECTS
        assert [row["status"] for row in case.rows()] == ["DONE"] * EFFECTS
    assert [row["label"] for row in case.rows()] == [None] * 4 + ["second parcel", "third parcel"]


@pytest.mark.sampled(part="sweeps", keep=6)
@pytest.mark.parametrize("visit", range(1, EFFECTS + 1))
@pytest.mark.parametrize("place", ["after intent", "before result", "after result"])
def test_a_program_of_repeats_killed_anywhere_makes_each_of_them_once(
    case: Case, place: str, visit: int
) -> None:
    plan = {"kind": "settled", "die_at": place, "die_at_visit": visit}
    assert case.finish("same_run_calls", **plan).was_killed
    assert case.effects() == (visit - 1 if place == "after intent" else visit)
    agent = case.finish("same_run_calls", kind="settled")
    assert [line["value"] for line in agent.words] == [RESULT] * 11
    assert case.effects() == EFFECTS
    assert [row["status"] for row in case.rows()] == ["DONE"] * EFFECTS


def test_a_keyed_repeat_on_purpose_has_a_key_of_its_own(case: Case) -> None:
    plan = {"kind": "keyed", "die_at": "before result", "die_at_visit": 2}
    visits = [["run", "pack", None, "act", 7, label] for label in (None, "second parcel")]
    more = {"tools": ["act"], "visits": visits}
    assert case.finish("visits", **plan, more=more).was_killed
    assert case.effects() == 2
    case.finish("visits", kind="keyed", more=more)
    keys = [row["idempotency_key"] for row in case.rows()]
    assert keys[0] == "refund-7"
    assert keys[1].startswith("refund-7#")
    assert case.effects() == 2
