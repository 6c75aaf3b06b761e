"""Has anything changed since a page was shown? A few figures that are cheap to read again."""

from __future__ import annotations

from typing import Annotated

from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.run import Life
from nottwice.store.interface import Store
from nottwice.views.people.reviews import unreadable_files
from nottwice.views.shape import Timestamp


@frozen_record(frozen=True, slots=True, kw_only=True)
class Pulse:
    """The ledger, or one run of it, at one moment."""

    at: Annotated[Timestamp, "when it was read"]
    open: Annotated[int, "how many reviews are undecided, in the whole ledger"]
    mark: Annotated[str, "changes whenever something changes; it means nothing else"]


def feel(ledger: Ledger, run_id: str | None = None) -> Pulse:
    """The pulse of a ledger, or of one run."""
    store, now = ledger.store, ledger.clock.now()
    tally = store.tally(now=now, only_waiting=True)
    if run_id is None:
        newest = store.runs(limit=1)
        seen = [(run.workflow_id, run.updated_at, run.epoch) for run in newest]
        # By the time alone: whether a silent worker is dead is asked when the page is read again.
        workers = [
            (one.presence_id, one.state(Life.NOT_PROVEN, now=now).value)
            for one in store.workers(now=now)
        ]
        lost = len(unreadable_files(store))
        mark = f"{tally.open_reviews} {tally.decided_reviews} {seen} {workers} {lost}"
    else:
        mark = _mark_of_run(store, run_id)
    return Pulse(at=Timestamp(now), open=tally.open_reviews, mark=mark)


def _mark_of_run(store: Store, run_id: str) -> str:
    run = store.load_run(run_id)
    if run is None:
        return "gone"
    last = [
        (row.call_id, row.status.value, row.attempt) for row in store.last_calls(run_id, limit=1)
    ]
    steps = store.last_visits(run_id)
    visits = (
        sum(one.visits for one in steps),
        sum(one.step.finished_at is not None for one in steps),
    )
    reviews = [(one.review_id, one.version) for one in store.open_reviews(run_id)]
    calls = store.count_calls(run_id)
    return f"{run.status.value} {run.epoch} {run.updated_at} {calls} {last} {visits} {reviews}"
