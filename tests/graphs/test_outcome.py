"""An outcome says how far a run came; the same in every process, and as plain data."""

from __future__ import annotations

import pytest
from typing_extensions import TypedDict

import nottwice as nt
from nottwice.graphs.outcome import Outcome, marks, plain_outcome
from nottwice.model import values
from nottwice.model.failure import Failure, FailureClass
from nottwice.model.graphs.graph import DeclaredNode, Version, define
from nottwice.model.run import LastVisit, StepRecord, StepStatus, Wait, WaitKind
from tests.fakes import Host
from tests.graphs.effects import graph, run


def outcome(status: str, **more: object) -> Outcome[dict[str, int]]:
    return Outcome("r", "flow@1.0.0", status, {"x": 1}, 3, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ("running", False),
        ("waiting", False),
        ("failed", False),
        ("completed", True),
        ("aborted", True),
    ],
)
def test_a_run_is_finished_when_nothing_more_will_happen(status: str, finished: bool) -> None:
    assert outcome(status).finished is finished


def test_an_outcome_shows_what_the_run_waits_for() -> None:
    waits = (Wait(WaitKind.TIMER, "tea", "a", 5.0), Wait(WaitKind.CHILD, "r.1", "a"))
    assert repr(outcome("waiting", waits=waits)) == (
        "<Outcome of 'r': waiting for timer tea, child r.1, flow@1.0.0>"
    )
    assert repr(outcome("completed")) == "<Outcome of 'r': completed, flow@1.0.0>"


def test_an_outcome_as_plain_data_can_be_kept() -> None:
    failure = Failure(FailureClass.PERMANENT, "builtins.ValueError", "no")
    plain = plain_outcome(outcome("failed", failure=failure), {"x": 1})
    assert values.decode(values.encode(plain)) == plain
    assert plain.keys() == {"run_id", "graph", "status", "state", "version", "failure"}
    assert Failure.from_plain(plain["failure"]) == failure


def test_every_caller_gets_an_equal_outcome_and_a_separate_state(host: Host) -> None:
    flow: nt.Graph[dict[str, list[int]]] = graph()
    flow.node(name="a")(lambda state: {"numbers": [1]})
    first = run(host, flow)
    with host.process() as ledger:
        second = flow.outcome("r", store=ledger)
    assert first == second
    second.state["numbers"].append(2)
    with host.process() as ledger:
        assert flow.outcome("r", store=ledger) == first


def test_a_state_that_the_new_type_cannot_hold_is_handed_out_as_it_is_stored(host: Host) -> None:
    class Old(TypedDict):
        order: int

    class New(TypedDict):
        order_id: int

    old = graph(version="1.0.0", state=Old)
    old.node(name="a")(lambda state: None)
    run(host, old, {"order": 7})
    new = graph(version="2.0.0", state=New)
    new.node(name="a")(lambda state: None)
    with host.process() as ledger:
        assert new.outcome("r", store=ledger).state == {"order": 7}
        assert new.load("r", store=ledger) == {"order": 7}


def visit(node_id: str, status: StepStatus, ordinal: int, visits: int = 1) -> LastVisit:
    step = StepRecord("r", node_id, "flow@1.0.0/1", status, ordinal, 0.0)
    return LastVisit(step, visits)


def test_the_marks_of_nodes_are_not_those_of_steps_inside_of_them() -> None:
    nodes = [DeclaredNode("fan", ["a", "b"], "meet"), *map(_declared, ("a", "b", "meet"))]
    flow = define("flow", Version(1, 0, 0), nodes)
    found = marks(
        flow,
        [
            visit("fan", StepStatus.DONE, 1),
            visit("/[0]/a", StepStatus.DONE, 2, visits=2),
            visit("/[0]/a/meet", StepStatus.DONE, 3),
            visit("/[1]/b[3]/meet", StepStatus.FAILED, 4),
            visit("/[1]/a", StepStatus.IN_PROGRESS, 5),
        ],
    )
    assert [(mark.node, mark.status, mark.visit) for mark in found] == [
        ("fan", "done", 1),
        ("a", "in_progress", 3),
        ("b", "pending", 0),
        ("meet", "pending", 0),
    ]


def _declared(name: str) -> DeclaredNode:
    return DeclaredNode(name, None)
