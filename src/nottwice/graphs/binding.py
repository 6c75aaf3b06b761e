"""Is this graph still the one that its version stands for? (V5)

A run is bound to ``name@version``, so what that names must not change. The first run of a graph
records its fingerprint in the ledger; code whose fingerprint is another one under the same id, or
under a later id that does not say how much has changed, is refused before anything runs.
Version 0.0.x is the exception: it stands for a draft, and may be edited in place. What versions
share, tools and types of the state, may change under all of them in ways that are compatible with
runs in flight. Promises kept here: P37, P155.
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
    """The ledgers that were seen to hold this very fingerprint."""

    @property
    def id(self) -> str: ...

    @property
    def record_json(self) -> str: ...

    def fingerprint(self) -> Fingerprint: ...


def check_unchanged(store: Store, graph: Printed) -> None:
    """Refuse a graph that the ledger knows as another one; GraphChangedInPlace says what to do.

    A ledger that holds this fingerprint is not asked again: a record never changes.
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
                # Its runs can be resumed by no other version, so no later one could say it.
                bump = bump.of_bound()
            _refuse_unless_said(old, new, bump, place=graph.place, where=store.location)
        if graph.version not in known:
            return
    with contextlib.suppress(TypeError):
        # A store that cannot be remembered is asked every time.
        graph.found_whole.add(store)


def _is_known_as_it_is(store: Store, graph: Printed) -> bool:
    """Whether the ledger holds what it would hold if it saw this graph now: the usual case."""
    record = store.load_graph(graph.id)
    return record is not None and record.json == graph.record_json


def check_against_each_other(graphs: Iterable[Printed]) -> None:
    """Refuse versions of one graph, deployed together, of which a later one says too little."""
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
    """Raise GraphChangedInPlace if the later version does not say how much has changed."""
    if says_enough(old.version, new.version, bump.part):
        return
    raise GraphChangedInPlace(
        _text(old, new, bump, place=place, where=where),
        graph=new.graph.graph_id,
        needs=str(next_version(old.version, bump.part)),
        reasons=tuple(reason.text for reason in bump.reasons),
    )


def find_place() -> str:
    """File and line of the user's code that declares something, while it does so."""
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
    """What the ledger knows of this graph, by version. After a draft every version says enough."""
    found: dict[Version, Fingerprint] = {}
    for record in store.graphs():
        name, version = split_graph_id(record.graph_id)
        if name == graph.name:
            found[version] = recorded_fingerprint(record)
    return found


def _basis(known: Iterable[Version], version: Version) -> Version | None:
    """What a version is compared with: itself, or the last one before it."""
    return max((one for one in known if one <= version), default=None)


def _text(old: Fingerprint, new: Fingerprint, bump: Bump, *, place: str, where: str) -> str:
    needed = next_version(old.version, bump.part)
    if old.version == new.version:
        what = f"Graph {new.graph.graph_id} is not the one that runs in {where} began with"
    else:
        what = f"Graph {new.graph.graph_id} changed more since {old.graph.graph_id} than it says"
    told = (
        f"{what}: {bump.text}. Nothing was done. A graph that was deployed is not edited in place: "
        f'write version="{needed}" instead of "{new.version}" in {place}'
    )
    if bump.part is Part.PATCH:
        ways = f"Open runs of {old.graph.graph_id} are resumed by {needed}."
    else:
        ways = _ways(old, needed)
    return f"{told}. {ways} (While a graph is a draft, version 0.0.x may be edited in place.)"


def _ways(old: Fingerprint, needed: Version) -> str:
    """What can be done with runs of a version whose code is refused."""
    bound, name = old.graph.graph_id, old.graph.name
    # The beats of an agent are the same in every version.
    nodes = () if old.is_agent else old.graph.nodes
    maps = "".join(f" --map {shlex.quote(f'{node.name}=NODE')}" for node in nodes)
    where = ", where NODE is the node at which they continue" if maps else ""
    return (
        f"If runs of {bound} are open (nottwice runs --by-version), you can: (1) run the old "
        f"version: declare {bound} as it was and deploy it beside {name}@{needed}, "
        f"nt.App(graphs=[..., <{bound}>]). A tool that changed keeps its old declaration for that, "
        "and the new one gets another name: @nt.tool(..., name=...). (2) Migrate them: "
        f"nottwice migrate --from {shlex.quote(bound)} --to {shlex.quote(f'{name}@{needed}')}"
        f"{maps} --why TEXT{where}. (3) Start them afresh under another id; what they have done "
        "already would be done again."
    )
