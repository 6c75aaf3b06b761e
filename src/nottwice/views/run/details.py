"""What happened in one run: its steps, calls, reviews, nodes, events and children?

The call whose attempt never came back tells where a run was cut off.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from nottwice.engine.stepping.steps import is_note
from nottwice.guard.ledger import Ledger
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.data.records import frozen_record
from nottwice.model.review import MIGRATE, Evidence, Review, Verb
from nottwice.model.run import Life, RunRecord, RunStatus
from nottwice.store.interface import Store
from nottwice.views.people.reviews import ReviewView, review_view
from nottwice.views.run.agent import AgentView, agent_of
from nottwice.views.run.calls import CallView, StepView, call_view, step_view
from nottwice.views.run.graphs import (
    CheckpointView,
    NodeView,
    ToldView,
    checkpoints_of,
    nodes_of,
    told_view,
)
from nottwice.views.runs import (
    Holders,
    OpeningView,
    RunView,
    load_run,
    opening_view,
    run_view,
)
from nottwice.views.shape import LEDGER
from nottwice.views.text import shorten

T = TypeVar("T")
MOST_CALLS = 50
PAGE = 500
_ABORTING = ("cancel", f"decide {Verb.ABORT.value}")
"""What the audit trail calls the two ways to abort a run."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunDetails:
    """One run as a timeline."""

    ledger: Annotated[str, LEDGER]
    run: Annotated[RunView, "see run"]
    waits_for: Annotated[tuple[str, ...], "the ids of the reviews that hold it up"]
    cut_off: Annotated[
        tuple[str, ...], "the ids of the calls during which a process died; empty if none did"
    ]
    steps: Annotated[tuple[StepView, ...], "the visits of steps, in the order they began; see step"]
    calls: Annotated[tuple[CallView, ...], "the calls, oldest first; see call"]
    reviews: Annotated[tuple[ReviewView, ...], "all reviews of the run; see review"]
    group_reviews: Annotated[
        tuple[ReviewView, ...],
        "the open reviews of other runs of its group that hold back new effects of the group; see "
        "review",
    ]
    omitted: Annotated[
        dict[str, int], "how many `calls` and `steps` are not printed; --all prints them"
    ]
    nodes: Annotated[
        tuple[NodeView, ...],
        "the nodes of its graph; see node; empty if it is not a run of a graph",
    ]
    checkpoints: Annotated[
        tuple[CheckpointView, ...], "its saved versions, oldest first; see checkpoint"
    ]
    events: Annotated[tuple[ToldView, ...], "what it was told, in order of arrival; see told"]
    children: Annotated[tuple[RunView, ...], "the runs that it spawned, oldest first; see run"]
    agent: Annotated[
        AgentView | None, "what an agent said and did; null if it is not a run of one; see agent"
    ]
    openings: Annotated[
        tuple[OpeningView, ...], "the processes that held it, oldest first; see opening"
    ]
    migrated: tuple[str, ...]
    """Who moved it to another version of its graph, from where to where, and why."""
    aborted: str | None
    """Who aborted it, and why; None if it is not aborted."""

    @property
    def pending_reviews(self) -> list[ReviewView]:
        """The reviews that hold it up."""
        return [review for review in self.reviews if review.is_pending]

    @property
    def cut_off_calls(self) -> list[CallView]:
        """The calls during which a process died."""
        return [call for call in self.calls if call.call_id in self.cut_off]


