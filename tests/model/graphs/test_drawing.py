"""Is a graph drawn with every way that it has, and with names that are only text?"""

from __future__ import annotations

from typing import Any

from nottwice.model.graphs.drawing import Arrow, arrows, mermaid
from nottwice.model.graphs.graph import END, DeclaredNode, GraphDefinition, define, parse_version

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


def test_names_are_only_text() -> None:
    hostile = graph((HOSTILE, {HOSTILE: END}))
    drawn = mermaid(hostile)
    assert "<script" not in drawn
    assert "\x1b" not in drawn
    assert all(line.count('"') in (0, 2) for line in drawn.splitlines())
