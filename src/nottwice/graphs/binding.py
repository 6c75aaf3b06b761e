"""Does this version number still name the same graph? (V5)

A run is bound to ``name@version``, so the graph behind that id must not change. The first run of a
graph records its fingerprint in the ledger. Code with a different fingerprint is refused before
anything runs if it has the same id, or a later version that understates the change. Version 0.0.x
is the exception: it is a draft and may be edited in place. Tools and state types are shared by all
versions and may change in ways that are compatible with open runs.
Promises kept here: P37, P155.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shlex
import sys
from collections.abc import Iterable, MutableSet
from pathlib import Path
from types import FrameType
from typing import Protocol

from nottwice.errors import GraphChangedInPlace
from nottwice.graphs.recorded import recorded_fingerprint
from nottwice.model.graphs.bump import Bump, Part, is_draft, next_version, says_enough, what_bump
from nottwice.model.graphs.fingerprint import Fingerprint
from nottwice.model.graphs.graph import Version, split_graph_id
from nottwice.store.interface import Store

_OURS = f"{Path(__file__).parent.parent}{os.sep}"


class Printed(Protocol):
    """A graph whose fingerprint can be compared."""

    name: str
    version: Version
    place: str
    found_whole: MutableSet[Store]
    """The ledgers that are known to hold exactly this fingerprint."""

    @property
    def id(self) -> str: ...

    @property
    def record_json(self) -> str: ...

    def fingerprint(self) -> Fingerprint: ...


def check_unchanged(store: Store, graph: Printed) -> None:
    """Raise GraphChangedInPlace if the ledger knows this graph with another fingerprint.

    A ledger that holds this fingerprint is not read again, because a record never changes.
    """
    if is_draft(graph.version) or _is_found_whole(graph, store):
        return
    if not _is_known_as_it_is(store, graph):
        known = _recorded(store, graph)
        basis = _basis(known, graph.version)
        if basis is not None:
            old, new = known[basis], graph.fingerprint()
            bump = what_bump(old, new)
            if old.version[:2] == new.version[:2]:
                # Only this version can resume the runs, so no later number can declare the change.
                bump = bump.of_bound()
            _refuse_unless_said(old, new, bump, place=graph.place, where=store.location)
        if graph.version not in known:
            return
    with contextlib.suppress(TypeError):
        # A store that cannot be put in a set is read every time.
        graph.found_whole.add(store)


def _is_known_as_it_is(store: Store, graph: Printed) -> bool:
    """Return whether the ledger's record of this graph is what it would write now."""
    record = store.load_graph(graph.id)
    return record is not None and record.json == graph.record_json


def check_against_each_other(graphs: Iterable[Printed]) -> None:
    """Refuse deployed versions of one graph if a later number understates the change."""
    by_name: dict[str, list[Printed]] = {}
    for graph in graphs:
        if not is_draft(graph.version):
            by_name.setdefault(graph.name, []).append(graph)
    for versions in by_name.values():
        versions.sort(key=lambda graph: graph.version)
        for old, new in itertools.pairwise(versions):
            before, after = old.fingerprint(), new.fingerprint()
            bump = what_bump(before, after)
            _refuse_unless_said(before, after, bump, place=new.place, where="this app")


def _refuse_unless_said(
    old: Fingerprint, new: Fingerprint, bump: Bump, *, place: str, where: str
) -> None:
    """Raise GraphChangedInPlace if the later version number understates the change."""
    if says_enough(old.version, new.version, bump.part):
        return
    raise GraphChangedInPlace(
        _text(old, new, bump, place=place, where=where),
        graph=new.graph.graph_id,
        needs=str(next_version(old.version, bump.part)),
        reasons=tuple(reason.text for reason in bump.reasons),
    )


def find_place() -> str:
    """Return file and line of the user code that is declaring something right now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return "unknown" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _is_found_whole(graph: Printed, store: Store) -> bool:
    try:
        return store in graph.found_whole
    except TypeError:
        return False


def _recorded(store: Store, graph: Printed) -> dict[Version, Fingerprint]:
    """Return the fingerprints that the ledger has of this graph, by version."""
    found: dict[Version, Fingerprint] = {}
    for record in store.graphs():
        name, version = split_graph_id(record.graph_id)
        if name == graph.name:
            found[version] = recorded_fingerprint(record)
    return found


def _basis(known: Iterable[Version], version: Version) -> Version | None:
    """Return the version to compare with: the same one, or the last one before it."""
    return max((one for one in known if one <= version), default=None)


def _text(old: Fingerprint, new: Fingerprint, bump: Bump, *, place: str, where: str) -> str:
    needed = next_version(old.version, bump.part)
    if old.version == new.version:
        what = f"Graph {new.graph.graph_id} is not the one that runs in {where} started with"
    else:
        what = f"Graph {new.graph.graph_id} differs more from {old.graph.graph_id} than it declares"
    told = (
        f"{what}: {bump.text}. Nothing was done. Do not edit a deployed graph in place: "
        f'write version="{needed}" instead of "{new.version}" in {place}'
    )
    if bump.part is Part.PATCH:
        ways = f"Version {needed} will resume the open runs of {old.graph.graph_id}."
    else:
        ways = _ways(old, needed)
    return f"{told}. {ways} (While a graph is a draft, version 0.0.x may be edited in place.)"


def _ways(old: Fingerprint, needed: Version) -> str:
    """Describe what can be done with the runs of a version whose code is refused."""
    bound, name = old.graph.graph_id, old.graph.name
    # The nodes of an agent are the same in every version.
    nodes = () if old.is_agent else old.graph.nodes
    maps = "".join(f" --map {shlex.quote(f'{node.name}=NODE')}" for node in nodes)
    node = "NODE is the node at which they continue, and " if maps else ""
    return (
        f"If runs of {bound} are open (nottwice runs --by-version --app MODULE), you can: (1) Keep "
        f"the old version: declare {bound} as it was and deploy it beside {name}@{needed}, "
        f"nt.App(graphs=[..., <{bound}>]). If a tool changed, keep its old declaration for the old "
        "version and give the new tool another name: @nt.tool(..., name=...). (2) Migrate them: "
        f"nottwice migrate --from {shlex.quote(bound)} --to {shlex.quote(f'{name}@{needed}')}"
        f"{maps} --why TEXT --app MODULE, where {node}MODULE has your nt.App with its admins. "
        "(3) Start them again under another id. Effects that they have already made would then be "
        "made again."
    )
