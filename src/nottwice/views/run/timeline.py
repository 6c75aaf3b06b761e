"""When did what happen in a run? Its openings, steps and attempts as bars on one scale of time.

A run may wait for days between two openings that take milliseconds. So each opening has its own
stretch of the scale, and the time between two of them is only a gap with a label.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated

from nottwice.model.data.records import frozen_record
from nottwice.views.run.details import RunDetails
from nottwice.views.runs import OpeningView

MOST_ROWS = 8
"""How many bars of one opening are drawn above each other."""
_GAP = 0.04


@frozen_record(frozen=True, slots=True, kw_only=True)
class Bar:
    """A step or an attempt in the picture."""

    kind: Annotated[str, "step or call"]
    label: Annotated[str, "its name"]
    outcome: Annotated[str, "done, failed, lost, or running"]
    left: Annotated[float, "where it begins, from 0 to 1"]
    right: Annotated[float, "where it ends, from 0 to 1"]
    row: Annotated[int, "its row inside of the lane, from 0 on"]
    seconds: Annotated[float | None, "how long it took; null if that is not known"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class TimeLane:
    """One opening of the run."""

    opening: Annotated[OpeningView, "the process that held the run; see opening"]
    left: Annotated[float, "where it begins, from 0 to 1"]
    right: Annotated[float, "where it ends, from 0 to 1"]
    ending: Annotated[str, "how it ended, in words"]
    bars: Annotated[tuple[Bar, ...], "what was done in it; see bar"]
    rows: Annotated[int, "how many rows its bars need"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class TimeGap:
    """The time between two openings."""

    left: Annotated[float, "where it is, from 0 to 1"]
    seconds: Annotated[float, "how long it was"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A run as a picture."""

    lanes: Annotated[tuple[TimeLane, ...], "its openings, oldest first; see lane"]
    gaps: Annotated[tuple[TimeGap, ...], "the time between them; see gap"]


@frozen_record(frozen=True, slots=True)
class _Span:
    kind: str
    label: str
    outcome: str
    began: float
    ended: float | None


def timeline_of(details: RunDetails, *, now: float) -> Timeline:
    """The picture of a run."""
    openings = details.openings
    if not openings:
        return Timeline(lanes=(), gaps=())
    spans = _spans(details)
    ends = [_end(opening, spans, now) for opening in openings]
    stretches = _stretches(openings, ends)
    lanes = []
    for number, opening in enumerate(openings):
        next_began = openings[number + 1].began_at if number + 1 < len(openings) else math.inf
        own = [one for one in spans if opening.began_at <= one.began < next_began]
        lanes.append(_lane(opening, own, ends[number], stretches[number]))
    gaps = [
        TimeGap(left=stretches[number][1] + _GAP / 2, seconds=max(0.0, after.began_at - end))
        for number, (end, after) in enumerate(zip(ends, openings[1:], strict=False))
    ]
    return Timeline(lanes=tuple(lanes), gaps=tuple(gaps))


def _spans(details: RunDetails) -> list[_Span]:
    found = []
    for step in details.steps:
        outcome = {"done": "done", "failed": "failed"}.get(step.status.value, "running")
        found.append(_Span("step", step.step, outcome, step.started_at, step.finished_at))
    for call in details.calls:
        for one in call.attempts:
            outcome = "done" if one.outcome == "done" else "failed" if one.outcome else "lost"
            if one.is_alive:
                outcome = "running"
            found.append(_Span("call", call.tool, outcome, one.started_at, one.ended_at))
    return sorted(found, key=lambda span: span.began)


def _end(opening: OpeningView, spans: Sequence[_Span], now: float) -> float:
    """When an opening ended. Of one that was killed only the last sign of life is known."""
    if opening.ended is None and opening.ended_at is None:
        return max(opening.began_at, now)
    ended = opening.ended_at or opening.began_at
    if opening.ended is not None and opening.ended.value not in ("killed", "taken over"):
        return ended
    signs = [span.began for span in spans] + [span.ended for span in spans if span.ended]
    inside = [at for at in signs if opening.began_at <= at < ended]
    return max(inside, default=opening.began_at)


def _stretches(openings: Sequence[OpeningView], ends: Sequence[float]) -> list[tuple[float, float]]:
    """The part of the scale that each opening gets: more for a longer one, but not as much more."""
    room = 1.0 - _GAP * (len(openings) - 1)
    if room < 0.2:
        room = 1.0
    gap = (1.0 - room) / max(1, len(openings) - 1)
    weights = [
        1.0 + math.log10(1.0 + 1000.0 * max(0.0, end - opening.began_at))
        for opening, end in zip(openings, ends, strict=True)
    ]
    found, left = [], 0.0
    for weight in weights:
        width = room * weight / sum(weights)
        found.append((left, min(1.0, left + width)))
        left += width + gap
    return found


def _lane(
    opening: OpeningView, spans: Iterable[_Span], end: float, stretch: tuple[float, float]
) -> TimeLane:
    length = max(end - opening.began_at, 1e-6)

    def place(at: float) -> float:
        part = min(1.0, max(0.0, (at - opening.began_at) / length))
        return stretch[0] + part * (stretch[1] - stretch[0])

    bars: list[Bar] = []
    rows: list[float] = []
    for kind in ("step", "call"):
        first = len(rows)
        for span in spans:
            if span.kind != kind:
                continue
            left = place(span.began)
            right = max(place(end if span.ended is None else span.ended), left)
            free = [row for row in range(first, len(rows)) if rows[row] <= left]
            row = free[0] if free else len(rows)
            if row >= MOST_ROWS:
                row = MOST_ROWS - 1
            elif not free:
                rows.append(right)
            rows[row] = right
            bars.append(
                Bar(
                    kind=kind,
                    label=span.label,
                    outcome=span.outcome,
                    left=left,
                    right=right,
                    row=row,
                    seconds=None if span.ended is None else max(0.0, span.ended - span.began),
                )
            )
    return TimeLane(
        opening=opening,
        left=stretch[0],
        right=stretch[1],
        ending=_ending(opening),
        bars=tuple(bars),
        rows=max(1, len(rows)),
    )


def _ending(opening: OpeningView) -> str:
    text = "holds the run, or was killed" if opening.ended is None else opening.ended.value
    if opening.receipts:
        many = "1 receipt" if opening.receipts == 1 else f"{opening.receipts} receipts"
        text = f"{many} replayed, {text}"
    return text