def look_into(ledger: Ledger, run_id: str, *, limit: int | None = MOST_CALLS) -> RunDetails:
    """Everything about one run; beyond ``limit`` calls only the last ones and the notable."""
    store, holders = ledger.store, Holders(ledger.store)
    run = load_run(store, run_id)
    reviews = store.reviews(run_id)
    evidence_of: dict[str, list[Evidence]] = defaultdict(list)
    for item in store.evidence(run_id):
        evidence_of[item.call_id].append(item)
    reviews_of: dict[str, list[str]] = defaultdict(list)
    for review in reviews:
        reviews_of[review.call_id].append(review.review_id)
    children = store.children(run_id)
    rows, omitted = _shown_rows(store, run_id, reviews, limit, has_notes=bool(children))
    steps = store.steps(run_id)
    kept_steps = _last(steps, limit, keep=lambda step: step.finished_at is None)
    views = tuple(review_view(store, review, holders.tools) for review in reviews)
    return RunDetails(
        ledger=ledger.location,
        run=run_view(run, holders),
        waits_for=tuple(review.review_id for review in views if review.is_pending),
        cut_off=tuple(row.call_id for row in rows if _is_cut_off(row, holders)),
        steps=tuple(map(step_view, kept_steps)),
        calls=tuple(
            call_view(
                row,
                holders,
                evidence=evidence_of[row.call_id],
                reviews=reviews_of[row.call_id],
            )
            for row in rows
        ),
        reviews=views,
        group_reviews=_of_group(store, run, holders),
        omitted={"calls": omitted, "steps": len(steps) - len(kept_steps)},
        nodes=nodes_of(store, run),
        checkpoints=checkpoints_of(store, run_id),
        events=tuple(map(told_view, store.events(run_id))),
        children=tuple(run_view(child, holders) for child in children),
        agent=agent_of(store, run),
        openings=tuple(opening_view(one, holders) for one in store.openings(run_id)),
        migrated=_migrations(store, run),
        aborted=abort_text(store, run_id),
    )


def _of_group(store: Store, run: RunRecord, holders: Holders) -> tuple[ReviewView, ...]:
    """The reviews of other runs that hold back the group of a run (P301)."""
    if run.group is None:
        return ()
    others = [
        review
        for review in store.group_reviews(run.group)
        if review.identity.workflow_id != run.workflow_id
    ]
    return tuple(review_view(store, review, holders.tools) for review in others)


def abort_text(store: Store, run_id: str) -> str | None:
    """Who aborted a run, and why; None if it is not aborted."""
    if load_run(store, run_id).status is not RunStatus.ABORTED:
        return None
    said = [each for each in store.audit(run_id) if each.action in _ABORTING]
    return shorten(f"by {said[-1].who}: {said[-1].why}") if said else None


def _migrations(store: Store, run: RunRecord) -> tuple[str, ...]:
    if run.graph_id is None:
        return ()
    said = [each for each in store.audit(run.workflow_id) if each.action == MIGRATE]
    return tuple(shorten(f"{one.subject}, by {one.who}: {one.why}") for one in said)


def _is_cut_off(row: CallRow, holders: Holders) -> bool:
    return row.status is CallStatus.PENDING and holders.life(row.holder_id) is not Life.ALIVE


def _shown_rows(
    store: Store, run_id: str, reviews: Sequence[Review], limit: int | None, *, has_notes: bool
) -> tuple[list[CallRow], int]:
    """The last calls and, at any age, those in doubt or decided about; the rest is counted.

    A run may have more calls than fit into memory. ``has_notes``: it has child runs, and so notes
    of them, which are no calls. The child runs themselves are shown.
    """
    if limit is None:
        return [row for row in store.calls(run_id) if not is_note(row)], 0
    last = store.last_calls(run_id, limit=limit)
    shown = {row.identity: row for row in last}
    decided = (store.load_call(review.identity) for review in reviews)
    notable = [*store.calls_in_doubt(run_id), *(row for row in decided if row is not None)]
    early = {row.identity: row for row in notable if row.identity not in shown}
    found = [*sorted(early.values(), key=lambda row: row.created_at), *last]
    omitted = max(0, store.count_calls(run_id) - len(found))
    if has_notes and omitted:
        omitted = max(0, omitted - _count_notes(store, run_id, before=last[0]))
    return [row for row in found if not is_note(row)], omitted


def _count_notes(store: Store, run_id: str, *, before: CallRow) -> int:
    """How many notes of child runs there are before a call."""
    count = 0
    page = store.last_calls(run_id, limit=PAGE, before=before.identity)
    while page:
        count += sum(map(is_note, page))
        page = store.last_calls(run_id, limit=PAGE, before=page[0].identity)
    return count


def _last(items: Sequence[T], limit: int | None, *, keep: Callable[[T], bool]) -> list[T]:
    """The last ``limit`` items, and of those before them the ones to keep."""
    if limit is None or len(items) <= limit:
        return list(items)
    first = len(items) - limit
    return [item for index, item in enumerate(items) if index >= first or keep(item)]
