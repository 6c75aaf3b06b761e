"""What waits for a person now, the most dangerous first, and what does each of it block?

Promises kept here: P321 (the order, and what is offered without looking closely), P411 (runs that a
dead process left are shown before they have a review).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from nottwice.errors import UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review, ReviewKind, ReviewStatus, Verb, danger_of
from nottwice.model.runs.labels import parse_tag
from nottwice.model.runs.workers import WorkerState
from nottwice.model.tool import parse_duration
from nottwice.reviews.queue import believed
from nottwice.store.interface import Store
from nottwice.views.commands import CommandLine, ListCommand
from nottwice.views.ledger.holders import count_alive
from nottwice.views.ledger.workers import counts_of, states_of
from nottwice.views.people.choices import blocks_text
from nottwice.views.people.reviews import ReviewView, review_view, unreadable_files
from nottwice.views.run.resuming import who_resumes
from nottwice.views.runs import INTERRUPTED, Holders, RunView, list_runs, run_view
from nottwice.views.shape import LEDGER
from nottwice.views.text import shorten
from nottwice.views.wording import ToolTexts

MOST_ROWS = 200
MOST_LEFT = 10
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
class LeftRun:
    """A run that its process left in the middle. A doubt in it has no review yet."""

    run_id: Annotated[str, "the run"]
    in_doubt: Annotated[int | None, "how many of its calls are in doubt; null: cannot be trusted"]
    text: Annotated[str, "who opens it again, or that no process will"]
    command: Annotated[str | None, "what a person can type, or null"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class Inbox:
    """What waits for a person."""

    ledger: Annotated[str, LEDGER]
    rows: Annotated[tuple[InboxRow, ...], "what is open, the most dangerous first; see inbox row"]
    decided: Annotated[tuple[InboxRow, ...], "what is decided and not used yet, oldest first"]
    counts: Annotated[dict[str, int], "how many are open in each group, without the filter"]
    total: Annotated[int, "how many are open, without the filter"]
    decided_total: Annotated[int, "how many are decided and not used yet"]
    omitted: Annotated[int, "how many that fit the filter are not listed"]
    left: Annotated[
        tuple[LeftRun, ...], f"up to {MOST_LEFT} interrupted runs, last changed first; see left run"
    ]
    left_more: Annotated[bool, "whether there are more interrupted runs"]
    unreadable: Annotated[
        tuple[str, ...], "what is wrong with each file that cannot be read: its reviews are missing"
    ]
    tools: tuple[str, ...]
    """The tools of what is open, for a filter."""
    oldest_seconds: Annotated[float | None, "how long the oldest has waited, or null"]
    alive: Annotated[
        int | None, "if none is open: how many living processes hold runs; otherwise null"
    ]
    workers: Annotated[int | None, "if none is open: how many workers are alive; otherwise null"]
    now: float


def read_inbox(
    ledger: Ledger, wanted: InboxFilter | None = None, commands: CommandLine | None = None
) -> Inbox:
    """The reviews that are open or decided and not used, the most dangerous first.

    All of them are counted and sorted as records. Only those that are shown become views.
    """
    store, wanted = ledger.store, wanted or InboxFilter()
    check_filter(wanted)
    now = ledger.clock.now()
    pending = store.open_reviews()
    undecided = [review for review in pending if review.status is ReviewStatus.OPEN]
    decided = [review for review in pending if review.status is not ReviewStatus.OPEN]
    fitting = sorted(
        (review for review in undecided if _fits(store, review, wanted, now)), key=danger_of
    )
    counts = Counter(GROUP_OF[review.kind] for review in undecided)
    rows = _Rows(store, now)
    found = list_runs(ledger, states=(INTERRUPTED,))
    left = tuple(itertools.islice(found, MOST_LEFT + 1))
    return Inbox(
        ledger=ledger.location,
        rows=tuple(map(rows.row, fitting[:MOST_ROWS])),
        decided=tuple(map(rows.row, decided[:MOST_ROWS])),
        counts={name: counts[name] for name in GROUPS},
        total=len(undecided),
        decided_total=len(decided),
        omitted=max(0, len(fitting) - MOST_ROWS),
        left=tuple(_left(ledger, run, commands or CommandLine()) for run in left[:MOST_LEFT]),
        left_more=len(left) > MOST_LEFT,
        unreadable=unreadable_files(store),
        tools=tuple(sorted({one.identity.tool_name for one in undecided} - {""})),
        oldest_seconds=max((now - review.opened_at for review in undecided), default=None),
        alive=None if undecided else count_alive(store),
        workers=None if undecided else counts_of(states_of(ledger))[WorkerState.ALIVE.value],
        now=now,
    )


def _left(ledger: Ledger, run: RunView, commands: CommandLine) -> LeftRun:
    resumption = who_resumes(ledger, run, commands)
    return LeftRun(
        run_id=run.run_id,
        in_doubt=believed(lambda: len(ledger.store.calls_in_doubt(run.run_id)), None),
        text=resumption.text,
        command=resumption.command,
    )


def reviews_command(wanted: InboxFilter, commands: CommandLine) -> ListCommand:
    """The command that lists the reviews of an inbox."""
    words = ["reviews"]
    for kind in GROUPS.get(wanted.group, ()):
        words += ["--kind", kind.value]
    if wanted.tool:
        words += ["--tool", wanted.tool]
    lacks = [name for name in ("run", "tag", "older") if getattr(wanted, name)]
    return commands.listing(words, lacks=lacks)


def in_bulk(view: ReviewView) -> bool:
    """Whether several such reviews may be decided at once: approvals, and never a doubt."""
    return view.kind is ReviewKind.APPROVAL and view.is_open


def decided_by(ledger: Ledger, review_ids: Iterable[str], who: str) -> tuple[ReviewView, ...]:
    """Those of these reviews that a person has decided."""
    known = filter(None, map(ledger.store.load_review, review_ids))
    return tuple(
        review_view(ledger.store, review)
        for review in known
        if review.decision is not None and review.decision.by == who
    )


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


def _fits(store: Store, review: Review, wanted: InboxFilter, now: float) -> bool:
    if wanted.group and GROUP_OF[review.kind] != wanted.group:
        return False
    if wanted.tool and review.identity.tool_name != wanted.tool:
        return False
    if not review.identity.workflow_id.startswith(wanted.run):
        return False
    if wanted.older and now - review.opened_at < parse_duration(wanted.older, what="The age"):
        return False
    if not wanted.tag:
        return True
    # Last, because only this reads the run.
    run = store.load_run(review.identity.workflow_id)
    return run is not None and parse_tag(wanted.tag) in run.tags


class _Rows:
    """The rows of one inbox; each run is looked up once."""

    def __init__(self, store: Store, now: float) -> None:
        self._store, self._now = store, now
        self._tools, self._holders = ToolTexts(store), Holders(store)
        self._runs: dict[str, tuple[RunView | None, int]] = {}

    def row(self, review: Review) -> InboxRow:
        """A review as the inbox shows it."""
        view = review_view(self._store, review, self._tools)
        run, children = self._run(view.run_id)
        age = max(0.0, self._now - view.opened_at)
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

    def _run(self, run_id: str) -> tuple[RunView | None, int]:
        """A run, and how many runs it has spawned."""
        if run_id not in self._runs:
            known = self._store.load_run(run_id)
            view = None if known is None else run_view(known, self._holders)
            self._runs[run_id] = view, len(self._store.children(run_id))
        return self._runs[run_id]


def _quick(view: ReviewView) -> tuple[str, ...]:
    if in_bulk(view):
        return (Verb.APPROVE.value,)
    if view.kind is not ReviewKind.QUESTION or not isinstance(view.about, dict):
        return ()
    return tuple(view.about.get("options") or ())
