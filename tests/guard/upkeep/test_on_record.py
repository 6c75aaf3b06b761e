"""Does a program that asks the ledger get all of it, a page at a time, as plain data? (L4)"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import nottwice as nt
from nottwice.guard.upkeep import on_record

STORES = ("agent.db", "file:runs", ":memory:")


@nt.tool("unsafe_on_replay", name="on_record_charge")
def charge(order_id: int) -> dict[str, int]:
    return {"order": order_id}


@nt.tool("unsafe_on_replay", name="on_record_refuse")
def refuse(order_id: int) -> None:
    raise nt.Permanent("the card is blocked")


flow = nt.Graph("on-record", version="1.0.0")


@flow.node
def pay(state: Any) -> dict[str, Any]:
    return {"paid": charge(state["order_id"])["order"]}


@pytest.fixture(params=STORES)
def ledger(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[nt.Ledger]:
    monkeypatch.chdir(tmp_path)
    with nt.Ledger(request.param) as opened:
        yield opened


def test_every_run_is_listed_last_changed_first(ledger: nt.Ledger) -> None:
    """P172."""
    for number in range(7):
        with ledger.run(f"ticket-{number}"):
            charge(number)
    with patch.object(on_record, "PAGE", 3):
        found = [run.id for run in ledger.runs()]
    assert found == [f"ticket-{number}" for number in reversed(range(7))]


def test_only_the_pages_that_are_asked_for_are_read(ledger: nt.Ledger) -> None:
    """P172."""
    for number in range(7):
        with ledger.run(f"ticket-{number}"):
            charge(number)
    read = ledger.store.runs
    with (
        patch.object(on_record, "PAGE", 2),
        patch.object(ledger.store, "runs", side_effect=read) as asked,
    ):
        listed = ledger.runs()
        assert asked.call_count == 0
        next(listed)
        assert asked.call_count == 1
    assert asked.call_args.kwargs["limit"] == 2


def test_runs_are_chosen_by_prefix_graph_and_status(ledger: nt.Ledger) -> None:
    app = nt.App(graphs=[flow], store=ledger)
    app.enqueue("on-record", "queued", {"order_id": 1})
    app.run("on-record", "done", {"order_id": 2})
    with pytest.raises(nt.Permanent), ledger.run("plain"):
        refuse(3)

    def found(**choice: Any) -> set[str]:
        return {run.id for run in ledger.runs(**choice)}

    assert found() == {"queued", "done", "plain"}
    assert found(prefix="d") == {"done"}
    assert found(graph="on-record") == found(graph="on-record@1.0.0") == {"queued", "done"}
    assert found(graph="on-record@2.0.0") == set()
    assert found(status="queued") == {"queued"}
    assert found(status="running") == set()
    assert found(status="failed") == {"plain"}
    with pytest.raises(nt.errors.UsageError, match="'finished' is not a status of a run"):
        ledger.runs(status="finished")


def test_a_run_is_told_as_plain_data(ledger: nt.Ledger) -> None:
    app = nt.App(graphs=[flow], store=ledger)
    app.run("on-record", "done", {"order_id": 2})
    run = ledger.run_record("done")
    assert (run.id, run.status, run.graph) == ("done", "completed", "on-record@1.0.0")
    assert run.version == "1.0.0"
    assert (run.input, run.opened, run.waits, run.failure) == ({"order_id": 2}, 1, (), None)
    assert run.started_at <= run.updated_at
    with pytest.raises(FrozenInstanceError):
        run.status = "failed"  # type: ignore[misc]


def test_a_run_without_a_graph_has_the_version_that_it_was_given(ledger: nt.Ledger) -> None:
    with ledger.run("versioned", version="1.2.0"), ledger.run("plain"):
        pass
    for run_id, version in (("versioned", "1.2.0"), ("plain", None)):
        run = ledger.run_record(run_id)
        assert (run.graph, run.version, run.input) == (None, version, None)


def test_a_run_that_failed_says_why(ledger: nt.Ledger) -> None:
    with pytest.raises(nt.Permanent), ledger.run("plain"):
        refuse(3)
    failure = ledger.run_record("plain").failure
    assert failure is not None
    assert "the card is blocked" in failure.message


def test_every_call_of_a_run_is_told_oldest_first_with_args_and_result(ledger: nt.Ledger) -> None:
    """P172."""
    with ledger.run("ticket-1"):
        for number in range(7):
            with nt.step("pay", at=number):
                charge(number)
    with patch.object(on_record, "PAGE", 3):
        calls = list(ledger.calls("ticket-1"))
    assert [call.args for call in calls] == [{"order_id": number} for number in range(7)]
    assert [call.result for call in calls] == [{"order": number} for number in range(7)]
    (last,) = calls[-1:]
    assert (last.run_id, last.tool, last.step) == ("ticket-1", "on_record_charge", "pay")
    assert (last.status, last.result_kept, last.attempts) == ("done", True, 1)
    assert last.replay_class == "unsafe_on_replay"
    assert len({call.visit for call in calls}) == 7
    assert not any(call.in_doubt for call in calls)


def test_a_call_that_failed_has_no_result_and_says_why(ledger: nt.Ledger) -> None:
    with pytest.raises(nt.Permanent), ledger.run("plain"):
        refuse(3)
    (call,) = ledger.calls("plain")
    assert (call.status, call.result, call.result_kept) == ("failed", None, False)
    assert call.failure is not None


def test_a_call_that_is_under_way_is_in_doubt(ledger: nt.Ledger) -> None:
    seen: list[nt.types.RecordedCall] = []

    @nt.tool("unsafe_on_replay", name="on_record_look")
    def look() -> int:
        seen.extend(ledger.in_doubt())
        return 1

    with ledger.run("ticket-1"):
        look()
    (call,) = seen
    assert (call.run_id, call.status, call.in_doubt) == ("ticket-1", "pending", True)
    assert list(ledger.in_doubt()) == []


def test_what_is_not_there_is_an_error(ledger: nt.Ledger) -> None:
    assert list(ledger.runs()) == []
    assert list(ledger.in_doubt()) == []
    for ask in (ledger.run_record, ledger.calls, ledger.in_doubt):
        with pytest.raises(nt.errors.UnknownRun, match="There is no run 'nobody'"):
            ask("nobody")


KILLED = """
import os, signal
import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int) -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"

with nt.run("ticket-7", store="{store}"):
    refund(7)
"""


@pytest.mark.parametrize("store", ["agent.db", "file:runs"])
def test_the_call_that_a_killed_process_left_is_in_doubt(store: str, tmp_path: Path) -> None:
    """P172."""
    program = tmp_path / "agent.py"
    program.write_text(KILLED.replace("{store}", store))
    killed = subprocess.run([sys.executable, program.name], cwd=tmp_path, check=False)
    assert killed.returncode == -signal.SIGKILL
    where = store.replace("agent.db", str(tmp_path / "agent.db"))
    with nt.Ledger(where.replace("file:", f"file:{tmp_path}/"), create=False) as ledger:
        (call,) = ledger.in_doubt()
        assert (call.run_id, call.tool, call.args) == ("ticket-7", "refund", {"order_id": 7})
        assert list(ledger.in_doubt("ticket-7")) == [call]
        assert ledger.run_record("ticket-7").status == "running"
