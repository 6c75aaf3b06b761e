"""Which versions still have runs that need them, and which can be removed? (V3)

Pure: computed from the ledger's runs, counted by status, and from what is deployed. A run needs its
own version or another patch of it. A run is open until it is completed or aborted, because a failed
run can be resumed. Runs that ``nt.run`` opened with a version are listed by that version. For them,
it is unknown which code is deployed.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Sequence

from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.graph import Version, parse_version, split_graph_id
from nottwice.model.run import RunStatus
from nottwice.model.runs.tally import RunGroup


class VersionRemoval(enum.Enum):
    """Whether the code of a version can be taken out of the deployment."""

    SAFE = "yes"
    OPEN_RUNS = "no: open runs need it"
    NEW_RUNS = "no: new runs take it"
    GONE = "not deployed"
    MISSING = "not deployed, and open runs need it"
    UNKNOWN = "unknown without --app"
    NO_OPEN_RUNS = "no open run needs it"


@frozen_record(frozen=True, slots=True, kw_only=True)
class VersionView:
    """One version of a graph, or of other code, with the runs that are bound to it."""

    graph_id: str | None
    """None if its runs have no graph."""
    version: str
    runs: int
    open: int
    oldest_at: float | None
    """When the oldest open run was created."""
    waits: tuple[tuple[str, int], ...]
    """What open runs wait for, or their status if they do not wait, and how many. A run is
    ``ready`` if something that it waits for has arrived."""
    taken_by: str | None
    """The deployed version that resumes its runs. None if there is none or it is not known."""
    removal: VersionRemoval


def drains(groups: Iterable[RunGroup], *, deployed: Sequence[str] | None) -> list[VersionView]:
    """Return all versions that have runs or are deployed, by name and version, graphless ones last.

    ``deployed`` lists the deployed graph ids. None means that they are not known.
    """
    found = list(groups)
    return [*_of_graphs(found, deployed), *_without_graph(found)]


def _without_graph(groups: Iterable[RunGroup]) -> list[VersionView]:
    by_version: dict[str, list[RunGroup]] = {}
    for group in groups:
        if group.graph_id is None and group.version is not None:
            by_version.setdefault(group.version, []).append(group)
    ordered = sorted(by_version, key=lambda text: parse_version(text, what="A run"))
    return [_plain_view(version, by_version[version]) for version in ordered]


def _plain_view(version: str, groups: list[RunGroup]) -> VersionView:
    needed = any(not group.status.is_final for group in groups)
    removal = VersionRemoval.OPEN_RUNS if needed else VersionRemoval.NO_OPEN_RUNS
    return _view(None, version, groups, taken_by=None, removal=removal)


def _of_graphs(groups: Iterable[RunGroup], deployed: Sequence[str] | None) -> list[VersionView]:
    by_graph: dict[str, list[RunGroup]] = {graph_id: [] for graph_id in deployed or ()}
    for group in groups:
        if group.graph_id is not None:
            by_graph.setdefault(group.graph_id, []).append(group)
    open_ids = {
        graph_id
        for graph_id, found in by_graph.items()
        if any(not group.status.is_final for group in found)
    }
    return [
        _view(
            graph_id,
            str(split_graph_id(graph_id)[1]),
            by_graph[graph_id],
            taken_by=None if deployed is None else taker_of(graph_id, deployed),
            removal=_removal(graph_id, deployed, open_ids),
        )
        for graph_id in sorted(by_graph, key=split_graph_id)
    ]


def taker_of(graph_id: str, deployed: Iterable[str]) -> str | None:
    """Return the deployed version that resumes runs of this one: its latest patch."""
    name, version = split_graph_id(graph_id)
    fitting = [
        (other, one)
        for one in deployed
        for other_name, other in [split_graph_id(one)]
        if other_name == name and other[:2] == version[:2]
    ]
    return max(fitting)[1] if fitting else None


def _view(
    graph_id: str | None,
    version: str,
    groups: list[RunGroup],
    *,
    taken_by: str | None,
    removal: VersionRemoval,
) -> VersionView:
    still = [group for group in groups if not group.status.is_final]
    waits: Counter[str] = Counter()
    for group in still:
        waits.update(dict.fromkeys(_stand(group), group.runs))
    return VersionView(
        graph_id=graph_id,
        version=version,
        runs=sum(group.runs for group in groups),
        open=sum(group.runs for group in still),
        oldest_at=min((one.oldest_at for one in still if one.oldest_at is not None), default=None),
        waits=tuple(sorted(waits.items())),
        taken_by=taken_by,
        removal=removal,
    )


def _stand(group: RunGroup) -> tuple[str, ...]:
    if group.ready:
        return ("ready",)
    if group.status is RunStatus.WAITING and group.waits:
        return group.waits
    return ("queued" if group.queued else group.status.value,)


def _removal(graph_id: str, deployed: Sequence[str] | None, open_ids: set[str]) -> VersionRemoval:
    if deployed is None:
        return VersionRemoval.UNKNOWN
    if graph_id not in deployed:
        stranded = graph_id in open_ids and taker_of(graph_id, deployed) is None
        return VersionRemoval.MISSING if stranded else VersionRemoval.GONE
    if graph_id == _newest(graph_id, deployed):
        return VersionRemoval.NEW_RUNS
    # Open runs of other patches also need it, unless a later patch takes them all.
    needed = any(taker_of(one, deployed) == graph_id for one in open_ids)
    return VersionRemoval.OPEN_RUNS if needed else VersionRemoval.SAFE


def _newest(graph_id: str, deployed: Sequence[str]) -> str:
    name = split_graph_id(graph_id)[0]
    versions: list[tuple[Version, str]] = [
        (version, one)
        for one in deployed
        for other, version in [split_graph_id(one)]
        if other == name
    ]
    return max(versions)[1]
