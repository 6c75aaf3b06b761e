"""How are runs counted? By the memory rules, or by SQL queries with the same result (P171)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from nottwice.model.data.shapes import UNREADABLE
from nottwice.model.review import ReviewStatus, danger_of
from nottwice.model.run import RunRecord, RunStatus, WaitKind
from nottwice.model.runs.tally import DECIDED, ReadyCount, RunGroup, Tally
from nottwice.store import rules
from nottwice.store.rules import MemoryData
from nottwice.store.table import Row, corrupt
from nottwice.store.tables import REVIEWS, RUNS, seconds

_Key = tuple[str | None, str | None, RunStatus, bool, tuple[str, ...], bool]


def tally(data: MemoryData, runs: Iterable[RunRecord], *, now: float, limit: int) -> Tally:
    """The tally of these runs, and of all reviews."""
    numbers: Counter[_Key] = Counter()
    oldest: dict[_Key, float] = {}
    ready = []
    for run in runs:
        key = _key(data, run, now)
        numbers[key] += 1
        oldest[key] = min(oldest.get(key, run.created_at), run.created_at)
        if key[-1]:
            ready.append(run)
    ready.sort(key=lambda run: (run.updated_at, run.workflow_id), reverse=True)
    reviews = rules.open_reviews(data, None)
    undecided = [review for review in reviews if review.status is ReviewStatus.OPEN]
    undecided.sort(key=danger_of)
    return Tally(
        groups=tuple(_group(key, number, oldest[key]) for key, number in numbers.items()),
        ready=tuple(ready[:limit]),
        open_reviews=len(undecided),
        decided_reviews=len(reviews) - len(undecided),
        reviews=tuple(undecided[:limit]),
    )


def group_from_sql(row: Row) -> RunGroup:
    """The group that a query has counted. Without a graph, the input tells the version."""
    try:
        graph_id, input_json, status, queued, waits, ready, number, oldest_at = row
        found = RunRecord("counted", RunStatus(status), 1, None, 0.0, 0.0, input_json=input_json)
        key = (_text_or_none(graph_id), found.version, found.status, bool(queued))
        kinds = tuple(sorted(waits.split(",") if waits else ()))
        return _group((*key, kinds, bool(ready)), number, _moment(oldest_at or 0))
    except UNREADABLE as error:
        raise corrupt("a run", list(row), error) from error


def ready_from_sql(row: Row) -> ReadyCount:
    """The runs of one graph that a query has counted."""
    try:
        graph_id, number, oldest_at = row
        return ReadyCount(_text_or_none(graph_id) or "", number, _moment(oldest_at))
    except UNREADABLE as error:
        raise corrupt("a run", list(row), error) from error


# No table has checked what a query has grouped.


def _text_or_none(found: object) -> str | None:
    if not isinstance(found, str | None):
        raise TypeError(f"{found!r} is not a text")
    return found


def _moment(found: object) -> float:
    if type(found) is not int:
        raise TypeError(f"{found!r} is not a time")
    return seconds(found)


def from_sql(
    groups: Iterable[Row],
    ready: Iterable[Row],
    numbers: Iterable[tuple[str, int]],
    reviews: Iterable[Row],
) -> Tally:
    """The tally from the results of four queries; see ``SqlStore.tally``."""
    counted: dict[str, int] = dict(numbers)
    return Tally(
        groups=tuple(map(group_from_sql, groups)),
        ready=tuple(RUNS.records(list(ready))),
        open_reviews=counted.get(ReviewStatus.OPEN.value, 0),
        decided_reviews=counted.get(ReviewStatus.DECIDED.value, 0),
        reviews=tuple(REVIEWS.records(list(reviews))),
    )


def _key(data: MemoryData, run: RunRecord, now: float) -> _Key:
    waits = run.waits if run.status is RunStatus.WAITING else ()
    kinds = tuple(sorted({_kind(data, wait.kind, wait.subject) for wait in waits}))
    # If a run has a graph, its version is part of the graph's id.
    version = run.version if run.graph_id is None else None
    ready = run.status is RunStatus.WAITING and rules.has_come(data, run, now=now)
    return run.graph_id, version, run.status, run.is_queued, kinds, ready


def _kind(data: MemoryData, kind: WaitKind, subject: str) -> str:
    review = data.reviews.get(subject) if kind is WaitKind.REVIEW else None
    is_decided = review is not None and review.status is ReviewStatus.DECIDED
    return DECIDED if is_decided else kind.value


def _group(key: _Key, number: int, oldest_at: float) -> RunGroup:
    graph_id, version, status, queued, waits, ready = key
    return RunGroup(
        graph_id=graph_id,
        version=version,
        status=status,
        queued=queued,
        waits=waits,
        ready=ready,
        runs=number,
        oldest_at=None if status.is_final else oldest_at,
    )
