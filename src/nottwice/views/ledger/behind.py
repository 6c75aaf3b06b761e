"""Which rows are behind a figure? The calls, the openings or the decisions that it counts.

They are read in the same way as the figure is counted, so there are as many. Promise kept here:
P359.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated

from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model.call import CallRow
from nottwice.model.data.records import frozen_record
from nottwice.model.runs.openings import OpeningRecord
from nottwice.reviews.queue import believed
from nottwice.views.ledger.activity import (
    RecentDoings,
    has_failed,
    has_resumed,
    is_done_effect,
    is_verified,
    was_killed,
)
from nottwice.views.ledger.report import doubts_since, settled_by
from nottwice.views.people.reviews import ReviewView, review_view
from nottwice.views.run.calls import CallView, call_view
from nottwice.views.runs import Holders, OpeningView, opening_view
from nottwice.views.shape import LEDGER, Timestamp
from nottwice.views.text import shorten
from nottwice.views.wording import ToolTexts

MOST_ROWS = 500
CALLS: dict[str, Callable[[CallRow], bool]] = {
    "calls": lambda row: True,
    "effects": is_done_effect,
    "failed": has_failed,
    "verified": is_verified,
    "in-doubt": lambda row: row.status.in_doubt,
}
"""The figures that count calls."""
OPENINGS: dict[str, Callable[[OpeningRecord, float], bool]] = {
    "receipts": lambda opening, since: bool(opening.receipts),
    "duplicates": lambda opening, since: bool(opening.duplicates),
    "resumed": has_resumed,
    "killed": lambda opening, since: was_killed(opening),
}
"""The figures that count openings of runs, or what they were answered."""
DOUBTS = ("doubts", "by-verify", "by-people", "open-doubts")
"""The figures of a report that count doubts."""
FIGURES = (*CALLS, *OPENINGS, *DOUBTS)


@frozen_record(frozen=True, slots=True, kw_only=True)
class CallBehind:
    """One call that a figure counts."""

    run_id: Annotated[str, "its run"]
    call: Annotated[CallView, "see call"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class OpeningBehind:
    """One opening that a figure counts."""

    run_id: Annotated[str, "its run"]
    opening: Annotated[OpeningView, "see opening"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class RowsBehind:
    """What is behind a figure."""

    ledger: Annotated[str, LEDGER]
    figure: Annotated[str, "what is counted"]
    total: Annotated[int, "the figure"]
    calls: Annotated[tuple[CallBehind, ...], "the calls, those of the last changed run first"]
    openings: Annotated[tuple[OpeningBehind, ...], "the openings, in the same order"]
    omitted: Annotated[int, "how many rows are not listed"]
    is_complete: Annotated[bool, "false if there was more than was read"]
    now: float


@frozen_record(frozen=True, slots=True, kw_only=True)
class DecisionBehind:
    """One decision of a person."""

    review: Annotated[ReviewView, "see review"]
    waited_seconds: Annotated[float, "how long the review had waited for it"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class DecisionsBehind:
    """What was decided in some time."""

    ledger: Annotated[str, LEDGER]
    since: Annotated[Timestamp, "the moment from which on they count"]
    total: Annotated[int, "how many there are"]
    by: Annotated[dict[str, int], "how many each person has decided, most first"]
    rows: Annotated[tuple[DecisionBehind, ...], "the decisions, newest first"]
    now: float


def rows_behind(
    ledger: Ledger,
    figure: str,
    seconds: float,
    *,
    tool: str = "",
    most_runs: int | None = None,
    most_calls: int | None = None,
) -> RowsBehind:
    """The rows that a figure of the last ``seconds`` counts; ``tool``: only calls of this tool."""
    if figure not in FIGURES:
        raise UsageError(
            f"{shorten(figure, 40)!r} is not a figure. Nothing was read. Choose one of: "
            f"{', '.join(FIGURES)}."
        )
    recent = RecentDoings(ledger, seconds, most_runs=most_runs, most_calls=most_calls)
    openings: list[tuple[str, OpeningRecord]] = []
    calls: list[CallRow] = []
    if figure in OPENINGS:
        openings = list(_openings(recent, figure))
        total = len(openings)
        if figure == "receipts":
            total = sum(opening.receipts or 0 for _, opening in openings)
        elif figure == "duplicates":
            total = sum(opening.duplicates or 0 for _, opening in openings)
    else:
        found = _doubts(ledger, recent, figure) if figure in DOUBTS else _calls(recent, figure)
        calls = [row for row in found if tool in ("", row.identity.tool_name)]
        total = len(calls)
    holders = Holders(ledger.store)
    return RowsBehind(
        ledger=ledger.location,
        figure=figure,
        total=total,
        calls=tuple(_call_behind(row, holders) for row in calls[:MOST_ROWS]),
        openings=tuple(
            OpeningBehind(run_id=run_id, opening=opening_view(opening, holders))
            for run_id, opening in openings[:MOST_ROWS]
        ),
        omitted=max(0, max(len(calls), len(openings)) - MOST_ROWS),
        is_complete=recent.is_complete,
        now=recent.now,
    )


def _openings(recent: RecentDoings, figure: str) -> Iterator[tuple[str, OpeningRecord]]:
    for run in recent.read_runs():
        for opening in recent.read_openings(run):
            if OPENINGS[figure](opening, recent.since):
                yield run.workflow_id, opening


def _calls(recent: RecentDoings, figure: str) -> Iterator[CallRow]:
    for run in recent.read_runs():
        yield from filter(CALLS[figure], recent.read_calls(run))


def _doubts(ledger: Ledger, recent: RecentDoings, figure: str) -> Iterator[CallRow]:
    """The calls that came into doubt, each once, as the report counts them."""
    found: dict[str, CallRow] = {}
    if figure in ("doubts", "by-verify"):
        found = {row.call_id: row for row in _calls(recent, "verified")}
    for review in doubts_since(ledger.store, recent.since):
        settled = settled_by(review)
        if figure == "doubts" or figure == settled:
            row = believed(partial(ledger.store.load_call, review.identity), None)
            if row is not None:
                found[row.call_id] = row
    return iter(found.values())


def _call_behind(row: CallRow, holders: Holders) -> CallBehind:
    call = call_view(row, holders, evidence=(), reviews=())
    return CallBehind(run_id=row.identity.workflow_id, call=call)


def decisions_behind(
    ledger: Ledger, seconds: float, *, by: str = "", rows: int = MOST_ROWS
) -> DecisionsBehind:
    """What was decided in the last ``seconds``; ``by``: only by this person, or by verify."""
    store, now = ledger.store, ledger.clock.now()
    since = now - seconds
    found = [
        (one.decision.at, one)
        for one in store.reviews()
        if one.decision is not None and one.decision.at >= since
    ]
    names = Counter(one.decision.by for _, one in found if one.decision is not None)
    wanted = [
        (at, one) for at, one in found if one.decision is not None and by in ("", one.decision.by)
    ]
    wanted.sort(key=lambda pair: -pair[0])
    tools = ToolTexts(store)
    return DecisionsBehind(
        ledger=ledger.location,
        since=Timestamp(since),
        total=len(wanted),
        by=dict(names.most_common()),
        rows=tuple(
            DecisionBehind(
                review=review_view(store, one, tools), waited_seconds=max(0.0, at - one.opened_at)
            )
            for at, one in wanted[:rows]
        ),
        now=now,
    )
