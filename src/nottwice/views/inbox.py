"""What waits for a person now, the most dangerous first, and what does each of it block?

Promise kept here: P321 (the order, and what is offered without looking closely).
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.review import ReviewKind, Verb
from nottwice.model.runs.labels import parse_tag
from nottwice.model.tool import parse_duration
from nottwice.views.choices import blocks_text
from nottwice.views.reviews import DANGER, ReviewView, review_view
from nottwice.views.runs import Holders, RunView, run_view
from nottwice.views.shape import LEDGER
from nottwice.views.text import shorten
from nottwice.views.wording import ToolTexts

MOST_ROWS = 200
GROUPS: dict[str, tuple[ReviewKind, ...]] = {
    "tampered": (ReviewKind.CORRUPT,),
    "in doubt": (ReviewKind.IN_DOUBT, ReviewKind.RESTORED),
    "drift": (ReviewKind.DRIFT,),
    "result": (ReviewKind.RESULT,),
    "stuck": (ReviewKind.UNDEPLOYABLE,),
    "approvals": (ReviewKind.APPROVAL,),
    "questions": (ReviewKind.QUESTION, ReviewKind.BUDGET),
}
GROUP_OF = {kind: name for name, kinds in GROUPS.items() for kind in kinds}
OLD_SECONDS = 3600.0
AGEING_SECONDS = 600.0


@frozen_record(frozen=True, slots=True, kw_only=True)
class InboxFilter:
    """Which reviews are wanted; everything empty means all."""

    group: str = ""
    tool: str = ""
    run: str = ""
    """The beginning of the id of a run."""
    tag: str = ""
    older: str = ""
    """Only reviews that have waited for longer: ``10m``, ``1h``."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class InboxRow:
    """One review in the inbox."""

    review: Annotated[ReviewView, "see review"]
    group: Annotated[str, "tampered, in doubt, drift, result, stuck, approvals or questions"]
    about: Annotated[str, "what it is about in one line: the tool's title, or the call"]
    age_seconds: Annotated[float, "how long it has waited"]
    age: Annotated[str, "fresh, ageing (10 minutes) or old (an hour)"]
    blocks: Annotated[str, "what waits for it, in words"]
    run: RunView | None
    in_bulk: bool
    """Whether it may be approved together with others."""
    quick: tuple[str, ...]
    """What can be decided from the list: the options of a question, an approval. Never a doubt."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Inbox:
    """What waits for a person."""

    ledger: Annotated[str, LEDGER]
    rows: Annotated[tuple[InboxRow, ...], "what is open, the most dangerous first; see inbox row"]
    decided: Annotated[tuple[InboxRow, ...], "what is decided and not used yet, oldest first"]
    counts: Annotated[dict[str, int], "how many are open in each group, without the filter"]
    total: Annotated[int, "how many are open, without the filter"]
    omitted: Annotated[int, "how many that fit the filter are not listed"]
    tools: tuple[str, ...]
    """The tools of what is open, for a filter."""
    oldest_seconds: Annotated[float | None, "how long the oldest has waited, or null"]
    now: float


def read_inbox(ledger: Ledger, wanted: InboxFilter | None = None) -> Inbox:
    """The reviews that are open or decided and not used, the most dangerous first."""
    store, wanted = ledger.store, wanted or InboxFilter()
    check_filter(wanted)
    now = ledger.clock.now()
    pending = store.open_reviews()
    tools, holders = ToolTexts(store), Holders(store)
    views = [review_view(store, review, tools) for review in pending[: 20 * MOST_ROWS]]
    runs: dict[str, RunView | None] = {}
    for view in views:
        if view.run_id not in runs:
            known = store.load_run(view.run_id)
            runs[view.run_id] = None if known is None else run_view(known, holders)
    undecided = [view for view in views if view.is_open]
    fitting = [view for view in undecided if _fits(view, runs[view.run_id], wanted, now)]
    fitting.sort(key=lambda view: (DANGER.index(view.kind), view.opened_at, view.review_id))
    counts = Counter(GROUP_OF[view.kind] for view in undecided)
    children = {run_id: len(store.children(run_id)) for run_id in runs}

    def row(view: ReviewView) -> InboxRow:
        return _row(view, runs[view.run_id], children[view.run_id], now)

    return Inbox(
        ledger=ledger.location,
        rows=tuple(map(row, fitting[:MOST_ROWS])),
        decided=tuple(row(view) for view in views if not view.is_open)[:MOST_ROWS],
        counts={name: counts[name] for name in GROUPS},
        total=len(undecided),
        omitted=max(0, len(fitting) - MOST_ROWS),
        tools=tuple(sorted({view.tool for view in undecided if view.tool})),
        oldest_seconds=max((now - view.opened_at for view in undecided), default=None),
        now=now,
    )


def in_bulk(view: ReviewView) -> bool:
    """Whether several such reviews may be decided at once: approvals, and never a doubt."""
    return view.kind is ReviewKind.APPROVAL and view.is_open


def check_filter(wanted: InboxFilter) -> None:
    """UsageError if a filter makes no sense."""
    if wanted.group and wanted.group not in GROUPS:
        raise UsageError(
            f"{shorten(wanted.group, 40)!r} is not a kind of review. Nothing was read. Choose one "
            f"of: {', '.join(GROUPS)}."
        )
    if wanted.tag:
        parse_tag(wanted.tag)
    if wanted.older:
        parse_duration(wanted.older, what="The age")


def _fits(view: ReviewView, run: RunView | None, wanted: InboxFilter, now: float) -> bool:
    tags: dict[str, Any] = {} if run is None else run.tags
    if wanted.group and GROUP_OF[view.kind] != wanted.group:
        return False
    if wanted.tool and view.tool != wanted.tool:
        return False
    if not view.run_id.startswith(wanted.run):
        return False
    if wanted.tag:
        name, value = parse_tag(wanted.tag)
        if tags.get(name) != value:
            return False
    older = parse_duration(wanted.older, what="The age") if wanted.older else 0.0
    return now - view.opened_at >= older


def _row(view: ReviewView, run: RunView | None, children: int, now: float) -> InboxRow:
    age = max(0.0, now - view.opened_at)
    heat = "old" if age >= OLD_SECONDS else "ageing" if age >= AGEING_SECONDS else "fresh"
    return InboxRow(
        review=view,
        group=GROUP_OF[view.kind],
        about=shorten(view.title or view.subject, 200),
        age_seconds=age,
        age=heat,
        blocks="" if run is None else blocks_text(view.blocks, run, children),
        run=run,
        in_bulk=in_bulk(view),
        quick=_quick(view),
    )


def _quick(view: ReviewView) -> tuple[str, ...]:
    if in_bulk(view):
        return (Verb.APPROVE.value,)
    if view.kind is not ReviewKind.QUESTION or not isinstance(view.about, dict):
        return ()
    return tuple(view.about.get("options") or ())
