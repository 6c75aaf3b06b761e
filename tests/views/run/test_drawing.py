"""Is every node of a graph in the picture once, and does every edge lead where the graph says?"""

from __future__ import annotations

from xml.etree import ElementTree

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.views.run.details import look_into
from nottwice.views.run.drawing import draw, drawing_of, picture
from tests.cli.workplace import Workplace


def test_nodes_stand_in_columns_and_edges_say_which_choice_takes_them(
    graph_runs: Workplace,
) -> None:
    with Ledger(graph_runs.store, create=False) as ledger:
        (child,) = ledger.store.children("parent-1")
        details = look_into(ledger, child.workflow_id)
        drawn = drawing_of(ledger.store, details.run.graph, details.nodes)
    assert drawn is not None
    places = {node.name: (node.column, node.row, node.status) for node in drawn.nodes}
    assert places == {
        "propose": (0, 0, "done"),
        "decide": (1, 0, "in_progress"),
        "confirm": (2, 0, "pending"),
        "$end": (3, 0, "pending"),
    }
    edges = {(one.source.name, one.target.name, one.label, one.is_curved) for one in drawn.edges}
    assert edges == {
        ("propose", "decide", "", False),
        ("decide", "confirm", "yes", False),
        ("decide", "$end", "no", True),
        ("confirm", "$end", "", False),
    }
    assert (drawn.columns, drawn.rows) == (4, 1)


def test_a_loop_leads_back_and_branches_stand_above_each_other() -> None:
    graph = nt.Graph("looping", version="1.0.0")

    @graph.node(then=["left", "right"], join="meet")
    def split(state: dict[str, object]) -> None: ...

    @graph.node
    def left(state: dict[str, object]) -> None: ...

    @graph.node
    def right(state: dict[str, object]) -> None: ...

    @graph.node(then={"again": "split", "over": nt.END})
    def meet(state: dict[str, object]) -> str:
        return "over"

    with Ledger(":memory:") as ledger:
        graph.run("r", {}, store=ledger)
        drawn = drawing_of(ledger.store, "looping@1.0.0", ())
    assert drawn is not None
    places = {node.name: (node.column, node.row) for node in drawn.nodes}
    assert places["split"] == (0, 0)
    assert {places["left"], places["right"]} == {(1, 0), (1, 1)}
    assert places["meet"] == (2, 0)
    back = [one for one in drawn.edges if one.label == "again"]
    assert [(one.target.name, one.is_curved) for one in back] == [("split", True)]


def test_a_plain_run_has_no_graph_to_draw() -> None:
    with Ledger(":memory:") as ledger:
        assert drawing_of(ledger.store, None, ()) is None
        assert drawing_of(ledger.store, "gone@1.0.0", ()) is None


SPACE = "{http://www.w3.org/2000/svg}"
HOSTILE = '"]<script>alert(1)</script>&\x1b[31m'


def test_a_picture_has_every_node_every_edge_and_only_text() -> None:
    graph = nt.Graph("drawn", version="1.0.0")

    @graph.node(then={HOSTILE: "second", "stop": nt.END})
    def first() -> str:
        return "stop"

    @graph.node
    def second() -> None: ...

    drawn = draw(graph.definition())
    shown = ElementTree.fromstring(picture(drawn))
    words = [text.text for text in shown.iter(f"{SPACE}text")]
    assert {"first", "second", "end", "stop"} <= set(words)
    assert len(list(shown.iter(f"{SPACE}rect"))) == 3
    lines = [path for path in shown.iter(f"{SPACE}path") if path.get("class") == "edge"]
    assert len(lines) == len(drawn.edges) == 3
    assert not list(shown.iter(f"{SPACE}script"))
    assert "\x1b" not in picture(drawn)


def test_a_choice_has_its_room_between_the_nodes() -> None:
    graph = nt.Graph("roomy", version="1.0.0")

    @graph.node(then={"approve": "pay", "a choice of many words": nt.END})
    def ask(state: dict[str, object]) -> str:
        return "approve"

    @graph.node(then={"sent back to the start": "ask", "done": nt.END})
    def pay(state: dict[str, object]) -> str:
        return "done"

    with Ledger(":memory:") as ledger:
        graph.run("r", {}, store=ledger)
        drawn = drawing_of(ledger.store, "roomy@1.0.0", ())
    assert drawn is not None
    found = ElementTree.fromstring(picture(drawn))
    boxes = [one for one in found.iter() if one.tag.endswith("rect")]
    right = float(boxes[0].get("x", "")) + float(boxes[0].get("width", ""))
    # A letter of the page's monospaced font is 7.2 wide.
    assert float(boxes[1].get("x", "")) - right > 7.2 * len("approve")
    texts = ["".join(one.itertext()) for one in found.iter() if one.tag.endswith("text")]
    assert "a choice of many wordsa choice of m…" in texts
