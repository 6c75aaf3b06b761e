"""Does the count of what was done agree with the ledger, and say when it stopped counting?"""

from __future__ import annotations

from pathlib import Path

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunStatus
from nottwice.views.ledger.activity import activity_since
from nottwice.views.ledger.behind import rows_behind
from tests.cli.workplace import Workplace

DAY = 86400.0


def test_every_call_is_counted_once(killed: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        found = activity_since(ledger, DAY)
        rows = [row for run in ledger.store.runs() for row in ledger.store.calls(run.workflow_id)]
        assert any(run.status is RunStatus.RUNNING for run in ledger.store.runs())
    assert (found.runs, found.calls, found.is_complete) == (5, len(rows), True)
    done = [row for row in rows if row.replay_class.effectful and row.finished_at]
    assert found.effects == len(done) == sum(found.effects_over_time)
    assert found.effects_per_minute == round(found.effects_over_time[-1] / 24, 3) > 0
    tools = {one.tool: (one.calls, one.in_doubt) for one in found.by_tool}
    assert tools["send_email"] == (3, 2)
    assert tools["refund"] == (5, 2)
    assert sum(one.calls for one in found.by_tool) == len(rows)
    assert found.resumed == 3
    assert found.killed == 3


def test_what_was_before_does_not_count(killed: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        found = activity_since(ledger, 0.0)
    # The run whose process died still counts as running, but none of its calls is recent.
    assert (found.calls, found.effects) == (0, 0)


def test_a_limit_that_was_reached_is_told(killed: Workplace) -> None:
    with Ledger(killed.store, create=False) as ledger:
        few = activity_since(ledger, DAY, most_runs=2)
        short = activity_since(ledger, DAY, most_calls=3)
    assert (few.runs, few.is_complete) == (2, False)
    assert (short.calls, short.is_complete) == (3, False)


def test_what_a_resumed_run_got_from_the_ledger_is_counted(workplace: Workplace) -> None:
    (review,) = workplace.json("reviews")["reviews"][1:2]
    assert review["run_id"] == "ticket-9"
    said = ["--why", "not there", "--store", workplace.store]
    workplace.cli("decide", review["review_id"], "did-not-happen", *said)
    assert workplace.agent("handle", "ticket-9").exit_code == 0
    with Ledger(workplace.store, create=False) as ledger:
        found = activity_since(ledger, DAY)
    # It asked for the order again and got the answer of the first opening.
    assert found.receipts == 1 == sum(found.receipts_over_time)


@nt.tool("pure")
def activity_look(order: int) -> str:
    return "found"


@nt.tool("unsafe_on_replay")
def activity_mail(to: str) -> str:
    return f"mailed {to}"


def test_an_effect_that_was_asked_for_again_is_a_duplicate_prevented(tmp_path: Path) -> None:
    """P341: also within one opening, and reads do not count."""
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        for _ in range(2):
            with ledger.run("r"):
                activity_look(7)
                for _ in range(2):
                    activity_mail("ann")
        found = activity_since(ledger, DAY)
        behind = rows_behind(ledger, "duplicates", DAY)
        told = [one.duplicates for one in ledger.run_record("r").openings or ()]
    assert (found.effects, found.receipts, found.duplicates) == (1, 3, 3)
    assert (behind.total, told) == (3, [1, 2])


def test_a_note_of_a_child_run_is_not_counted(graph_runs: Workplace) -> None:
    with Ledger(graph_runs.store, create=False) as ledger:
        noted = [row.identity.tool_name for row in ledger.store.calls("parent-1")]
        found = activity_since(ledger, DAY)
        behind = rows_behind(ledger, "calls", DAY)
    assert noted == ["nottwice.child"]
    assert "nottwice.child" not in {one.tool for one in found.by_tool}
    assert found.calls == behind.total == sum(one.calls for one in found.by_tool) > 0
