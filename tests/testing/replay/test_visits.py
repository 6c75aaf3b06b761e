"""Is everything in a record assigned to the visit that it belongs to?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.model.graphs.position import Position
from nottwice.testing.replay.visits import ReplayedVisit, Visits, is_past

GRAPH = "a/b@1.0.0"


def nothing(state: dict[str, Any]) -> None:
    return None


@pytest.fixture
def flow() -> nt.Graph[Any]:
    flow: nt.Graph[Any] = nt.Graph("a/b", version="1.0.0")
    flow.node(name="mail", then=["left", "right"], join="pay")(nothing)
    flow.node(name="left", then="pay")(nothing)
    flow.node(name="right", then="pay")(nothing)
    flow.node(name="pay")(nothing)
    flow.node(name="send", phase="final")(nothing)
    return flow


@pytest.mark.parametrize(
    ("node_id", "checkpoint_id", "expected"),
    [
        ("mail", f"{GRAPH}/1", ReplayedVisit("mail", f"{GRAPH}/1")),
        ("mail/inside", f"{GRAPH}/3/at", ReplayedVisit("mail", f"{GRAPH}/3")),
        ("mail[4]", f"{GRAPH}/2", ReplayedVisit("mail", f"{GRAPH}/2")),
        ("/[1]/right/inside[2]", f"{GRAPH}/1/", ReplayedVisit("/[1]/right", f"{GRAPH}/1")),
        ("pay", f"{GRAPH}/1", ReplayedVisit("pay", f"{GRAPH}/1")),
        ("final/send", f"{GRAPH}/1", ReplayedVisit("final/send", f"{GRAPH}/1")),
        ("mailing", f"{GRAPH}/1", None),
        ("/", "start", None),
        ("mail", "other@1.0.0/1", None),
    ],
)
def test_the_visit_around_something(
    flow: nt.Graph[Any], node_id: str, checkpoint_id: str, expected: ReplayedVisit | None
) -> None:
    assert Visits(GRAPH, flow.definition()).around(node_id, checkpoint_id) == expected


def test_a_visit_has_a_branch_a_node_and_a_number() -> None:
    visit = ReplayedVisit("/[1]/right", f"{GRAPH}/12")
    assert (visit.branch, visit.node, visit.number) == ("/[1]/", "right", 12)
    assert ReplayedVisit("pay", f"{GRAPH}/1").branch == ""


def test_what_was_over_when_a_checkpoint_was_saved(flow: nt.Graph[Any]) -> None:
    def past(node_id: str, number: int, position: dict[str, Any]) -> bool:
        where = Position.from_plain(position)
        return is_past(ReplayedVisit(node_id, f"{GRAPH}/{number}"), where, flow.definition())

    alone = {"node": "pay", "visits": {"mail": 1, "pay": 2}}
    assert past("mail", 1, alone)
    assert past("pay", 1, alone)
    assert not past("pay", 2, alone)
    assert not past("final/send", 1, alone)
    branches = [{"node": None, "update": {}}, {"node": "right", "update": {}}]
    fanned = {
        "node": "pay",
        "visits": {"mail": 1, "/[0]/left": 1, "/[1]/right": 1},
        "branches": branches,
    }
    assert past("/[0]/left", 1, fanned)
    assert not past("/[1]/right", 1, fanned)
    assert not past("pay", 1, fanned)
    ended = {"node": None, "visits": {"pay": 1}}
    assert past("pay", 1, ended)
