"""A run that is cancelled stops permanently, and so do the runs that it has spawned."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import UnknownRun, UsageError
from nottwice.graphs.cancel import cancel
from nottwice.model.run import RunRecord, RunStatus
from tests.fakes import Host
from tests.graphs.effects import Effects, arun, crash, graph, run

State = dict[str, Any]


def cancel_it(host: Host, run_id: str = "r", **said: Any) -> bool:
    with host.process() as ledger:
        return cancel(ledger, run_id, **{"by": "ann", "why": "not needed", **said})


def waiting(name: str = "flow") -> nt.Graph[Any]:
    flow = graph(name)
    flow.node(name="wait")(lambda state: nt.sleep("1h"))
    return flow


def family(effects: Effects) -> nt.Graph[Any]:
    """A run whose child has a child that waits."""
    leaf, middle, root = waiting("leaf"), graph("middle"), graph("root")
    middle.node(name="spawn")(lambda state: {"leaf": nt.spawn(leaf).status})
    root.node(name="spawn")(lambda state: {"middle": nt.spawn(middle).status})
    root.node(name="act")(lambda state: effects.act("root") and None)
    return root


def statuses(host: Host) -> list[str]:
    return [record.status.value for record in host.data.runs.values()]


def test_a_waiting_run_is_aborted_with_who_and_why(host: Host) -> None:
    flow = waiting()
    run(host, flow)
    assert cancel_it(host) is True
    outcome = run(host, flow)
    assert (outcome.status, outcome.waits, outcome.finished) == ("aborted", (), True)
    (entry,) = host.data.audit
    assert (entry.who, entry.action, entry.why) == ("ann", "cancel", "not needed")


def test_what_happened_before_stays_on_record(host: Host, effects: Effects) -> None:
    flow = graph()
    flow.node(name="a")(lambda state: {"a": effects.act("a")})
    flow.node(name="b")(lambda state: effects.visit("b"))
    effects.broken = {"b"}
    crash(host, flow)
    cancel_it(host)
    effects.broken = set()
    assert run(host, flow).state == {"a": "did a"}
    assert effects.visited == ["b"], "nothing is run any more"


def test_a_question_of_a_cancelled_run_is_not_asked_any_more(host: Host) -> None:
    flow = graph()
    flow.node(name="ask")(lambda state: nt.ask("Go on?", options=["yes"]))
    run(host, flow)
    assert len(host.open_reviews) == 1
    cancel_it(host)
    assert host.open_reviews == []


@pytest.mark.parametrize("drive", [run, arun])
def test_a_run_that_a_process_drives_stops_before_its_next_node(
    host: Host, effects: Effects, drive: Any
) -> None:
    flow = graph()

    @flow.node
    def a(state: State) -> Any:
        done = effects.act("a")
        assert cancel_it(host) is False
        return {"a": done}

    flow.node(name="b")(lambda state: effects.act("b") and None)
    outcome = drive(host, flow)
    assert (outcome.status, outcome.state) == ("aborted", {"a": "did a"})
    assert effects.done == ["a"]


@pytest.mark.parametrize("drive", [run, arun])
def test_a_run_that_a_process_drives_stops_before_its_next_effect(
    host: Host, effects: Effects, drive: Any
) -> None:
    """Also if the code of the node swallows what it is told."""
    flow = graph()

    @flow.node
    def a(state: State) -> Any:
        effects.act("a")
        assert cancel_it(host) is False
        for what in ("b", "c"):
            with contextlib.suppress(nt.NottwiceError):
                effects.act(what)
        return {"a": "swallowed"}

    assert drive(host, flow).status == "aborted"
    assert effects.done == ["a"]
    assert statuses(host) == ["aborted"]


@pytest.mark.parametrize("drive", [run, arun])
def test_a_child_that_is_driven_with_its_parent_is_cancelled_with_it(
    host: Host, effects: Effects, drive: Any
) -> None:
    child, root = graph("child"), graph("root")

    @child.node
    def one(state: State) -> None:
        effects.act("one")
        assert cancel_it(host) is False

    child.node(name="two")(lambda state: effects.act("two") and None)
    root.node(name="spawn")(lambda state: {"child": nt.spawn(child, check=False).status})
    assert drive(host, root).status == "aborted"
    assert effects.done == ["one"]
    assert statuses(host) == ["aborted"] * 2


def test_a_child_that_begins_when_its_parent_was_just_cancelled_does_nothing(
    host: Host, effects: Effects
) -> None:
    child, root = graph("child"), graph("root")
    child.node(name="act")(lambda state: effects.act("child") and None)

    @root.node
    def spawn(state: State) -> Any:
        cancel_it(host)
        return {"child": nt.spawn(child).status}

    assert run(host, root).status == "aborted"
    assert effects.done == []
    assert set(statuses(host)) == {"aborted"}


def test_branches_that_are_under_way_stop_before_their_next_node(
    host: Host, effects: Effects
) -> None:
    flow = graph()

    @flow.node(then=["a", "b"], join="meet")
    def split(state: State) -> None: ...

    @flow.node(then="a2")
    def a(state: State) -> Any:
        done = effects.act("a")
        cancel_it(host)
        return {"a": done}

    flow.node(name="a2", then="meet")(lambda state: effects.act("a2") and None)
    flow.node(name="b")(lambda state: None)
    flow.node(name="meet")(lambda state: effects.act("meet") and None)
    assert run(host, flow).status == "aborted"
    assert effects.done == ["a"]


def test_a_cancelled_run_takes_its_children_along(host: Host, effects: Effects) -> None:
    root = family(effects)
    assert run(host, root).status == "waiting"
    assert statuses(host) == ["waiting"] * 3
    assert cancel_it(host) is True
    assert statuses(host) == ["aborted"] * 3
    assert effects.done == []


def test_a_driven_parent_that_is_told_takes_its_children_along(
    host: Host, effects: Effects
) -> None:
    leaf, root = waiting("leaf"), graph("root")
    root.node(name="split", then=["spawn", "cancel"], join="meet")(lambda state: None)

    @root.node
    def spawn(state: State) -> None:
        nt.spawn(leaf)

    @root.node(then="after", name="cancel")
    def tell(state: State) -> None:
        cancel_it(host)

    root.node(name="after", then="meet")(lambda state: effects.act("after") and None)
    root.node(name="meet")(lambda state: None)
    assert run(host, root).status == "aborted"
    assert set(statuses(host)) == {"aborted"}
    assert effects.done == []


def test_a_child_that_is_done_stays_done(host: Host, effects: Effects) -> None:
    child, root = graph("child"), graph("root")
    child.node(name="act")(lambda state: effects.act("child") and None)
    root.node(name="spawn")(lambda state: {"child": nt.spawn(child).status})
    root.node(name="wait")(lambda state: nt.sleep("1h"))
    run(host, root)
    cancel_it(host)
    assert sorted(statuses(host)) == ["aborted", "completed"]


def test_a_process_that_cancels_and_dies_leaves_nothing_that_cannot_be_cancelled(
    effects: Effects,
) -> None:
    """Killed at every point of the cancelling: it is done again, or was done."""
    root, point = family(effects), 0
    while True:
        host, point = Host(), point + 1
        run(host, root)
        with host.process(dies_at=point) as ledger:
            cancel(ledger, "r", by="ann", why="not needed")
        died = host.points >= point
        if host.data.runs["r"].status is not RunStatus.ABORTED:
            assert cancel_it(host) is True
        else:
            run(host, root)
        assert statuses(host) == ["aborted"] * 3, point
        if not died:
            break
    assert point > 8


def test_a_driver_that_stops_and_dies_leaves_no_child_behind(effects: Effects) -> None:
    """The parent is told, aborts itself, and is killed before it comes to its children."""
    root, point = family(effects), 0
    while True:
        host, point = Host(), point + 1
        run(host, root)
        with host.process() as other:
            other.store.holder()
            held = host.data.runs["r"]
            host.data.runs["r"] = _held_by(held, other.store.holder().holder_id)
            assert cancel_it(host) is False
        with host.process(dies_at=point) as ledger:
            root.run("r", store=ledger)
        died = host.points >= point
        run(host, root)
        assert statuses(host) == ["aborted"] * 3, point
        if not died:
            break
    assert point > 4


def _held_by(record: RunRecord, holder_id: str) -> RunRecord:
    return replace(record, holder_id=holder_id)


def test_a_run_that_is_over_cannot_be_cancelled(host: Host, effects: Effects) -> None:
    flow = graph()
    flow.node(name="a")(lambda state: None)
    run(host, flow)
    with pytest.raises(UsageError, match="is already completed"):
        cancel_it(host)
    run(host, waiting("other"), run_id="other")
    cancel_it(host, "other")
    with pytest.raises(UsageError, match="is already aborted"):
        cancel_it(host, "other")


def test_an_unknown_run_cannot_be_cancelled(host: Host) -> None:
    with pytest.raises(UnknownRun, match="no run 'r'"):
        cancel_it(host)


@pytest.mark.parametrize("said", [{"by": ""}, {"why": "  "}, {"by": None}])
def test_who_cancels_says_who_and_why(host: Host, said: dict[str, Any]) -> None:
    run(host, waiting())
    with pytest.raises(UsageError, match="needs"):
        cancel_it(host, **said)
    assert statuses(host) == ["waiting"]
