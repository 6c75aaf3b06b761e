"""What did doubts cost, tool by tool, and where would a ``verify`` hook pay most?

Promise kept here: P330.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import Annotated

from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review, ReviewKind
from nottwice.store.interface import Store
from nottwice.views.ledger.activity import Activity, ToolActivity, activity_since
from nottwice.views.shape import LEDGER
from nottwice.views.text import age_text, shorten

_DOUBTS = (ReviewKind.IN_DOUBT, ReviewKind.RESULT)
BY_VERIFY = "verify"


@frozen_record(frozen=True, slots=True, kw_only=True)
class ToolCost:
    """What the doubts of one tool cost."""

    tool: Annotated[str, "the name of the tool"]
    calls: Annotated[int, "how many calls began in the time"]
    doubts: Annotated[int, "how many of its calls came into doubt"]
    per_thousand: Annotated[float, "doubts per 1,000 calls"]
    by_verify: Annotated[int, "how many of the doubts its verify hook settled"]
    by_person: Annotated[int, "how many of them a person decided"]
    open: Annotated[int, "how many of them are undecided"]
    median_seconds: Annotated[
        float | None, "the median time from the question to a person's decision, or null"
    ]
    waited_seconds: Annotated[
        float, "how long runs waited for people because of it, in total; open reviews until now"
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class CostReport:
    """What doubts cost, and what was saved."""

    ledger: Annotated[str, LEDGER]
    seconds: Annotated[float, "how long the time is that it covers"]
    activity: Annotated[Activity, "what was done in it; see activity"]
    costs: Annotated[tuple[ToolCost, ...], "the tools, the most costly first; see tool cost"]
    advice: Annotated[tuple[str, ...], "where a verify hook would pay most"]
    decided: Annotated[dict[str, int], "how many reviews each person decided"]
    definition: Annotated[str, "what counts as answered from receipts"]


DEFINITION = (
    "A call counts as answered from a receipt if a resumed run asked for it again and got the "
    "recorded result, so that it was not made a second time."
)


def report_on(
    ledger: Ledger, seconds: float, *, most_runs: int | None = None, most_calls: int | None = None
) -> CostReport:
    """The report about the last ``seconds``."""
    activity = activity_since(ledger, seconds, most_runs=most_runs, most_calls=most_calls)
    asked: dict[str, list[Review]] = defaultdict(list)
    decided: dict[str, int] = defaultdict(int)
    reviews = ledger.store.reviews()
    for review in reviews:
        if review.decision is not None and review.decision.at >= activity.since:
            decided[review.decision.by] += 1
    for review in _doubts(reviews, activity.since):
        asked[review.identity.tool_name].append(review)
    known = {one.tool: one for one in activity.by_tool}
    costs = [
        _cost(name, known.get(name), asked[name], activity.until)
        for name in sorted({*asked, *(one.tool for one in activity.by_tool)})
    ]
    costs.sort(key=lambda cost: (-cost.waited_seconds, -cost.doubts, cost.tool))
    return CostReport(
        ledger=ledger.location,
        seconds=seconds,
        activity=activity,
        costs=tuple(costs),
        advice=tuple(_advice(cost) for cost in costs if cost.by_person + cost.open)[:3],
        decided=dict(sorted(decided.items(), key=lambda one: (-one[1], one[0]))),
        definition=DEFINITION,
    )


def _cost(
    name: str, activity: ToolActivity | None, reviews: Sequence[Review], now: float
) -> ToolCost:
    waits = [
        (review.closed_at if review.decision is None else review.decision.at) or now
        for review in reviews
    ]
    lasted = [end - review.opened_at for end, review in zip(waits, reviews, strict=True)]
    people = [
        review.decision.at - review.opened_at
        for review in reviews
        if review.decision is not None and settled_by(review) == "by-people"
    ]
    # A hook may settle a doubt before a person is asked, or afterwards.
    verified = frozenset[str]() if activity is None else activity.verified
    rechecked = {review.call_id for review in reviews if settled_by(review) == "by-verify"}
    doubts = len(verified | {review.call_id for review in reviews})
    calls = 0 if activity is None else activity.calls
    return ToolCost(
        tool=name,
        calls=calls,
        doubts=doubts,
        per_thousand=round(1000.0 * doubts / max(calls, doubts, 1), 3),
        by_verify=len(verified | rechecked),
        by_person=len(people),
        open=sum(settled_by(review) == "open-doubts" for review in reviews),
        median_seconds=statistics.median(people) if people else None,
        waited_seconds=round(sum(lasted), 6),
    )


def doubts_since(store: Store, since: float) -> list[Review]:
    """The reviews of doubts that were opened since a moment."""
    return _doubts(store.reviews(), since)


def settled_by(review: Review) -> str:
    """Return who has settled a doubt: by-verify, by-people, open-doubts, or an empty text."""
    if review.decision is not None:
        return "by-verify" if review.decision.by == BY_VERIFY else "by-people"
    return "open-doubts" if review.closed_at is None else ""


def _doubts(reviews: Sequence[Review], since: float) -> list[Review]:
    return [one for one in reviews if one.opened_at >= since and one.kind in _DOUBTS]


def _advice(cost: ToolCost) -> str:
    many = cost.by_person + cost.open
    asked = "1 question" if many == 1 else f"{many} questions"
    waited = age_text(cost.waited_seconds).removesuffix(" ago")
    return (
        f"A verify hook for {shorten(cost.tool, 80)} could have answered {asked}; "
        f"runs waited {waited} for people."
    )
