"""What is removed, what never is, and what does a removal leave that is killed midway? (L8)"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.upkeep import retention
from nottwice.engine.upkeep.retention import RemovalReport, Sweep, remove_expired
from nottwice.graphs.cancel import cancel
from nottwice.guard import registry
from nottwice.model.call import CallStatus
from nottwice.model.run import RunStatus, Wait, WaitKind
from nottwice.model.runs.retention import Retention
from nottwice.store.interface import Claim, Commit, Store
from nottwice.store.memory import MemoryStore
from nottwice.store.sqlite.store import SqliteStore
from tests.fakes import FakeClock, Host, Killed, MortalStore
from tests.store.samples import run_record
from tests.tidy.source import ROOT

DAY = 86_400.0
sent: list[str] = []


@nt.tool("unsafe_on_replay", name="retention_mail")
def mail(to: str) -> str:
    sent.append(to)
    return f"mailed {to}"


@nt.tool("pure", name="retention_look")
def look(what: str) -> str:
    return what


@nt.tool("unsafe_on_replay", name="retention_fails")
def fails() -> None:
    raise TimeoutError("no answer")


child: nt.Graph[dict[str, Any]] = nt.Graph("retention-child", version="1.0.0")


@child.node
def asks(state: dict[str, Any]) -> dict[str, Any]:
    return {"size": nt.ask("Which size?")} if state["asks"] else {"told": mail(to="child")}


parent: nt.Graph[dict[str, Any]] = nt.Graph("retention-parent", version="1.0.0")


@parent.node
def reads(state: dict[str, Any]) -> dict[str, Any]:
    return {"seen": look(what="parent")}


@parent.node
def spawns(state: dict[str, Any]) -> dict[str, Any]:
    return {"child": nt.spawn(child, {"asks": state["asks"]}).run_id}


@pytest.fixture
def host() -> Host:
    sent.clear()
    return Host()


def sweep(store: Store, clock: FakeClock, **words: Any) -> RemovalReport:
    words.setdefault("retention", Retention())
    find = words.pop("find_tool", registry.find_tool)
    return remove_expired(Sweep(store=store, clock=clock, find_tool=find, by="ann", **words))


def plain_run(ledger: nt.Ledger, run_id: str = "run") -> None:
    with ledger.run(run_id):
        look(what="it")
        mail(to=run_id)


def tools(store: Store, run_id: str = "run") -> list[str]:
    return [row.identity.tool_name.removeprefix("retention_") for row in store.calls(run_id)]


def status(store: Store, run_id: str = "run") -> RunStatus:
    run = store.load_run(run_id)
    assert run is not None
    return run.status


def test_rows_go_class_by_class_and_a_tombstone_stays(host: Host) -> None:
    with host.process() as ledger:
        plain_run(ledger)
        store = ledger.store
        host.clock.advance(59 * DAY)
        assert sweep(store, host.clock).calls == 0
        assert status(store) is RunStatus.COMPLETED
        host.clock.advance(2 * DAY)
        removed = sweep(store, host.clock)
        assert (removed.runs, removed.calls) == (1, 1)
        assert tools(store) == ["mail"]
        assert status(store) is RunStatus.REMOVED
        host.clock.advance(400 * DAY)
        removed = sweep(store, host.clock)
        assert (removed.runs, removed.calls) == (0, 1)
        assert tools(store) == []
        (entry,) = store.audit("run")
        assert (entry.who, entry.action) == ("ann", "gc")
        assert "2 calls" in entry.why
        assert sweep(store, host.clock).families == 0


def test_a_removed_run_cannot_start_again_and_the_error_says_what_to_do(host: Host) -> None:
    with host.process() as ledger:
        plain_run(ledger)
        host.clock.advance(61 * DAY)
        sweep(ledger.store, host.clock)
        with pytest.raises(nt.errors.RunRemoved, match="another id") as refused:
            plain_run(ledger)
        assert refused.value.run_id == "run"  # type: ignore[attr-defined]
        assert str(refused.value).endswith(f"nottwice show run --store {ledger.location}")
        assert sent == ["run"]
        with pytest.raises(nt.errors.RunRemoved, match=f"show run --store {ledger.location}$"):
            ledger.send("run", "paid")
        host.clock.advance(400 * DAY)
        sweep(ledger.store, host.clock)
        with pytest.raises(nt.errors.RunRemoved):
            plain_run(ledger)
        assert sent == ["run"]


def test_a_removed_graph_is_not_answered_with_what_is_left_of_it(host: Host) -> None:
    with host.process() as ledger:
        parent.run("graph", {"asks": False}, store=ledger)
        host.clock.advance(61 * DAY)
        sweep(ledger.store, host.clock)
        for action in (
            lambda: parent.run("graph", {"asks": False}, store=ledger),
            lambda: parent.fork("graph", to="other", store=ledger),
        ):
            with pytest.raises(nt.errors.RunRemoved, match=f"graph --store {ledger.location}$"):
                action()
        assert sent == ["child"]


def test_a_family_is_kept_and_removed_together(host: Host) -> None:
    with host.process() as ledger:
        outcome = parent.run("graph", {"asks": False}, store=ledger)
        child_id = outcome.state["child"]
        host.clock.advance(61 * DAY)
        removed = sweep(ledger.store, host.clock)
        assert removed.runs == 2
        assert status(ledger.store, "graph") is RunStatus.REMOVED
        assert status(ledger.store, child_id) is RunStatus.REMOVED
        assert tools(ledger.store, child_id) == ["mail"]
        host.clock.advance(400 * DAY)
        sweep(ledger.store, host.clock)
        for run_id in ("graph", child_id):
            run = ledger.store.load_run(run_id)
            assert run is not None
            assert (run.waits, run.input_json) == ((), None)
            assert ledger.store.steps(run_id) == []
            assert ledger.store.checkpoints(run_id) == []


def test_nothing_of_a_family_is_removed_while_one_of_it_is_open(host: Host) -> None:
    with host.process() as ledger:
        outcome = parent.run("graph", {"asks": True}, store=ledger)
        assert outcome.status == "waiting"
        host.clock.advance(2_000 * DAY)
        before = {
            run.workflow_id: tools(ledger.store, run.workflow_id) for run in ledger.store.runs()
        }
        removed = sweep(ledger.store, host.clock)
        assert (removed.runs, removed.calls, removed.checkpoints) == (0, 0, 0)
        after = {
            run.workflow_id: tools(ledger.store, run.workflow_id) for run in ledger.store.runs()
        }
        assert after == before
        assert len(after) == 2


@pytest.mark.parametrize("standing", [RunStatus.RUNNING, RunStatus.WAITING])
def test_a_child_that_is_open_keeps_a_root_that_is_over(host: Host, standing: RunStatus) -> None:
    """The process that aborted the root died before it came to the children."""
    with host.process() as ledger:
        with ledger.run("run"):
            look(what="it")
        waits = (Wait(WaitKind.EVENT, "paid", "/"),) if standing is RunStatus.WAITING else ()
        child_run = run_record(
            "child", status=standing, holder_id=None, parent_id="run", root_id="run", waits=waits
        )
        ledger.store.commit(Commit(workflow_id="child", claim=Claim(child_run)))
        host.clock.advance(2_000 * DAY)
        removed = sweep(ledger.store, host.clock)
        assert (removed.runs, removed.calls, removed.still_open) == (0, 0, 1)
        assert tools(ledger.store) == ["look"]


def test_nothing_of_a_run_is_removed_while_an_effect_in_it_is_in_doubt(host: Host) -> None:
    """Whatever left it so: it is the only trace of something that may have happened."""
    with host.process() as ledger:
        plain_run(ledger)
        (row,) = (one for one in host.calls if one.replay_class.effectful)
        host.data.calls[row.identity] = row._replace(status=CallStatus.PENDING, finished_at=None)
        host.clock.advance(2_000 * DAY)
        removed = sweep(ledger.store, host.clock)
        assert (removed.runs, removed.calls, removed.still_open) == (0, 0, 1)


def test_nothing_of_a_run_is_removed_while_its_holder_is_not_proven_dead(host: Host) -> None:
    with host.process() as ledger:
        plain_run(ledger)
        host.data.runs["run"] = replace(host.data.runs["run"], holder_id="on another machine")
        host.clock.advance(2_000 * DAY)
        removed = sweep(ledger.store, host.clock)
        assert (removed.runs, removed.calls, removed.still_open) == (0, 0, 1)


def test_nothing_of_a_run_is_removed_while_a_review_of_it_is_open(host: Host) -> None:
    with host.process() as ledger:
        with pytest.raises(nt.errors.ReplayUnsafeError):
            with ledger.run("run"):
                look(what="it")
                fails()
        cancel(ledger, "run", by="ann", why="enough")
        assert status(ledger.store) is RunStatus.ABORTED
        host.clock.advance(2_000 * DAY)
        removed = sweep(ledger.store, host.clock)
        assert (removed.runs, removed.still_open) == (0, 1)
        (review,) = ledger.store.open_reviews("run")
        with nt.Reviews(ledger) as reviews:
            reviews.decide(review.review_id, "happened", result=None, by="ann", why="seen")
        assert sweep(ledger.store, host.clock).runs == 1


def test_a_failed_run_can_be_resumed_for_longer(host: Host) -> None:
    with host.process() as ledger:
        with pytest.raises(ValueError, match="mine"):
            with ledger.run("run"):
                look(what="it")
                raise ValueError("mine")
        host.clock.advance(89 * DAY)
        assert sweep(ledger.store, host.clock).runs == 0
        host.clock.advance(2 * DAY)
        assert sweep(ledger.store, host.clock).runs == 1


def test_rows_of_tools_that_are_unknown_here_stay_and_are_named(host: Host) -> None:
    with host.process() as ledger:
        plain_run(ledger)
        host.clock.advance(500 * DAY)
        unknown = sweep(ledger.store, host.clock, find_tool=lambda name: None)
        assert (unknown.runs, unknown.calls) == (0, 0)
        assert dict(unknown.unknown_tools) == {"retention_look": 1, "retention_mail": 1}
        anyway = sweep(ledger.store, host.clock, find_tool=lambda name: None, unknown_tools=True)
        assert (anyway.runs, anyway.calls) == (1, 2)


def test_checkpoints_go_before_rows_and_the_run_still_tells_how_it_ended(host: Host) -> None:
    with host.process() as ledger:
        parent.run("graph", {"asks": False}, store=ledger)
        versions = len(ledger.store.checkpoints("graph"))
        assert versions > 1
        host.clock.advance(31 * DAY)
        removed = sweep(ledger.store, host.clock)
        assert removed.checkpoints >= versions - 1
        assert len(ledger.store.checkpoints("graph")) == 1
        again = parent.run("graph", {"asks": False}, store=ledger)
        assert (again.status, again.state["seen"]) == ("completed", "parent")
        assert sent == ["child"]


def test_a_dry_run_tells_the_same_and_changes_nothing(host: Host) -> None:
    with host.process() as ledger:
        plain_run(ledger)
        parent.run("graph", {"asks": False}, store=ledger)
        host.clock.advance(61 * DAY)
        before = (dict(host.data.runs), dict(host.data.calls), dict(host.data.checkpoints))
        told = sweep(ledger.store, host.clock, dry_run=True)
        assert (host.data.runs, host.data.calls, host.data.checkpoints) == before
        done = sweep(ledger.store, host.clock)
        assert (told.runs, told.calls, told.checkpoints) == (
            done.runs,
            done.calls,
            done.checkpoints,
        )
        assert [run.run_id for run in told.named] == [run.run_id for run in done.named]


def test_a_run_that_is_opened_at_the_last_moment_is_not_removed(host: Host) -> None:
    class Reopens(MemoryStore):
        def commit(self, commit: Commit) -> None:
            if commit.removal is not None and status(self) is RunStatus.FAILED:
                with nt.Ledger(MemoryStore(self.data), clock=host.clock).run("run"):
                    mail(to="run")
            super().commit(commit)

    with host.process() as ledger:
        with pytest.raises(ValueError, match="mine"):
            with ledger.run("run"):
                mail(to="run")
                raise ValueError("mine")
    host.clock.advance(400 * DAY)
    store = Reopens(host.data)
    sweep(store, host.clock)
    assert status(store) is RunStatus.COMPLETED
    assert tools(store) == ["mail"]
    assert sent == ["run"]


def test_killed_at_every_commit_nothing_is_half_removed_and_the_next_one_ends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retention, "MOST_ROWS", 1)
    point = 0
    while True:
        point += 1
        host = Host()
        sent.clear()
        with host.process() as ledger:
            parent.run("graph", {"asks": False}, store=ledger)
            plain_run(ledger)
        host.clock.advance(500 * DAY)
        whole = len(host.calls)
        store = MortalStore(host.data, dies_at=point, now=host.clock.now())
        try:
            sweep(store, host.clock)
            assert point > 10
            return
        except Killed:
            pass
        for run in list(host.data.runs.values()):
            left = tools(MemoryStore(host.data), run.workflow_id)
            if run.status is not RunStatus.REMOVED:
                assert len(left) == {"run": 2, "graph": 3}.get(run.workflow_id, 1)
        assert len(host.calls) <= whole
        with host.process() as ledger:
            sweep(ledger.store, host.clock)
            assert host.calls == []
            for run in ledger.store.runs():
                assert (run.status, run.waits) == (RunStatus.REMOVED, ())
            for run_id, begin in (("run", plain_run), ("graph", _graph_run)):
                with pytest.raises(nt.errors.RunRemoved):
                    begin(ledger, run_id)
        assert sent == ["child", "run"]


def _graph_run(ledger: nt.Ledger, run_id: str) -> None:
    parent.run(run_id, {"asks": False}, store=ledger)


PROGRAM = """
import sys
from tests.engine.upkeep import test_retention as here
clock = here.FakeClock()
clock.time += 500 * here.DAY
store = here.SqliteStore(sys.argv[1], now=clock.now())
print("ready", flush=True)
here.sweep(store, clock, on_progress=lambda removed: print(removed.runs, flush=True))
"""


def test_killed_for_real_a_tombstone_is_left_wherever_a_row_is_gone(tmp_path: Path) -> None:
    path, clock = tmp_path / "agent.db", FakeClock()
    store = SqliteStore(path, now=clock.now())
    ledger = nt.Ledger(store, clock=clock)
    for number in range(30):
        plain_run(ledger, f"run-{number:02}")
    store.close()
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        ) as process:
            assert process.stdout is not None
            for _ in range(6):
                process.stdout.readline()
            process.kill()
        for run in store.runs():
            if run.status is not RunStatus.REMOVED:
                assert tools(store, run.workflow_id) == ["look", "mail"]
    assert any(run.status is RunStatus.REMOVED for run in store.runs())
    clock.advance(500 * DAY)
    sweep(store, clock)
    assert all(run.status is RunStatus.REMOVED for run in store.runs())
    assert not any(tools(store, run.workflow_id) for run in store.runs())
    store.close()
