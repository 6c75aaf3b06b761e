"""A fingerprint comes back as it was kept, and structure is told apart from bodies."""

from __future__ import annotations

from dataclasses import replace

from nottwice.model import values
from nottwice.model.graphs.fingerprint import Fingerprint, ToolPrint
from nottwice.model.graphs.graph import DeclaredNode, Version, define
from nottwice.model.replay_class import ReplayClass

GRAPH = define(
    "refund",
    Version(1, 2, 3),
    [
        DeclaredNode("plan", {"go": "left", "stop": "$end"}),
        DeclaredNode("left", ["a", "b"], "end"),
        DeclaredNode("a", None),
        DeclaredNode("b", None),
        DeclaredNode("end", None, most=3, phase=None),
    ],
    append=("log",),
    state={"title": "State", "properties": {"log": {"type": "array"}}},
)
TOOLS = (
    ToolPrint(
        name="pay",
        replay_class=ReplayClass.IDEMPOTENT_WITH_KEY,
        key="pay-{order_id}",
        window_seconds=86400.0,
        arguments={"properties": {"order_id": {"type": "integer"}}, "required": ["order_id"]},
    ),
    ToolPrint(name="read", replay_class=ReplayClass.PURE, result={"type": "string"}),
)
WHOLE = Fingerprint(GRAPH, TOOLS, (("a", "source:1"), ("b", "source:2")))


def test_what_is_kept_comes_back() -> None:
    assert Fingerprint.from_plain(values.decode(values.encode(WHOLE.to_plain()))) == WHOLE


def test_a_record_of_an_earlier_nottwice_has_no_tools_and_no_bodies() -> None:
    assert Fingerprint.from_plain(GRAPH.to_plain()) == Fingerprint(GRAPH, None, None)


def test_structure_is_neither_the_version_nor_the_bodies_nor_words_for_people() -> None:
    state = {"title": "Another", "properties": {"log": {"type": "array", "title": "Log"}}}
    same = replace(GRAPH, version=Version(9, 0, 0), state=state)
    assert Fingerprint(same, TOOLS, ()).structure == WHOLE.structure
    assert replace(WHOLE, tools=TOOLS[:1]).structure != WHOLE.structure
    assert replace(WHOLE, graph=replace(GRAPH, append=())).structure != WHOLE.structure
