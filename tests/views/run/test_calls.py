"""Does a call show its attempts, its outcome and its evidence as they are recorded?"""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.views.run.calls import CallView
from nottwice.views.run.details import look_into
from tests.cli.workplace import Workplace


def calls_of(store: str | Path, run_id: str) -> dict[str, CallView]:
    with nt.Ledger(store, create=False) as ledger:
        return {call.tool: call for call in look_into(ledger, run_id, limit=None).calls}


def test_an_attempt_whose_process_was_killed_has_no_outcome_and_is_not_alive(
    killed: Workplace,
) -> None:
    call = calls_of(killed.store, "ticket-7")["refund"]
    assert call.status is CallStatus.PENDING
    assert (call.last.outcome, call.last.is_alive) == (None, False)
    assert call.last.holder.startswith("pid ")
    assert (call.result, call.finished_at, call.took_seconds) == (None, None, None)


def test_a_call_that_is_done_has_its_result_and_one_attempt(killed: Workplace) -> None:
    call = calls_of(killed.store, "done-1")["refund"]
    assert call.result is not None
    assert call.result.value == {"refunded": 4000}
    assert [one.outcome for one in call.attempts] == ["done"]
    assert call.took_seconds is not None


def test_every_attempt_of_a_call_is_shown_with_how_it_ended(tmp_path: Path) -> None:
    left = [nt.Retryable("busy")]

    @nt.tool(
        "unsafe_on_replay",
        name="views_flaky",
        retry=nt.RetryPolicy(attempts=2, first_seconds=0.001),
    )
    def flaky() -> str:
        if left:
            raise left.pop()
        return "done"

    store = tmp_path / "agent.db"
    with nt.run("r", store=store):
        assert flaky() == "done"
    call = calls_of(store, "r")["views_flaky"]
    assert [(one.attempt, one.outcome) for one in call.attempts] == [(1, "retryable"), (2, "done")]


def test_a_call_in_a_live_process_is_alive(tmp_path: Path) -> None:
    store, seen = tmp_path / "agent.db", []

    @nt.tool("unsafe_on_replay", name="views_looking")
    def looking() -> None:
        with nt.Ledger(store, create=False) as ledger:
            (call,) = look_into(ledger, "r").calls
            seen.append(call.last.is_alive)

    with nt.run("r", store=store):
        looking()
    assert seen == [True]


@pytest.mark.parametrize("limit", [None, 1])
def test_evidence_comes_with_its_call(limit: int | None, killed: Workplace) -> None:
    with nt.Ledger(killed.store, create=False) as ledger:
        call = look_into(ledger, "ticket-8", limit=limit).calls[-1]
    assert {"ownership", "verify"} <= {item.source for item in call.evidence}
