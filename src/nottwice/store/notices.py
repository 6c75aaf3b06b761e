"""Which notices does a commit add to the outbox? They follow from what it writes (P303).

Takers of notices write leases and acknowledgements, which are checked and applied here (P332).

There is one rule for all stores: the SQL stores add the same notices in the same transaction. The
commit that ends a run also tells the parent of the run that its child is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Protocol

from nottwice.model import values
from nottwice.model.review import Review, ReviewStatus
from nottwice.model.run import RunRecord, RunStatus
from nottwice.model.runs.notices import (
    REVIEW_DECIDED,
    REVIEW_OPENED,
    RUN_FAILED,
    RUN_OVER,
    RUN_READY,
    NoticeRecord,
    notice_id,
)
from nottwice.store.interface import Commit, Outdated
from nottwice.store.tables import OUTBOX

_OVER = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED)


class _Records(Protocol):
    """The records that a commit is checked against, and applied to."""

    @property
    def outbox(self) -> MutableMapping[str, NoticeRecord]: ...

    @property
    def runs(self) -> Mapping[str, RunRecord]: ...


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
    if update.status is RunStatus.FAILED:
        # By itself, so that a sender of bad news does not have to look at every end.
        yield _notice(RUN_FAILED, run_id, f"over {epoch}", update.at, about)
    if run is not None and run.parent_id is not None:
        # The parent is named here too: JSON files keep the notice in the file of the child.
        because = {"because": "child", "child": run_id, "parent": run.parent_id}
        yield _notice(RUN_READY, run.parent_id, f"{run_id} {epoch}", update.at, because)


def check_notices(data: _Records, commit: Commit) -> None:
    """Refuse a commit of a taker if a notice is not as the taker saw it."""
    for write in commit.notices:
        found, after = data.outbox.get(write.notice.notice_id), write.after
        is_as_seen = found is None if after is None else OUTBOX.same(found, after)
        if not is_as_seen and not OUTBOX.same(found, write.notice):
            raise Outdated(f"notice {write.notice.notice_id} is not as it was")


def apply_notices(data: _Records, commit: Commit) -> None:
    """Write the notices of a commit: those that follow from it, and those that it names."""
    if commit.only_calls:
        return
    for notice in notices_of(commit, data.runs.get(commit.workflow_id)):
        data.outbox.setdefault(notice.notice_id, notice)
    for write in commit.notices:
        data.outbox[write.notice.notice_id] = write.notice
    for forgotten in commit.forgotten:
        data.outbox.pop(forgotten, None)


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
