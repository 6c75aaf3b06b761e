"""Does a forked child leave its parent's run alone, and take it over from a dead parent? (D9)"""

from __future__ import annotations

import pytest

from tests.kill.agents import RESULT
from tests.kill.matrix import EFFECTFUL, State, check_state
from tests.kill.processes import Case


@pytest.mark.parametrize("kind", EFFECTFUL)
@pytest.mark.parametrize("applied", [False, True], ids=["before the effect", "after the effect"])
def test_a_forked_child_neither_uses_nor_overtakes_its_parents_run_until_it_is_dead(
    case: Case, kind: str, applied: bool
) -> None:
    held, gate = case.gate("parent"), case.gate("child")
    parent = case.start(
        "fork_inside",
        kind=kind,
        faults={"hold" if applied else "hold_before": held},
        more={"gate": gate},
    )
    assert parent.hear("error")["error"] == "NotInRun"
    busy = parent.hear("error")
    assert busy["error"] == "RunBusy"
    assert f"pid {parent.pid} on " in busy["text"]
    child = parent.hear("child")["child"]
    case.client.wait_until_held(held)
    assert child != parent.pid
    check_state(case, State("PENDING", int(applied), 1))
    assert parent.kill().was_killed
    # The child has inherited everything but the right to prove that its parent lives.
    case.client.release(gate)
    parent.hear("child_done")
    heir = parent.said
    confirmed = applied and kind in ("verified", "settled")
    if kind == "keyed" or kind == "settled" or confirmed:
        assert heir["value"] == RESULT
        assert heir["settled_by"] == ("verify" if confirmed else None)
        check_state(case, State("DONE", 1, 1 if confirmed else 2))
    else:
        assert heir["review"] == case.open_review()
        check_state(case, State("PENDING", int(applied), 1))
    if kind == "keyed":
        case.client.release(held)
    assert case.effects() == (1 if applied or "value" in heir else 0)


def test_a_child_that_leaves_its_parents_block_does_not_give_the_run_up(case: Case) -> None:
    gate = case.gate("parent")
    parent = case.start("fork_and_leave", faults={"hold_before": gate})
    parent.hear("child_left")
    case.client.wait_until_held(gate)
    record = case.run_record()
    assert record["status"] == "running"
    assert record["holder_id"] == case.row()["holder_id"]
    assert case.finish().said["error"] == "RunBusy"
    case.client.release(gate)
    assert parent.end().said["value"] == RESULT
    check_state(case, State("DONE", 1, 1))
