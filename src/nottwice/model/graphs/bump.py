"""Which version does a change of a graph need? (V5)

MAJOR: what can break an open run: a node added, removed or renamed, a route changed, a state or
an argument narrowed, a tool removed, a replay class loosened. MINOR: what only adds something
inside a node: a tool, an optional field, an option. PATCH: only bodies.

Tools and types of the state are shared by all versions that are deployed together, so an old
version cannot keep its own. It need not, if everything that its runs hold still means the same:
such a change is compatible with it (P155).

The nodes of an agent belong to nottwice, and its runs ask for tools by name. A tool that was added
or removed, or that takes more, needs no new version at all (P199).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from nottwice.model.data.records import frozen_record
from nottwice.model.graphs import schemas
from nottwice.model.graphs.body import comparable
from nottwice.model.graphs.fingerprint import Fingerprint, ToolPrint
from nottwice.model.graphs.graph import END, Choice, Edge, Fan, Node, Version
from nottwice.model.graphs.schemas import Fit
from nottwice.model.replay_class import stricter


class Part(enum.IntEnum):
    """The part of a version that must grow."""

    NONE = 0
    PATCH = 1
    MINOR = 2
    MAJOR = 3


@frozen_record(frozen=True, slots=True)
class BumpReason:
    """One thing that changed."""

    part: Part
    text: str
    is_compatible: bool = False
    """A run that is bound to the old version can be resumed with it, without a new version."""


@frozen_record(frozen=True, slots=True)
class Bump:
    """Everything that changed between two fingerprints, most important first."""

    reasons: tuple[BumpReason, ...] = ()

    @property
    def part(self) -> Part:
        return max((reason.part for reason in self.reasons), default=Part.NONE)

    @property
    def text(self) -> str:
        """Return what changed, as one line."""
        return ", ".join(reason.text for reason in self.reasons) or "nothing changed"

    def of_bound(self) -> Bump:
        """Return the part of it that matters to a version that runs are already bound to."""
        return Bump(tuple(reason for reason in self.reasons if not reason.is_compatible))


def what_bump(old: Fingerprint, new: Fingerprint) -> Bump:
    """Return what changed between two fingerprints of a graph, and which bump that needs."""
    if old == new:
        return Bump(())
    if old.is_agent and new.is_agent:
        found = [reason for reason in _tools(old, new) if not reason.is_compatible]
    else:
        found = [*_nodes(old, new), *_state(old, new), *_tools(old, new), *_bodies(old, new)]
    return Bump(tuple(sorted(found, key=lambda reason: -reason.part)))


def next_version(old: Version, part: Part) -> Version:
    """Return the lowest version that says so. Below 1.0.0 the second number also means MAJOR."""
    major, minor, patch = old
    match part:
        case Part.NONE:
            return old
        case Part.PATCH:
            return Version(major, minor, patch + 1)
        case Part.MAJOR if major > 0:
            return Version(major + 1, 0, 0)
        case _:
            return Version(major, minor + 1, 0)


def says_enough(old: Version, new: Version, part: Part) -> bool:
    """Whether a later version is high enough for what changed."""
    return new >= next_version(old, part)


def is_draft(version: Version) -> bool:
    """Whether a graph of this version may still be edited in place: 0.0.x was never deployed."""
    return version[:2] == (0, 0)


def _nodes(old: Fingerprint, new: Fingerprint) -> Iterator[BumpReason]:
    before = {node.name: node for node in old.graph.nodes}
    after = {node.name: node for node in new.graph.nodes}
    gone = [name for name in before if name not in after]
    added = [name for name in after if name not in before]
    renamed = _renamed(old, new, gone, added)
    for one, other in renamed.items():
        yield BumpReason(Part.MAJOR, f'node "{one}" renamed to "{other}"')
    for name in gone:
        if name not in renamed:
            yield BumpReason(Part.MAJOR, f'node "{name}" removed')
    for name in added:
        if name not in renamed.values():
            yield BumpReason(Part.MAJOR, f'node "{name}" added')
    for name, node in before.items():
        if name in after:
            yield from _node(node, after[name])
    start = old.graph.start
    if new.graph.start != renamed.get(start, start) and start not in gone:
        yield BumpReason(Part.MAJOR, f'it begins with node "{new.graph.start}"')


def _renamed(
    old: Fingerprint, new: Fingerprint, gone: list[str], added: list[str]
) -> dict[str, str]:
    """Return nodes that exist under another name, recognised by an identical body."""
    before, after = dict(old.bodies or ()), dict(new.bodies or ())
    found: dict[str, str] = {}
    for name in gone:
        twins = [
            other
            for other in added
            if other not in found.values() and name in before and after.get(other) == before[name]
        ]
        if len(twins) == 1:
            found[name] = twins[0]
    if not found and len(gone) == len(added) == 1:
        (one,), (other,) = gone, added
        if _place(old, one) == _place(new, other):
            found[one] = other
    return found


def _place(fingerprint: Fingerprint, name: str) -> int:
    return [node.name for node in fingerprint.graph.nodes].index(name)


def _node(old: Node, new: Node) -> Iterator[BumpReason]:
    if isinstance(old.route, Choice) and isinstance(new.route, Choice):
        yield from _choice(old.name, old.route, new.route)
    elif old.route != new.route:
        text = f'node "{old.name}" leads to {_route(new.route)}, not {_route(old.route)}'
        yield BumpReason(Part.MAJOR, text)
    if new.most < old.most:
        text = f'node "{old.name}" may be visited {new.most} times, not {old.most}'
        yield BumpReason(Part.MAJOR, text)
    elif new.most > old.most:
        text = f'node "{old.name}" may be visited {new.most} times, not only {old.most}'
        yield BumpReason(Part.MINOR, text)


def _choice(node: str, old: Choice, new: Choice) -> Iterator[BumpReason]:
    before, after = dict(old.options), dict(new.options)
    for option in before:
        if option not in after:
            yield BumpReason(Part.MAJOR, f'option "{option}" of node "{node}" removed')
        elif before[option] != after[option]:
            text = f'option "{option}" of node "{node}" leads to {_name(after[option])}'
            yield BumpReason(Part.MAJOR, f"{text}, not {_name(before[option])}")
    for option in after:
        if option not in before:
            yield BumpReason(Part.MINOR, f'option "{option}" of node "{node}" added')


def _route(route: Edge | Choice | Fan) -> str:
    match route:
        case Edge(to):
            return _name(to)
        case Choice(options):
            return f"a choice of {', '.join(option for option, _ in options)}"
        case Fan(heads, join):
            return f"branches {', '.join(map(_name, heads))} that meet in {_name(join)}"


def _name(node: str) -> str:
    return "the end" if node == END else f'"{node}"'


def _state(old: Fingerprint, new: Fingerprint) -> Iterator[BumpReason]:
    before, after = old.graph.state, new.graph.state
    fit = schemas.compare(before, after)
    fields = schemas.field_changes(before, after)
    if fit is not Fit.SAME and not fields:
        what = "allows more" if fit is Fit.WIDER else "narrowed"
        yield BumpReason(_part(fit), f"the state {what}")
    for change in fields:
        text = f'field "{change.field}" of the state {change.what}'
        yield BumpReason(_part(change.fit), text, is_compatible=change.fit is Fit.WIDER)
    if fit is Fit.NARROWER and fields and all(each.fit is not fit for each in fields):
        yield BumpReason(Part.MAJOR, "the state narrowed")
    for name in sorted(set(old.graph.append) ^ set(new.graph.append)):
        how = "is append-only now" if name in new.graph.append else "is no longer append-only"
        yield BumpReason(Part.MAJOR, f'list "{name}" of the state {how}')


def _part(fit: Fit) -> Part:
    match fit:
        case Fit.SAME:
            return Part.NONE
        case Fit.WIDER:
            return Part.MINOR
        case Fit.NARROWER:
            return Part.MAJOR


def _tools(old: Fingerprint, new: Fingerprint) -> Iterator[BumpReason]:
    if old.tools is None or new.tools is None:
        return
    before = {tool.name: tool for tool in old.tools}
    after = {tool.name: tool for tool in new.tools}
    # A model gets a list of the tools, while the code of a node names the tools that it calls.
    by_model = old.is_agent and new.is_agent
    for name in before:
        if name not in after:
            yield BumpReason(Part.MAJOR, f'tool "{name}" removed', is_compatible=by_model)
        else:
            yield from _tool(before[name], after[name])
    for name in after:
        if name not in before:
            yield BumpReason(Part.MINOR, f'tool "{name}" added', is_compatible=by_model)


def _tool(old: ToolPrint, new: ToolPrint) -> Iterator[BumpReason]:
    tool = f'tool "{old.name}"'
    if old.replay_class is not new.replay_class:
        tighter = stricter(old.replay_class, new.replay_class) is new.replay_class
        how = "tightened" if tighter else "loosened"
        text = f"{tool} {how} from {old.replay_class.value} to {new.replay_class.value}"
        yield BumpReason(Part.MINOR if tighter else Part.MAJOR, text, is_compatible=tighter)
    elif old.key != new.key:
        yield BumpReason(Part.MAJOR, f"{tool} has another key")
    elif old.window_seconds != new.window_seconds:
        # A longer window trusts the upstream more than was promised to open runs.
        longer = (new.window_seconds or 0.0) > (old.window_seconds or 0.0)
        text = f"{tool} has a {'longer' if longer else 'shorter'} window"
        yield BumpReason(Part.MAJOR if longer else Part.MINOR, text, is_compatible=not longer)
    for change in schemas.field_changes(old.arguments, new.arguments):
        text = f'argument "{change.field}" of {tool} {change.what}'
        # Arguments that equal their default are not recorded, so another default is another call.
        compatible = change.fit is Fit.WIDER and not change.changes_default
        yield BumpReason(_part(change.fit), text, is_compatible=compatible)
    yield from _identity(old, new)
    fit = schemas.compare(old.result, new.result)
    if fit is not Fit.SAME:
        how = "allows more" if fit is Fit.WIDER else "narrowed"
        text = f"the result of {tool} {how}"
        yield BumpReason(_part(fit), text, is_compatible=fit is Fit.WIDER)


def _identity(old: ToolPrint, new: ToolPrint) -> Iterator[BumpReason]:
    """Yield changes that make a recorded call look like another one, which would be made again."""
    for name in sorted(set(old.left_out) ^ set(new.left_out)):
        if not {name} <= _arguments(old) & _arguments(new):
            # An argument that was added or removed has its own reason, if it needs one.
            continue
        how = "counts now" if name in old.left_out else "no longer counts"
        text = f'argument "{name}" of tool "{old.name}" {how} for which call it is'
        yield BumpReason(Part.MAJOR, text)


def _arguments(tool: ToolPrint) -> set[str]:
    return set((tool.arguments or {}).get("properties", {}))


def _bodies(old: Fingerprint, new: Fingerprint) -> Iterator[BumpReason]:
    before: dict[str, Any] = dict(old.bodies or ())
    for name, body in new.bodies or ():
        known = before.get(name)
        if known is not None and known != body and comparable(known, body):
            yield BumpReason(Part.PATCH, f'the body of node "{name}" changed')
