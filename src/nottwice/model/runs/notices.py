"""What should other processes know? Notices: facts about runs, in the ledger's outbox (P303).

A notice is written by the commit that makes the fact true, so none is missing and none is invented.
Readers get it at least once, with an id that tells two readings of one notice apart. Takers share
the work: a notice that one of them has taken is not given to another while its lease lasts (P332).
"""

from __future__ import annotations

import hashlib
from typing import Final

from nottwice.model.data.records import frozen_record

REVIEW_OPENED: Final = "review_opened"
REVIEW_DECIDED: Final = "review_decided"
RUN_READY: Final = "run_ready"
RUN_OVER: Final = "run_over"
RUN_FAILED: Final = "run_failed"
REVIEW_OLD: Final = "review_old"
"""Written by a sender of notifications: time passes without a commit."""
NOTICE_KINDS: Final = (
    REVIEW_OPENED,
    REVIEW_DECIDED,
    REVIEW_OLD,
    RUN_READY,
    RUN_OVER,
    RUN_FAILED,
)


@frozen_record(frozen=True, slots=True)
class NoticeRecord:
    """One notice, as it is stored."""

    notice_id: str
    kind: str
    """One of NOTICE_KINDS."""
    workflow_id: str
    created_at: float
    """When the fact became true, by the clock of the process that wrote it."""
    payload_json: str
    """The rest, as JSON: no arguments and no results."""
    leased_by: str | None = None
    """Who took it last: the id of one taking. It stays, so that what was taken together can be
    recognised later."""
    leased_until: float | None = None
    """Until when no other taker gets it: a lease, or the pause before the next try."""
    sent_at: float | None = None
    """When it was acknowledged, or its last try failed: ``problem`` says why. None: not yet."""
    tries: int = 0
    """How often it was taken."""
    problem: str | None = None
    """Why the last try failed."""

    def may_be_taken(self, by: str, *, now: float) -> bool:
        """Whether a taker may have it: no lease is in the way, or the lease is its own."""
        is_free = self.leased_until is None or self.leased_until <= now
        return self.sent_at is None and (is_free or self.leased_by == by)


def notice_id(kind: str, workflow_id: str, subject: str) -> str:
    """Return the id of a notice: the same for the same fact, however often it is written."""
    text = "".join(f"{len(part)}:{part}" for part in (kind, workflow_id, subject))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
