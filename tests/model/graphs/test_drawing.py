"""Is a graph drawn with every way that it has, and with names that are only text?"""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

import pytest

from nottwice.model.graphs.drawing import Arrow, arrows, mermaid, svg
from nottwice.model.graphs.graph import END, DeclaredNode, GraphDefinition, define, parse_version

SPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = '"]<script>alert(1)</script>#`&\x1b[31m'


def graph(*nodes: tuple[str, Any], join: str | None = None) -> GraphDefinition:
    declared = [
        DeclaredNode(name, then, join=join if isinstance(then, list) else None)
        for name, then in nodes
    ]
    return define("flow", parse_version("1.0.0", what="it"), declared)


APPROVAL = graph(("ask", {"approve": "pay", "reject": END, "again": "ask"}), ("pay", None))
FAN = graph(
    ("split", ["left", "right"]), ("left", "meet"), ("right", "meet"), ("meet", None), join="meet"
)


def test_every_way_of_a_graph_is_drawn_once() -> None:
    assert list(arrows(APPROVAL)) == [
        Arrow("$start", "ask"),
        Arrow("ask", "pay", "approve"),
        Arrow("ask", END, "reject"),
        Arrow("ask", "ask", "again"),
        Arrow("pay", END),
    ]
    assert Arrow("split", "left") in list(arrows(FAN))
    assert [arrow.source for arrow in arrows(FAN) if arrow.target == "meet"] == ["left", "right"]


def test_mermaid_has_nodes_choices_and_where_a_run_is() -> None:
    assert mermaid(APPROVAL, {"ask": "in_progress", "pay": "pending"}).splitlines() == [
        "flowchart TD",
        '    n0(["start"])',
        '    n1["ask"]',
        '    n2["pay"]',
        '    n3(["end"])',
        "    n0 --> n1",
        '    n1 -->|"approve"| n2',
        '    n1 -->|"reject"| n3',
        '    n1 -->|"again"| n1',
        "    n2 --> n3",
        "    style n1 stroke:#0b57d0,stroke-width:3px",
    ]


@pytest.mark.parametrize("drawn", [APPROVAL, FAN])
def test_a_picture_has_every_node_and_every_way(drawn: GraphDefinition) -> None:
    picture = ElementTree.fromstring(svg(drawn))
    words = {text.text for text in picture.iter(f"{SPACE}text")}
    assert words >= {node.name for node in drawn.nodes} | {"start", "end"}
    lines = [path for path in picture.iter(f"{SPACE}path") if path.get("marker-end")]
    assert len(lines) == len(list(arrows(drawn)))


def test_boxes_of_a_picture_do_not_overlap_and_are_inside_of_it() -> None:
    picture = ElementTree.fromstring(svg(FAN))
    width, height = int(picture.get("width", 0)), int(picture.get("height", 0))
    boxes = [
        tuple(int(rect.get(name, 0)) for name in ("x", "y", "width", "height"))
        for rect in picture.iter(f"{SPACE}rect")
    ]
    for number, (x, y, wide, high) in enumerate(boxes):
        assert x >= 0
        assert y >= 0
        assert x + wide <= width
        assert y + high <= height
        for other_x, other_y, other_wide, _ in boxes[:number]:
            assert y != other_y or x >= other_x + other_wide or other_x >= x + wide


def test_the_mark_of_a_node_is_drawn_and_said() -> None:
    assert "<title>ask: in_progress</title>" in svg(APPROVAL, {"ask": "in_progress"})


def test_names_are_only_text() -> None:
    hostile = graph((HOSTILE, {HOSTILE: END}))
    picture = ElementTree.fromstring(svg(hostile))
    assert not list(picture.iter(f"{SPACE}script"))
    drawn = mermaid(hostile)
    assert "<script" not in drawn
    assert "\x1b" not in drawn
    assert all(line.count('"') in (0, 2) for line in drawn.splitlines())
