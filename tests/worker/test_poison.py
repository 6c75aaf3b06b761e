"""A run that ends every process that takes it up is put off, and failed in the end (P312)."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunStatus
from nottwice.model.runs.openings import OpeningEnd, OpeningRecord
from nottwice.worker import poison
from nottwice.worker.choice import TaskChoice
from tests.fakes import Host
from tests.graphs.effects import graph
from tests.store.samples import checkpoint


def flow_of() -> nt.Graph[Any]:
    flow = graph("flow")
    flow.node(name="a")(lambda state: None)
    return flow


def killed(host: Host, run_id: str, times: int, *, dead: str, at: float | None = None) -> None:
    """The run was taken up so many times, and each time its process was killed."""
    now = host.clock.now() if at is None else at
    for epoch in range(1, times + 1):
        end = OpeningEnd.KILLED if epoch < times else None
        opening = OpeningRecord(run_id, epoch, dead, now, None if end is None else now, end)
        host.data.openings[(run_id, epoch)] = opening
    held = replace(host.data.runs[run_id], epoch=times, holder_id=dead, claimed_at=now)
    host.data.runs[run_id] = held


@pytest.fixture
def dead(host: Host) -> str:
    with host.process() as gone:
        return gone.store.holder().holder_id


@pytest.fixture
def ledger(host: Host, dead: str) -> Any:
    with host.process() as opened:
        yield opened


def enqueue(ledger: Ledger, *names: str) -> TaskChoice:
    app = nt.App(graphs=[flow_of()], store=ledger)
    app.enqueue_all("flow", dict.fromkeys(names))
    ledger.clock.pause(1)
    return TaskChoice(ledger, app)


def chosen(choice: TaskChoice) -> list[str]:
    return sorted(task.run_id for task in choice.next_tasks(9, busy=()))


def test_the_runs_of_one_killed_worker_are_taken_up_immediately(
    host: Host, ledger: Ledger, dead: str
) -> None:
    choice = enqueue(ledger, "a", "b")
    killed(host, "a", 1, dead=dead)
    killed(host, "b", 1, dead=dead)
    assert chosen(choice) == ["a", "b"]


def test_after_two_kills_a_run_is_taken_up_later_each_time_and_alone(
    host: Host, ledger: Ledger, dead: str
) -> None:
    choice = enqueue(ledger, "a", "b")
    for name in ("a", "b"):
        killed(host, name, 3, dead=dead)
    assert chosen(choice) == []
    host.clock.advance(poison.delay_seconds(3) - 0.1)
    assert chosen(choice) == []
    host.clock.advance(0.2)
    assert len(chosen(choice)) == 1
    assert [poison.delay_seconds(kills) for kills in range(5)] == [0.0, 0.0, 1.0, 2.0, 4.0]


def test_after_too_many_kills_it_is_failed_and_a_person_enqueues_it_again(
    host: Host, ledger: Ledger, dead: str
) -> None:
    choice = enqueue(ledger, "a", "b")
    killed(host, "a", poison.MOST_KILLS, dead=dead)
    assert chosen(choice) == ["b"]
    run = host.data.runs["a"]
    assert (run.status, run.holder_id) == (RunStatus.FAILED, None)
    assert run.failure is not None
    assert "5 processes in a row" in run.failure.message
    assert choice.poisoned == 1
    assert [notice.kind for notice in ledger.store.notices(run="a")][-1] == "run_over"
    app = nt.App(graphs=[flow_of()], store=ledger)
    assert app.enqueue("flow", "a", retry=True)
    # It begins again: what happened before it was failed does not count.
    assert "a" in chosen(choice)


def test_a_run_that_gets_further_between_kills_is_never_failed(
    host: Host, ledger: Ledger, dead: str
) -> None:
    choice = enqueue(ledger, "a")
    killed(host, "a", poison.MOST_KILLS, dead=dead, at=ledger.clock.now())
    later = ledger.clock.now() + 1
    host.data.checkpoints[("a", 1)] = replace(checkpoint(1, 1), workflow_id="a", created_at=later)
    host.clock.advance(5)
    assert chosen(choice) == ["a"]


def test_a_run_whose_child_gets_further_between_kills_is_never_failed(
    host: Host, ledger: Ledger, dead: str
) -> None:
    choice = enqueue(ledger, "a")
    killed(host, "a", poison.MOST_KILLS, dead=dead, at=ledger.clock.now())
    later = ledger.clock.now() + 1
    for parent, child in itertools.pairwise(("a", "a.child", "a.grandchild")):
        spawned = replace(host.data.runs["a"], workflow_id=child, parent_id=parent)
        host.data.runs[child] = spawned
    moved = replace(checkpoint(1, 1), workflow_id="a.grandchild", created_at=later)
    host.data.checkpoints[("a.grandchild", 1)] = moved
    host.clock.advance(5)
    assert "a" in chosen(choice)
    assert host.data.runs["a"].status is RunStatus.RUNNING


def test_a_run_that_another_process_has_just_taken_is_not_failed(
    host: Host, ledger: Ledger, dead: str
) -> None:
    enqueue(ledger, "a")
    killed(host, "a", poison.MOST_KILLS, dead=dead)
    seen = host.data.runs["a"]
    with host.process() as other:
        alive = other.store.holder().holder_id
        host.data.runs["a"] = replace(seen, holder_id=alive, epoch=seen.epoch + 1)
        assert not poison.fail(ledger, seen, poison.MOST_KILLS)
        assert host.data.runs["a"].status is RunStatus.RUNNING
