"""A run is moved to another version by an admin, whole or not at all; nothing happens twice."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import (
    CommitUnknown,
    GraphChangedInPlace,
    NotPermitted,
    RunBusy,
    UnknownRun,
    UnmappedNode,
    WorkflowVersionMismatch,
)
from nottwice.model.review import AuditEntry
from nottwice.model.run import RunStatus, StepStatus
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryStore
from tests.fakes import Host
from tests.graphs.effects import Crash, Effects, crash, run
from tests.versions.migrating import NEW, OLD, line, load, migrate, of_bodies, whole


@pytest.fixture
def old(effects: Effects) -> nt.Graph[Any]:
    return line(effects, "1.0.0", "pay", "notify")


@pytest.fixture
def new(effects: Effects) -> nt.Graph[Any]:
    return line(effects, "2.0.0", "pay", "tell")


@pytest.fixture
def broken(host: Host, effects: Effects, old: nt.Graph[Any]) -> Host:
    """A run that paid, and whose next node, ``notify``, always fails."""
    effects.broken = {"notify"}
    crash(host, old, {"order": 7})
    return host


def test_it_continues_in_the_new_version_and_nothing_is_done_twice(
    broken: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    done = migrate(broken, new, {"notify": "tell"})
    assert (done.old, done.new, done.outcome) == (OLD, NEW, "migrated")
    assert done.nodes == (("notify", "tell"),)
    outcome = run(broken, new)
    assert (outcome.status, outcome.graph) == ("completed", NEW)
    assert outcome.state == {"order": 7}
    assert effects.done == ["pay 1", "tell 2"]


def test_who_why_and_what_are_on_record(broken: Host, new: nt.Graph[Any]) -> None:
    now = broken.clock.now()
    migrate(broken, new, {"notify": "tell"}, by="ann", why="notify is broken")
    (entry,) = broken.data.audit
    said = f"{OLD} to {NEW}, notify=tell, may repeat act"
    assert entry == AuditEntry("r", now, "ann", "migrate", said, "notify is broken")


def test_the_run_is_free_for_the_new_version_and_for_it_alone(
    broken: Host, old: nt.Graph[Any], new: nt.Graph[Any]
) -> None:
    migrate(broken, new, {"notify": "tell"})
    found = load(broken)
    assert (found.graph_id, found.status, found.holder_id) == (NEW, RunStatus.RUNNING, None)
    assert (found.failure, found.waits) == (None, ())
    with pytest.raises(WorkflowVersionMismatch, match=r"bound to flow@2\.0\.0"):
        run(broken, old)


def test_the_step_that_it_left_is_marked_at_both_ends_and_counts_no_more(
    host: Host, effects: Effects
) -> None:
    before = of_bodies("1.0.0", wait=lambda state: nt.receive("paid"))
    after = of_bodies("2.0.0", first=lambda state: None, wait=lambda state: None)
    run(host, before)
    migrate(host, after, {"wait": "first"})
    (step,) = MemoryStore(host.data).steps("r")
    assert step.status is StepStatus.FAILED
    assert step.failure is not None
    assert "migrated to flow@2.0.0" in step.failure.message
    with host.process() as ledger:
        marks = after.outcome("r", store=ledger).nodes
    assert [(mark.node, mark.status) for mark in marks] == [
        ("first", "pending"),
        ("wait", "pending"),
    ]


def test_what_was_done_before_still_counts_as_done(broken: Host, new: nt.Graph[Any]) -> None:
    migrate(broken, new, {"notify": "tell"})
    with broken.process() as ledger:
        marks = new.outcome("r", store=ledger).nodes
    assert [(mark.node, mark.status) for mark in marks] == [("pay", "done"), ("tell", "pending")]


def test_a_node_that_keeps_its_name_is_mapped_too(
    broken: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    before = whole(broken)
    same = line(effects, "2.0.0", "pay", "check", "notify")
    with pytest.raises(UnmappedNode, match="is at 'notify'") as caught:
        migrate(broken, same, {"pay": "pay"})
    assert caught.value.nodes == ("notify",)
    assert "--map notify=NODE" in str(caught.value)
    assert "Nodes of flow@2.0.0: pay, check, notify" in str(caught.value)
    assert whole(broken) == before
    effects.broken = set()
    migrate(broken, same, {"notify": "notify"})
    assert run(broken, same).status == "completed"
    assert effects.done == ["pay 1", "notify 2"]


def test_names_that_are_not_there_are_refused_with_what_was_meant(
    broken: Host, new: nt.Graph[Any]
) -> None:
    before = whole(broken)
    with pytest.raises(nt.errors.MigrationRefused, match="has no node 'tel'; did you mean 'tell'"):
        migrate(broken, new, {"notify": "tel"})
    with pytest.raises(
        nt.errors.MigrationRefused, match=r"flow@1\.0\.0 has no node 'notfy'; did you"
    ):
        migrate(broken, new, {"notify": "tell", "notfy": "tell"})
    assert whole(broken) == before


def test_all_reasons_are_given_together(broken: Host, new: nt.Graph[Any]) -> None:
    with pytest.raises(nt.errors.MigrationRefused) as caught:
        migrate(broken, new, {"notify": "x", "y": "tell"}, upgrade=lambda state: None)
    assert len(caught.value.reasons) == 3
    assert "(1) " in str(caught.value)
    assert "(3) " in str(caught.value)


# Who may


def test_without_a_policy_no_person_may(broken: Host, new: nt.Graph[Any]) -> None:
    before = whole(broken)
    with broken.process() as ledger, pytest.raises(NotPermitted, match="the app defines none"):
        app = nt.App(graphs=[new], store=ledger)
        nt.versions.migrate(app, "r", to=NEW, mapping={"notify": "tell"}, by="ann", why="x")
    assert whole(broken) == before


def test_only_admins_may(broken: Host, new: nt.Graph[Any]) -> None:
    before = whole(broken)
    with pytest.raises(NotPermitted, match="'bob' is not an admin"):
        migrate(broken, new, {"notify": "tell"}, by="bob")
    with pytest.raises(NotPermitted, match="'bob' is not an admin"):
        migrate(broken, new, {"notify": "tell"}, by="bob", dry_run=True)
    assert whole(broken) == before


@pytest.mark.parametrize("name", ["by", "why"])
def test_a_reason_and_a_name_are_needed(broken: Host, new: nt.Graph[Any], name: str) -> None:
    with pytest.raises(nt.errors.UsageError, match=f"needs {name}"):
        migrate(broken, new, {"notify": "tell"}, **{name: "  "})


# What is refused without looking further


def test_a_run_that_is_over_stays_as_it_is(
    host: Host, old: nt.Graph[Any], new: nt.Graph[Any]
) -> None:
    run(host, old, {})
    with pytest.raises(nt.errors.MigrationRefused, match="it is already completed"):
        migrate(host, new, {})


def test_a_run_that_is_there_already_needs_nothing(
    broken: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    migrate(broken, new, {"notify": "tell"})
    before = whole(broken)
    assert migrate(broken, new, {"notify": "tell"}).outcome == "already there"
    assert whole(broken) == before


def test_a_patch_needs_no_migration(broken: Host, effects: Effects) -> None:
    patch = line(effects, "1.0.1", "pay", "notify")
    with pytest.raises(nt.errors.MigrationRefused, match=r"is a patch of flow@1\.0\.0"):
        migrate(broken, patch, {"notify": "notify"})


def test_another_graph_is_no_version_of_it(broken: Host, effects: Effects) -> None:
    other: nt.Graph[Any] = nt.Graph("other", version="2.0.0")
    other.node(name="tell")(lambda state: None)
    with pytest.raises(
        nt.errors.MigrationRefused, match="it is a run of graph 'flow', not of 'other'"
    ):
        migrate(broken, other, {"notify": "tell"})


def test_runs_that_are_none_of_a_graph_are_refused(host: Host, new: nt.Graph[Any]) -> None:
    with host.process() as ledger, contextlib.suppress(ZeroDivisionError), ledger.run("r"):
        raise ZeroDivisionError
    with pytest.raises(nt.errors.MigrationRefused, match=r"it was opened with nt\.run"):
        migrate(host, new, {})
    with pytest.raises(UnknownRun, match="no run 'nobody'"):
        migrate(host, new, {}, "nobody")


def test_a_fork_stays_with_the_receipts_of_its_origin(
    broken: Host, old: nt.Graph[Any], new: nt.Graph[Any]
) -> None:
    with broken.process() as ledger:
        old.fork("r", to="f", store=ledger)
    with pytest.raises(nt.errors.MigrationRefused, match="it is a fork of 'r'"):
        migrate(broken, new, {"notify": "tell"}, "f")


def test_a_version_that_is_not_deployed_is_refused(broken: Host, new: nt.Graph[Any]) -> None:
    with (
        broken.process() as ledger,
        pytest.raises(nt.errors.UsageError, match=r"It has: flow@2\.0\.0"),
    ):
        app = nt.App(graphs=[new], store=ledger, admins=["ann"])
        nt.versions.migrate(app, "r", to="flow@3.0.0", mapping={}, by="ann", why="x")


def test_a_new_version_that_was_edited_in_place_is_refused(
    broken: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    run(broken, new, {}, run_id="other")
    edited = line(effects, "2.0.0", "pay", "tell", "more")
    with pytest.raises(GraphChangedInPlace):
        migrate(broken, edited, {"notify": "tell"})
    assert load(broken).graph_id == OLD


@pytest.mark.parametrize("mapping", ["notify=tell", {"notify": 1}, [("notify", "tell")]])
def test_a_mapping_that_is_none_is_refused(broken: Host, new: nt.Graph[Any], mapping: Any) -> None:
    with pytest.raises(nt.errors.UsageError, match="does not map nodes to nodes"):
        migrate(broken, new, mapping)


# Ownership


def test_a_run_that_a_process_drives_is_left_alone(host: Host, effects: Effects) -> None:
    new = line(effects, "2.0.0", "tell")
    told: list[str] = []

    def meets(state: Any) -> None:
        for dry_run in (True, False):
            with pytest.raises(RunBusy) as caught:
                migrate(host, new, {"meets": "tell"}, dry_run=dry_run)
            told.append(str(caught.value))

    assert run(host, of_bodies("1.0.0", meets=meets)).status == "completed"
    assert all("is driven by pid" in text for text in told)
    assert load(host).graph_id == OLD


def test_a_refused_run_is_given_back_as_it_was(host: Host, effects: Effects) -> None:
    before = of_bodies("1.0.0", wait=lambda state: nt.receive("paid", label="money"))
    run(host, before)
    shown = whole(host)
    with pytest.raises(UnmappedNode):
        migrate(host, line(effects, "2.0.0", "tell"), {})
    assert whole(host) == shown
    assert load(host).status is RunStatus.WAITING
    assert load(host).holder_id is None


def test_the_old_version_that_looked_before_does_not_drive_it_after(
    broken: Host, effects: Effects, old: nt.Graph[Any], new: nt.Graph[Any]
) -> None:
    """A process of the old version has read the run, and claims it after it was migrated."""

    class Interrupted(MemoryStore):
        """Something happens between looking at a run and claiming it."""

        looks = 0

        def load_run(self, workflow_id: str) -> Any:
            found = super().load_run(workflow_id)
            self.looks += 1
            if self.looks == 1:
                migrate(broken, new, {"notify": "tell"})
            return found

    effects.broken = set()
    with pytest.raises(WorkflowVersionMismatch, match=r"bound to flow@2\.0\.0"):
        old.run("r", store=nt.Ledger(Interrupted(broken.data), clock=broken.clock))
    assert effects.done == ["pay 1"]
    assert run(broken, new).status == "completed"
    assert effects.done == ["pay 1", "tell 2"]


def test_killed_at_any_commit_it_is_the_old_run_or_the_new_one() -> None:
    """Killed at every boundary, and migrated again: one audit row, one position, one effect."""
    for point in range(1, 9):
        host, effects = Host(), Effects()
        old = line(effects, "1.0.0", "pay", "notify")
        new = line(effects, "2.0.0", "pay", "tell")
        effects.broken = {"notify"}
        crash(host, old, {})
        before = whole(host)
        with host.process(dies_at=point) as ledger:
            app = nt.App(graphs=[new], store=ledger, admins=["ann"])
            order: dict[str, Any] = {"mapping": {"notify": "tell"}, "by": "ann", "why": "x"}
            nt.versions.migrate(app, "r", to=NEW, repeats=["act"], **order)
        points = host.points
        if load(host).graph_id == OLD:
            assert whole(host) == before
            assert migrate(host, new, {"notify": "tell"}).outcome == "migrated"
        assert len(host.data.audit) == 1
        assert run(host, new).status == "completed"
        assert effects.done == ["pay 1", "tell 2"]
        if points < point:
            # It was not killed any more.
            assert point == 5
            return
    raise AssertionError("there were more points than were tried")


def test_a_commit_that_may_be_durable_is_not_taken_back(
    broken: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    class Unsure(MemoryStore):
        """The commit that migrates is durable, and the store cannot tell."""

        def commit(self, commit: Commit) -> None:
            super().commit(commit)
            if commit.audit:
                raise CommitUnknown("the disk did not answer")

    ledger = nt.Ledger(Unsure(broken.data), clock=broken.clock)
    app = nt.App(graphs=[new], store=ledger, admins=["ann"])
    with pytest.raises(CommitUnknown):
        order: dict[str, Any] = {"mapping": {"notify": "tell"}, "by": "ann", "why": "x"}
        nt.versions.migrate(app, "r", to=NEW, repeats=["act"], **order)
    assert load(broken).graph_id == NEW
    assert load(broken).status is RunStatus.RUNNING
    assert run(broken, new).status == "completed"
    assert effects.done == ["pay 1", "tell 2"]


def test_of_concurrent_migrations_of_one_run_one_succeeds(tmp_path: Path, effects: Effects) -> None:
    """And who resumes it at the same moment, with either version, does nothing twice."""
    old, new = line(effects, "1.0.0", "pay", "notify"), line(effects, "2.0.0", "pay", "tell")
    effects.broken = {"notify"}
    store = str(tmp_path / "agent.db")
    with pytest.raises(Crash):
        old.run("r", {}, store=store)
    app = nt.App(graphs=[new], store=store, admins=["ann"])
    order: dict[str, Any] = {"mapping": {"notify": "tell"}, "by": "ann", "why": "x"}
    order["repeats"] = ["act"]
    start = threading.Barrier(8)

    def go_over() -> str:
        start.wait()
        try:
            return nt.versions.migrate(app, "r", to=NEW, **order).outcome
        except (RunBusy, nt.errors.MigrationRefused) as refused:
            return type(refused).__name__

    def resume(graph: nt.Graph[Any]) -> str:
        start.wait()
        try:
            return graph.run("r", store=store).status
        except (RunBusy, WorkflowVersionMismatch, Crash) as refused:
            return type(refused).__name__

    with ThreadPoolExecutor(8) as pool:
        migrations = [pool.submit(go_over) for _ in range(5)]
        resumes = [pool.submit(resume, graph) for graph in (old, new, old)]
        told = [one.result() for one in migrations]
        for one in resumes:
            one.result()
    assert told.count("migrated") <= 1
    if "migrated" not in told:
        # Another process drove the run all the time; now none does.
        nt.versions.migrate(app, "r", to=NEW, **order)
    assert new.run("r", store=store).status == "completed"
    with nt.Ledger(store) as ledger:
        entries = [entry for entry in ledger.store.audit("r") if entry.action == "migrate"]
    assert len(entries) == 1
    assert effects.done == ["pay 1", "tell 2"]


def test_an_interrupt_in_the_middle_gives_the_run_back(broken: Host, new: nt.Graph[Any]) -> None:
    before = whole(broken)

    def interrupted(state: dict[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(broken, new, {"notify": "tell"}, upgrade=interrupted)
    assert whole(broken) == before


# A dry run


def test_a_dry_run_tells_everything_and_changes_nothing(
    broken: Host, effects: Effects, new: nt.Graph[Any]
) -> None:
    before = whole(broken)
    told = migrate(
        broken, new, {"notify": "tell"}, dry_run=True, upgrade=lambda state: {"ticket": 7}
    )
    assert told.outcome == "would migrate"
    assert told.nodes == (("notify", "tell"),)
    assert [str(change) for change in told.changes] == ["+ state.ticket: 7", "- state.order: 7"]
    assert whole(broken) == before
    done = migrate(broken, new, {"notify": "tell"}, upgrade=lambda state: {"ticket": 7})
    assert dataclasses.replace(told, outcome="migrated") == done


# Many


def test_every_open_run_of_a_version_is_migrated_and_a_refused_one_stops_no_other(
    host: Host, effects: Effects, old: nt.Graph[Any], new: nt.Graph[Any]
) -> None:
    run(host, old, {}, run_id="over")
    effects.broken = {"notify"}
    for name in ("c", "a"):
        crash(host, old, {}, run_id=name)
        host.clock.advance(1)
    effects.broken = {"pay"}
    crash(host, old, {}, run_id="b")
    effects.broken = set()

    def go_over(**more: Any) -> list[nt.versions.Migration]:
        with host.process() as ledger:
            app = nt.App(graphs=[new, old], store=ledger, admins=["ann"])
            given: dict[str, Any] = {"mapping": {"notify": "tell"}, "by": "ann", "why": "x"}
            given["repeats"] = ["act"]
            return list(
                nt.versions.migrate_all(app, to=NEW, **{"from_graph": OLD, **given, **more})
            )

    told = go_over()
    assert [(one.run_id, one.outcome) for one in told] == [
        ("c", "migrated"),
        ("a", "migrated"),
        ("b", "refused"),
    ]
    assert isinstance(told[2].error, UnmappedNode)
    assert told[2].old == OLD
    with pytest.raises(nt.errors.UsageError, match="'flow' is not a version"):
        go_over(from_graph="flow")
    (left,) = go_over(mapping={"pay": "pay"})
    assert (left.run_id, left.outcome) == ("b", "migrated")
    assert go_over() == []


def test_the_same_line_resumes_it_although_the_state_has_another_type(
    broken: Host, effects: Effects
) -> None:
    """A caller that always starts a run with its input need not know that it was migrated."""

    @dataclasses.dataclass
    class State:
        order: int
        channel: str = "mail"

    typed = line(effects, "2.0.0", "pay", "tell", state=State)
    migrate(broken, typed, {"notify": "tell"})
    assert run(broken, typed, {"order": 7}).state == State(7, "mail")
