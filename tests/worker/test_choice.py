"""Runs in progress come before new ones, but every fourth run is a new one (P63)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine import ownership
from nottwice.engine.drivers import drive
from nottwice.engine.opening import Opening
from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunStatus, Wait, WaitKind
from nottwice.worker import choice as module
from nottwice.worker.choice import ONE_NEW_OF, OWN_RUNS_SECONDS, TaskChoice
from tests.fakes import Host
from tests.graphs.effects import graph


def flow_of(name: str = "flow", **options: Any) -> nt.Graph[Any]:
    flow = graph(name, **options)
    flow.node(name="a")(lambda state: None)
    return flow


def enqueue(ledger: Ledger, flow: nt.Graph[Any], *run_ids: str) -> None:
    for run_id in run_ids:
        nt.App(graphs=[flow], store=ledger).enqueue(flow.name, run_id)
        ledger.clock.pause(1)


def interrupt(host: Host, *run_ids: str) -> None:
    """They were begun, and abandoned in the middle."""
    for run_id in run_ids:
        host.data.runs[run_id] = replace(host.data.runs[run_id], epoch=1)


def spawned(host: Host, *run_ids: str, parent: str) -> None:
    """They are children of a graph that this worker does not have."""
    for run_id in run_ids:
        run = host.data.runs[run_id]
        child = replace(run, epoch=1, graph_id="unknown@1.0.0", parent_id=parent)
        host.data.runs[run_id] = child


def chosen(choice: TaskChoice, most: int, *busy: str) -> list[str]:
    return [task.run_id for task in choice.next_tasks(most, busy=busy)]


@pytest.fixture
def ledger(host: Host) -> Any:
    with host.process() as ledger:
        yield ledger


def test_new_runs_are_chosen_oldest_first_and_no_more_than_there_is_room_for(
    ledger: Ledger,
) -> None:
    flow = flow_of()
    enqueue(ledger, flow, "c", "a", "b")
    choice = TaskChoice(ledger, nt.App(graphs=[flow]))
    assert chosen(choice, 2) == ["c", "a"]
    assert chosen(choice, 5, "c", "a") == ["b"]


def test_what_was_begun_comes_first_but_every_fourth_is_new(host: Host, ledger: Ledger) -> None:
    flow = flow_of()
    begun, new = [f"b{number}" for number in range(9)], [f"n{number}" for number in range(9)]
    enqueue(ledger, flow, *new, *begun)
    interrupt(host, *begun)
    names = chosen(TaskChoice(ledger, nt.App(graphs=[flow])), 12)
    assert [name[0] for name in names] == list("bbbn" * 3)
    assert ONE_NEW_OF == 4
    assert [name for name in names if name[0] == "b"] == begun
    assert [name for name in names if name[0] == "n"] == new[:3]


def test_a_slot_at_a_time_is_shared_in_the_same_way(host: Host, ledger: Ledger) -> None:
    flow = flow_of()
    enqueue(ledger, flow, "n1", "n2", *(f"b{number}" for number in range(9)))
    interrupt(host, *(f"b{number}" for number in range(9)))
    choice, taken = TaskChoice(ledger, nt.App(graphs=[flow])), list[str]()
    for _ in range(8):
        taken += chosen(choice, 1, *taken)
    assert [name[0] for name in taken] == list("bbbnbbbn")


def test_runs_that_are_put_off_do_not_hide_those_behind_them(host: Host, ledger: Ledger) -> None:
    flow = flow_of()
    enqueue(ledger, flow, *(f"r{number}" for number in range(20)))
    choice = TaskChoice(ledger, nt.App(graphs=[flow]))
    for number in range(19):
        choice.patience.put_off(f"r{number}", now=ledger.clock.now())
    assert chosen(choice, 1) == ["r19"]


def test_runs_of_the_dead_are_chosen_first_and_those_of_the_living_never(
    host: Host, ledger: Ledger
) -> None:
    flow = flow_of()
    enqueue(ledger, flow, "new", "theirs", "orphan", "over")
    with host.process() as other:
        alive = other.store.holder().holder_id
        with host.process() as third:
            dead = third.store.holder().holder_id
        for run_id, holder in (("theirs", alive), ("orphan", dead), ("over", dead)):
            record = replace(host.data.runs[run_id], epoch=1, holder_id=holder)
            host.data.runs[run_id] = record
        host.data.runs["over"] = replace(host.data.runs["over"], status=RunStatus.COMPLETED)
        assert chosen(TaskChoice(ledger, nt.App(graphs=[flow])), 9) == ["orphan", "new"]


def test_with_other_workers_about_all_see_enough_to_choose_from(host: Host, ledger: Ledger) -> None:
    """A worker that looks at the same moment must not want the very same few."""
    flow = flow_of()
    names = [f"r{number:02}" for number in range(40)]
    enqueue(ledger, flow, "theirs", *names)
    with host.process() as other:
        alive = other.store.holder().holder_id
        record = replace(host.data.runs["theirs"], epoch=1, holder_id=alive)
        host.data.runs["theirs"] = record
        app = nt.App(graphs=[flow])
        seen = {name for _ in range(50) for name in chosen(TaskChoice(ledger, app), 4)}
    assert seen == set(names[:8])


def test_a_graph_that_is_not_here_is_asked_for_no_more(host: Host, ledger: Ledger) -> None:
    mine, other = flow_of(), flow_of("other")
    enqueue(ledger, other, *(f"o{number}" for number in range(30)))
    enqueue(ledger, mine, "r")
    choice = TaskChoice(ledger, nt.App(graphs=[mine]))
    assert chosen(choice, 1) == ["r"]
    enqueue(ledger, flow_of(version="2.0.0"), "r2")
    assert [run.graph_id for run in choice.strangers(9)] == ["flow@2.0.0"]


def test_a_graph_at_its_limit_hides_no_other_graph_however_many_versions_it_has(
    ledger: Ledger,
) -> None:
    first, second, fast = flow_of(), flow_of(version="1.0.1"), flow_of("fast")
    for number in range(20):
        enqueue(ledger, (first, second)[number % 2], f"r{number}")
    enqueue(ledger, fast, "f")
    choice = TaskChoice(ledger, nt.App(graphs=[second, fast]))
    for _ in range(2):
        choice.note_limit("flow@1.0.1", ledger.clock.now() + 1)
        assert chosen(choice, 1) == ["f"]
        choice.note_limit("flow@1.0.0", ledger.clock.now() + 1)
        assert chosen(choice, 1) == ["f"]
    ledger.clock.pause(1)
    assert chosen(choice, 9, "f") == [f"r{number}" for number in range(9)]


def test_a_run_that_this_process_could_not_give_up_is_taken_up_again(
    host: Host, ledger: Ledger
) -> None:
    flow = flow_of()
    enqueue(ledger, flow, "r", "over")
    mine = ledger.store.holder().holder_id
    for run_id in ("r", "over"):
        host.data.runs[run_id] = replace(host.data.runs[run_id], epoch=1, holder_id=mine)
    choice = TaskChoice(ledger, nt.App(graphs=[flow]))
    # Another thread of this process may drive it.
    assert chosen(choice, 9) == []
    choice.suspect("r")
    choice.suspect("over")
    host.data.runs["over"] = replace(host.data.runs["over"], holder_id=None, epoch=2)
    assert sorted(chosen(choice, 9)) == ["over", "r"]
    host.data.runs["r"] = replace(host.data.runs["r"], status=RunStatus.COMPLETED)
    assert chosen(choice, 9, "over") == []


def test_a_run_that_this_process_holds_and_does_not_drive_is_taken_up_again(
    host: Host, ledger: Ledger
) -> None:
    """After a failover the ledger says so of runs whose release it has forgotten."""
    flow = flow_of()
    enqueue(ledger, flow, "forgotten", "driven", "released")
    mine = ledger.store.holder()
    for run_id in ("forgotten", "driven", "released"):
        record = replace(host.data.runs[run_id], epoch=1, holder_id=mine.holder_id)
        host.data.runs[run_id] = record
    choice = TaskChoice(ledger, nt.App(graphs=[flow]))
    driving = drive(ownership.claim(opening(ledger, "driven")), ledger.host)
    host.clock.advance(OWN_RUNS_SECONDS)
    # Seen once: it may have been released between a look at the ledger and one at the process.
    assert chosen(choice, 9) == []
    host.data.runs["released"] = replace(host.data.runs["released"], epoch=2)
    host.clock.advance(OWN_RUNS_SECONDS)
    assert chosen(choice, 9) == ["forgotten"]
    drive(ownership.release(driving, None, status=RunStatus.COMPLETED), ledger.host)


def opening(ledger: Ledger, run_id: str) -> Opening:
    return Opening(host=ledger.host, run_id=run_id)


def test_a_graph_id_that_makes_no_sense_is_left_to_others(host: Host, ledger: Ledger) -> None:
    flow = flow_of()
    enqueue(ledger, flow, "r", "odd", "odd child")
    host.data.runs["odd"] = replace(host.data.runs["odd"], graph_id="nonsense")
    odd = replace(host.data.runs["odd child"], graph_id="flow@many", parent_id="r")
    host.data.runs["odd child"] = odd
    assert chosen(TaskChoice(ledger, nt.App(graphs=[flow])), 9) == ["r"]


def test_a_child_does_not_make_its_parent_be_tried_that_was_put_off(
    host: Host, ledger: Ledger
) -> None:
    flow = flow_of()
    enqueue(ledger, flow, "parent", "child")
    parent = replace(host.data.runs["parent"], status=RunStatus.WAITING, epoch=1)
    host.data.runs["parent"] = replace(parent, waits=(Wait(WaitKind.CHILD, "child", "a"),))
    spawned(host, "child", parent="parent")
    choice = TaskChoice(ledger, nt.App(graphs=[flow]))
    assert chosen(choice, 9) == ["parent"]
    assert chosen(choice, 9) == ["parent"]
    choice.patience.put_off("parent", now=ledger.clock.now())
    assert chosen(choice, 9) == []


def test_children_of_other_graphs_hide_no_run_however_many_there_are(
    host: Host, ledger: Ledger
) -> None:
    mine, other = flow_of(), flow_of("other")
    children = [f"c{number:02}" for number in range(40)]
    enqueue(ledger, other, "other parent")
    enqueue(ledger, mine, *children, "parent", "r")
    interrupt(host, "r", "other parent")
    spawned(host, *children[:-1], parent="other parent")
    spawned(host, children[-1], parent="parent")
    waits = (Wait(WaitKind.CHILD, children[-1], "a"),)
    parent = replace(host.data.runs["parent"], status=RunStatus.WAITING, epoch=1, waits=waits)
    host.data.runs["parent"] = parent
    choice = TaskChoice(ledger, nt.App(graphs=[mine]))
    assert set(chosen(choice, 2)) == {"r", "parent"}
    assert not choice.holds_back()


def test_a_look_at_children_of_other_graphs_that_found_many_is_followed_by_another(
    host: Host, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHILDREN_AT_ONCE", 4)
    mine, other = flow_of(), flow_of("other")
    children = [f"c{number:02}" for number in range(10)]
    enqueue(ledger, other, "other parent")
    enqueue(ledger, mine, *children, "parent")
    interrupt(host, "other parent")
    spawned(host, *children[:-1], parent="other parent")
    spawned(host, children[-1], parent="parent")
    waits = (Wait(WaitKind.CHILD, children[-1], "a"),)
    parent = replace(host.data.runs["parent"], status=RunStatus.WAITING, epoch=1, waits=waits)
    host.data.runs["parent"] = parent
    choice, found = TaskChoice(ledger, nt.App(graphs=[mine])), list[str]()
    while not found:
        found = chosen(choice, 9)
        assert found or choice.holds_back()
    assert found == ["parent"]
    # Until the others are put off for longer, they are looked at again.
    assert (chosen(choice, 9, *found), choice.holds_back()) == ([], False)
