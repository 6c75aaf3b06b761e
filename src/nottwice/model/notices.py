"""What should other processes know? Notices: facts about runs, in the ledger's outbox (P303).

A notice is written by the commit that makes the fact true, so none is missing and none is invented.
Readers get it at least once, with an id that tells two readings of one notice apart.
"""

from __future__ import annotations

import hashlib
from typing import Final

from nottwice.model.records import frozen_record

REVIEW_OPENED: Final = "review_opened"
REVIEW_DECIDED: Final = "review_decided"
RUN_READY: Final = "run_ready"
RUN_OVER: Final = "run_over"
NOTICE_KINDS: Final = (REVIEW_OPENED, REVIEW_DECIDED, RUN_READY, RUN_OVER)


@frozen_record(frozen=True, slots=True)
class NoticeRecord:
    """One notice, as it is stored."""

    notice_id: str
    kind: str
    """``review_opened``, ``review_decided``, ``run_ready`` or ``run_over``."""
    workflow_id: str
    created_at: float
    """When the fact became true, by the clock of the process that wrote it."""
    payload_json: str
    """The rest, as JSON: no arguments and no results."""
    leased_by: str | None = None
    """The sender that is passing it on, for senders that share the work."""
    leased_until: float | None = None
    sent_at: float | None = None
    """When it was passed on. None: not yet, or there is no sender."""


def notice_id(kind: str, workflow_id: str, subject: str) -> str:
    """Return the id of a notice: the same for the same fact, however often it is written."""
    text = "".join(f"{len(part)}:{part}" for part in (kind, workflow_id, subject))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
