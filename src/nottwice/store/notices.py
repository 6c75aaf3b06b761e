"""Which notices does a commit add to the outbox? They follow from what it writes (P303).

There is one rule for all stores: the SQL stores add the same notices in the same transaction. The
commit that ends a run also tells the parent of the run that its child is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nottwice.model import values
from nottwice.model.notices import (
    REVIEW_DECIDED,
    REVIEW_OPENED,
    RUN_OVER,
    RUN_READY,
    NoticeRecord,
    notice_id,
)
from nottwice.model.review import Review, ReviewStatus
from nottwice.model.run import RunRecord, RunStatus
from nottwice.store.interface import Commit

_OVER = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED)


def notices_of(commit: Commit, known: RunRecord | None) -> Iterator[NoticeRecord]:
    """The notices of a commit. ``known``: the run before it, if the commit changes the run.

    ``run_ready`` may come once too often, never too seldom: it says that something has arrived
    which the run may have waited for.
    """
    if commit.only_calls:
        return
    run_id, others = commit.workflow_id, commit.fence is None
    for write in commit.reviews:
        yield from _of_review(write.review, by_others=others)
    for event_write in commit.events:
        event = event_write.event
        if event.received_by is None:
            about = {"because": "event", "event": event.name}
            yield _notice(RUN_READY, run_id, event.event_id, event.sent_at, about)
    claim, update = commit.claim, commit.run
    if claim is not None and claim.run.holder_id is None:
        queued = claim.run
        subject = f"queued {queued.epoch} {queued.updated_at}"
        yield _notice(RUN_READY, run_id, subject, queued.updated_at, {"because": "queued"})
    if update is None or not update.release:
        return
    run = known if claim is None else claim.run
    if update.status is RunStatus.RUNNING and run is not None and run.graph_id is not None:
        about = {"because": "released"}
        yield _notice(RUN_READY, run_id, f"released {run.epoch}", update.at, about)
    if update.status not in _OVER:
        return
    about = {"status": update.status.value}
    group = None if run is None else run.group
    if group is not None:
        about["group"] = group
    epoch = 0 if run is None else run.epoch
    yield _notice(RUN_OVER, run_id, f"over {epoch}", update.at, about)
    if run is not None and run.parent_id is not None:
        because = {"because": "child", "child": run_id}
        yield _notice(RUN_READY, run.parent_id, f"{run_id} {epoch}", update.at, because)


def _of_review(review: Review, *, by_others: bool) -> Iterator[NoticeRecord]:
    run_id, subject = review.identity.workflow_id, f"{review.review_id} {review.version}"
    about: dict[str, Any] = {"review": review.review_id, "review_kind": review.kind.value}
    if review.group is not None:
        about["group"] = review.group
    decision = review.decision
    if review.status is ReviewStatus.OPEN:
        about["tool"] = review.identity.tool_name
        yield _notice(REVIEW_OPENED, run_id, subject, review.opened_at, about)
    elif review.status is ReviewStatus.DECIDED and decision is not None and by_others:
        about |= {"decision": decision.verb.value, "by": decision.by}
        yield _notice(REVIEW_DECIDED, run_id, subject, decision.at, about)
        because = {"because": "decided", "review": review.review_id}
        yield _notice(RUN_READY, run_id, subject, decision.at, because)


def _notice(
    kind: str, run_id: str, subject: str, at: float, payload: dict[str, Any]
) -> NoticeRecord:
    return NoticeRecord(notice_id(kind, run_id, subject), kind, run_id, at, values.encode(payload))
