"""What is a graph: its nodes, where each of them leads, and is it complete?

A graph is checked when it is first used, before any run of it starts: every route leads somewhere,
every node can be reached, and parallel branches meet again. Nothing here runs a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from nottwice.errors import InvalidGraph
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import checked

END: Final = "$end"
"""Where a finished run goes: ``then=nt.END``."""
MOST_VISITS: Final = 1000
# The number of digits is limited, so that a huge version cannot keep its reader busy.
_NUMBER = r"(0|[1-9][0-9]{0,8})"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}")

Then = str | Mapping[str, str] | Sequence[str] | None
"""Where a node leads, as declared: a node, a choice by name, or branches."""


class Version(NamedTuple):
    """A version of a graph."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return ".".join(map(str, self))


def parse_version(text: object, *, what: str) -> Version:
    """Parse a version such as ``"1.2.3"``."""
    match = _VERSION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidGraph(
            f"{what} has the version {text!r}. Nothing happened. Write three numbers: '1.0.0'."
        )
    return Version(*map(int, match.groups()))


def split_graph_id(graph_id: str) -> tuple[str, Version]:
    """Return the name and version in ``name@version``."""
    name, _, version = graph_id.rpartition("@")
    return name, parse_version(version, what=f"Graph {name!r}")


@frozen_record(frozen=True, slots=True)
class Edge:
    """The next node is always the same."""

    to: str


@frozen_record(frozen=True, slots=True)
class Choice:
    """The node says by name where the run goes."""

    options: tuple[tuple[str, str], ...]

    def to(self, option: str) -> str | None:
        return dict(self.options).get(option)


@frozen_record(frozen=True, slots=True)
class Fan:
    """Several parallel branches, which meet again in one node."""

    heads: tuple[str, ...]
    join: str


Route = Edge | Choice | Fan


@frozen_record(frozen=True, slots=True)
class DeclaredNode:
    """A node as it was declared."""

    name: str
    then: Then
    join: str | None = None
    most: int = MOST_VISITS
    phase: str | None = None


@frozen_record(frozen=True, slots=True)
class Node:
    """A node whose route is known."""

    name: str
    route: Route
    most: int
    """How often a run may visit it: the limit of every loop through it."""
    phase: str | None = None
    """The phase that it is a step of. Its name then begins with the phase: ``phase/step``."""

    @property
    def step(self) -> str:
        """Its name inside its phase."""
        return self.name if self.phase is None else self.name[len(self.phase) + 1 :]


@frozen_record(frozen=True, slots=True)
class GraphDefinition:
    """A complete graph."""

    name: str
    version: Version
    nodes: tuple[Node, ...]
    append: tuple[str, ...] = ()
    """Keys of the state to which nodes only ever append."""
    state: Any = None
    """The JSON schema of the state. None: any plain data."""

    @property
    def graph_id(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def start(self) -> str:
        return self.nodes[0].name

    def node(self, name: str) -> Node | None:
        return next((node for node in self.nodes if node.name == name), None)

    def to_plain(self) -> dict[str, Any]:
        """Return what the ledger stores of it."""
        return {
            "name": self.name,
            "version": str(self.version),
            "nodes": [_plain_node(node) for node in self.nodes],
            "append": list(self.append),
            "state": self.state,
        }

    @staticmethod
    def from_plain(plain: Mapping[str, Any]) -> GraphDefinition:
        """Read what ``to_plain`` wrote. Raises KeyError, TypeError or ValueError otherwise."""
        definition = GraphDefinition(
            name=plain["name"],
            version=parse_version(plain["version"], what=f"Graph {plain['name']!r}"),
            nodes=tuple(_node_from_plain(node) for node in plain["nodes"]),
            append=tuple(plain["append"]),
            state=plain["state"],
        )
        if not definition.nodes:
            raise ValueError("it has no nodes")
        return checked(definition)


def _node_from_plain(plain: Mapping[str, Any]) -> Node:
    if "then" in plain:
        route: Route = checked(Edge(plain["then"]))
    elif "choice" in plain:
        route = Choice(tuple(plain["choice"].items()))
        if not {type(to) for _, to in route.options} <= {str}:
            raise TypeError("a choice leads to no node")
    else:
        route = checked(Fan(tuple(plain["branches"]), plain["join"]))
    return checked(Node(plain["name"], route, plain["most"], plain.get("phase")))


def _plain_node(node: Node) -> dict[str, Any]:
    match node.route:
        case Edge(to):
            route: dict[str, Any] = {"then": to}
        case Choice(options):
            route = {"choice": dict(options)}
        case Fan(heads, join):
            route = {"branches": list(heads), "join": join}
    phase = {} if node.phase is None else {"phase": node.phase}
    return {"name": node.name, **phase, **route, "most": node.most}


def define(
    name: str,
    version: Version,
    declared: Sequence[DeclaredNode],
    *,
    append: tuple[str, ...] = (),
    state: Any = None,
) -> GraphDefinition:
    """Build a graph, or say what is wrong with it."""
    if not declared:
        raise InvalidGraph(
            f"Graph {name!r} has no node. Nothing happened. Declare one with @graph.node."
        )
    for each in declared:
        _check_written(name, each)
    _check_phases(name, declared)
    joins = _joins_by_head(name, declared)
    nodes = tuple(
        Node(node.name, _route(name, node, index, declared, joins), node.most, node.phase)
        for index, node in enumerate(declared)
    )
    graph = GraphDefinition(name, version, nodes, append, state)
    _check_targets(graph)
    _check_reached(graph)
    for node in nodes:
        if isinstance(node.route, Fan):
            _check_branches(graph, node.name, node.route)
    return graph


def _check_written(graph: str, node: DeclaredNode) -> None:
    """Refuse what is not a route at all, before its contents are read."""
    then: object = node.then
    join: object = node.join
    if isinstance(then, Mapping):
        words: Iterable[Any] = (*then.keys(), *then.values())
    elif then is None or isinstance(then, str):
        words = ()
    elif isinstance(then, Sequence):
        words = then
    else:
        # A set has no order, and branches are identified by theirs.
        words = (None,)
    if not all(isinstance(word, str) for word in words):
        raise InvalidGraph(
            f"Node {node.name!r} of graph {graph!r} has then={then!r}. Nothing happened. Give the "
            "name of a node, a dict from choices to nodes, or a list of branches."
        )
    if not isinstance(join, str | None):
        raise InvalidGraph(
            f"Node {node.name!r} of graph {graph!r} has join={join!r}. Nothing happened. Give "
            "the name of the node where the branches meet."
        )


def _check_phases(graph: str, declared: Sequence[DeclaredNode]) -> None:
    """Refuse a node named like a phase: steps inside it would have the ids of the phase's steps."""
    phases = {node.phase for node in declared if node.phase is not None}
    for node in declared:
        if node.phase is None and node.name in phases:
            raise InvalidGraph(
                f"Graph {graph!r} has a node and a phase called {node.name!r}. Nothing happened. "
                "Give one of them another name."
            )


def _joins_by_head(name: str, declared: Sequence[DeclaredNode]) -> dict[str, str]:
    """Return where a branch's first node leads by default: to where the branches meet."""
    joins: dict[str, str] = {}
    for node in declared:
        if node.join is None:
            continue
        for head in _heads(name, node):
            if joins.setdefault(head, node.join) != node.join:
                joins[head] = ""
    return joins


def _route(
    graph: str,
    node: DeclaredNode,
    index: int,
    declared: Sequence[DeclaredNode],
    joins: Mapping[str, str],
) -> Route:
    if isinstance(node.then, str):
        return Edge(node.then)
    if isinstance(node.then, Mapping):
        return Choice(tuple(node.then.items()))
    if node.then is not None:
        if node.join is None:
            raise InvalidGraph(
                f"Node {node.name!r} of graph {graph!r} starts branches and does not say where "
                "they meet. Nothing happened. Add join='the node after them'."
            )
        return Fan(_heads(graph, node), node.join)
    join = joins.get(node.name)
    if join == "":
        raise InvalidGraph(
            f"Node {node.name!r} of graph {graph!r} begins branches that meet in different nodes. "
            "Nothing happened. Say where it leads: then='...'."
        )
    following = declared[index + 1].name if index + 1 < len(declared) else END
    return Edge(join or following)


def _heads(graph: str, node: DeclaredNode) -> tuple[str, ...]:
    if node.then is None or isinstance(node.then, str | Mapping):
        raise InvalidGraph(
            f"Node {node.name!r} of graph {graph!r} has join= without branches. Nothing happened. "
            "Give it branches: then=['one', 'other']."
        )
    heads = tuple(node.then)
    if len(heads) < 2 or len(set(heads)) != len(heads):
        raise InvalidGraph(
            f"Node {node.name!r} of graph {graph!r} needs at least two different branches, not "
            f"{list(heads)!r}. Nothing happened."
        )
    return heads


def targets(route: Route) -> tuple[str, ...]:
    """Return every place that a route can lead to directly."""
    match route:
        case Edge(to):
            return (to,)
        case Choice(options):
            return tuple(to for _, to in options)
        case Fan(heads, join):
            return (*heads, join)


def inside_branch(graph: GraphDefinition, fan: Fan, index: int) -> set[str]:
    """Return the nodes that one branch can pass through until the branches meet."""
    return _reachable(graph, [fan.heads[index]], until=fan.join)


def outside_branches(graph: GraphDefinition) -> set[str]:
    """Return the nodes that a run can be at while no branches are running."""
    found: set[str] = set()
    pending = [graph.start]
    while pending:
        name = pending.pop()
        if name in found or name == END:
            continue
        found.add(name)
        route = _known(graph, name).route
        pending.extend([route.join] if isinstance(route, Fan) else targets(route))
    return found


def _check_targets(graph: GraphDefinition) -> None:
    for node in graph.nodes:
        if isinstance(node.route, Choice) and not node.route.options:
            raise InvalidGraph(
                f"Node {node.name!r} of graph {graph.name!r} has an empty choice. Nothing happened."
            )
        for target in targets(node.route):
            if target != END and graph.node(target) is None:
                known = ", ".join(repr(each.name) for each in graph.nodes)
                raise InvalidGraph(
                    f"Node {node.name!r} of graph {graph.name!r} leads to {target!r}, which is not "
                    f"one of its nodes. Nothing happened. Its nodes: {known}, and nt.END."
                )


def _check_reached(graph: GraphDefinition) -> None:
    reached = _reachable(graph, [graph.start])
    lost = [node.name for node in graph.nodes if node.name not in reached]
    if lost:
        raise InvalidGraph(
            f"Node {lost[0]!r} of graph {graph.name!r} is never reached. Nothing happened. Lead "
            "to it from another node with then=, or remove it."
        )


def _check_branches(graph: GraphDefinition, name: str, fan: Fan) -> None:
    """Refuse branches that end the run, start nested branches, or never meet."""
    for head in fan.heads:
        inside = _reachable(graph, [head], until=fan.join)
        where = f"The branch that begins with {head!r} at node {name!r} of graph {graph.name!r}"
        if head == fan.join or END in inside:
            raise InvalidGraph(
                f"{where} can end without reaching {fan.join!r}, where the branches meet. "
                "Nothing happened. Lead every path of it there."
            )
        for each in inside:
            node = graph.node(each)
            if node is not None and isinstance(node.route, Fan):
                raise InvalidGraph(
                    f"{where} starts nested branches in {each!r}. Nothing happened. Use "
                    "nt.map or nt.gather inside a node, or spawn a child run."
                )
        if not any(fan.join in targets(_known(graph, each).route) for each in inside):
            raise InvalidGraph(f"{where} never reaches {fan.join!r}. Nothing happened.")


def _known(graph: GraphDefinition, name: str) -> Node:
    node = graph.node(name)
    assert node is not None
    return node


def _reachable(
    graph: GraphDefinition, first: Iterable[str], *, until: str | None = None
) -> set[str]:
    found: set[str] = set()
    pending = list(first)
    while pending:
        name = pending.pop()
        if name in found or name == until:
            continue
        found.add(name)
        if name != END:
            pending.extend(targets(_known(graph, name).route))
    return found
