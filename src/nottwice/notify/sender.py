"""Which notices become messages now, and what becomes of one that does not arrive?

Every sender works on the outbox of the ledger: it takes a notice with a lease, sends it, and
acknowledges it. If it dies in between, the lease runs out and the same message is sent again, with
the same id: at least once (P333). More than ten in a minute, from all senders together, become one
message (P334). What fails is tried again, later and later, for a day. Then a person can
have it tried again (P339).
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from nottwice.engine.clock import Clock
from nottwice.model import values
from nottwice.model.review import ReviewStatus
from nottwice.model.runs.notices import REVIEW_OLD, REVIEW_OPENED, NoticeRecord, notice_id
from nottwice.notify.messages import (
    KnownNotice,
    Notification,
    digest_of,
    look_up,
    message_of,
    trial_message,
)
from nottwice.notify.settings import NOTIFIED_KINDS, Notify, Target
from nottwice.notify.transport import Undelivered, deliver
from nottwice.store.interface import Commit, NoticeWrite, Outdated, Store

LEASE_SECONDS: Final = 60.0
LIMIT_SECONDS: Final = 10.0
MOST_IN_A_MINUTE: Final = 10
MOST_IN_A_DIGEST: Final = 1_000
RETRY_SECONDS: Final = (10.0, 60.0, 300.0, 1_800.0, 7_200.0, 21_600.0, 43_200.0)
"""How long to wait after each try that failed. After the last, nottwice stops trying."""
NEWS_SECONDS: Final = 2 * 86_400.0
"""How long a decision or a failure is news. A ledger may have years of them when you configure
notifications. An open review is reported, however old it is."""
_MINUTE = 60.0
_SINGLE, _DIGEST, _MOOT = "send-", "digest-", "moot-"
"""How the id of a taking begins: what becomes of the notices that were taken."""


@dataclass(slots=True)
class SendReport:
    """What one look at the outbox did."""

    sent: int = 0
    """Messages that arrived. A digest is one."""
    notices: int = 0
    """Notices that were told in them."""
    moot: int = 0
    """Notices that were not worth telling any more: their review was decided meanwhile."""
    held: int = 0
    """Notices that wait for the next minute, because there were ten messages in this one."""
    failed: int = 0
    """Messages that did not arrive, and will be tried again."""
    given_up: int = 0
    """Notices that will not be tried again."""
    problems: list[str] = field(default_factory=list)
    """Why messages did not arrive."""

    def add(self, other: SendReport) -> None:
        """Count what another look did, too."""
        for name in ("sent", "notices", "moot", "held", "failed", "given_up"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.problems += other.problems


class Sender:
    """Passes on what people should know of one ledger."""

    def __init__(
        self,
        store: Store,
        settings: Notify,
        clock: Clock,
        *,
        target: Target | None = None,
        limit_seconds: float = LIMIT_SECONDS,
    ) -> None:
        """Raises NotifyUnready if a secret is missing here."""
        self._store, self._settings, self._clock = store, settings, clock
        self._target = settings.target() if target is None else target
        self._limit_seconds = limit_seconds
        self._kinds = tuple(settings.on)

    def send_due(self, *, runs: Collection[str] | None = None) -> SendReport:
        """Look once, and send what is due. ``runs``: only notices of these runs."""
        report = SendReport()
        now = self._clock.now()
        if runs is None:
            self._note_old(now)
        due = self._store.due_notices(kinds=self._kinds, now=now, limit=MOST_IN_A_DIGEST)
        singles: list[NoticeRecord] = []
        moot: list[NoticeRecord] = []
        digests: dict[str, list[NoticeRecord]] = {}
        for notice in due:
            by = notice.leased_by or ""
            if runs is not None and notice.workflow_id not in runs:
                continue
            if by.startswith(_DIGEST):
                digests.setdefault(by, []).append(notice)
            elif _is_news_no_more(notice, now) or look_up(self._store, notice).is_moot:
                moot.append(notice)
            else:
                singles.append(notice)
        if moot:
            self._drop(moot, report)
        for together in digests.values():
            # It was one message before, and stays the same one.
            self._send_digest(together, report)
        self._send_singles(singles, report)
        return report

    def try_again(self) -> int:
        """Put notices whose tries all failed back into the outbox, and return their number.

        They are due now, with all their tries, and as the same messages as before. Durable: each
        notice when it is back.
        """
        again = 0
        for lost in given_up(self._store, since=0.0):
            if lost.kind not in self._kinds:
                continue
            due = replace(lost, sent_at=None, leased_until=None, tries=0)
            # If it has changed, another process was faster.
            with contextlib.suppress(Outdated):
                write = NoticeWrite(due, lost)
                self._store.commit(Commit(workflow_id=lost.workflow_id, notices=(write,)))
                again += 1
        return again

    def send_trial(self) -> None:
        """Send a message that says nothing has happened. Raises Undelivered."""
        message_id = f"test-{uuid.uuid4().hex[:16]}"
        now = self._clock.now()
        self._deliver(trial_message(self._store, self._settings, message_id, now=now))

    def _note_old(self, now: float) -> None:
        """Write a notice for each review that has been open for too long."""
        if REVIEW_OLD not in self._kinds:
            return
        after = self._settings.old_after_seconds()
        for review in self._store.open_reviews():
            if review.status is not ReviewStatus.OPEN or now - review.opened_at < after:
                continue
            run_id = review.identity.workflow_id
            about = {
                "review": review.review_id,
                "review_kind": review.kind.value,
                "tool": review.identity.tool_name,
            }
            if review.group is not None:
                about["group"] = review.group
            subject = f"{review.review_id} {review.version}"
            found = notice_id(REVIEW_OLD, run_id, subject)
            self._store.add_notice(
                NoticeRecord(found, REVIEW_OLD, run_id, now, values.encode(about))
            )

    def _send_singles(self, singles: Sequence[NoticeRecord], report: SendReport) -> None:
        since = self._clock.now() - _MINUTE
        settled = self._store.settled_notices(since=since, kinds=self._kinds)
        # What was taken together was one message.
        takings = {one.leased_by or "" for one in settled if one.problem is None}
        recent = sum(not by.startswith(_MOOT) for by in takings)
        if recent + len(singles) <= MOST_IN_A_MINUTE:
            for notice in singles:
                self._send_single(notice, report)
        elif recent >= MOST_IN_A_MINUTE:
            report.held += len(singles)
        else:
            self._send_digest(singles, report)

    def _send_single(self, notice: NoticeRecord, report: SendReport) -> None:
        by, taken = self._take(_SINGLE, [notice])
        if not taken:
            # Another sender has it.
            return
        known = look_up(self._store, taken[0])
        if known.is_moot:
            self._settle(taken, by)
            report.moot += 1
            return
        self._attempt(self._message(known), taken, by, report)

    def _send_digest(self, notices: Sequence[NoticeRecord], report: SendReport) -> None:
        by, taken = self._take(_DIGEST, notices)
        if len(taken) == 1:
            self._attempt(self._message(look_up(self._store, taken[0])), taken, by, report)
        elif taken:
            now = self._clock.now()
            message = digest_of(self._store, taken, self._settings, now=now)
            self._attempt(message, taken, by, report)

    def _drop(self, notices: Sequence[NoticeRecord], report: SendReport) -> None:
        by, taken = self._take(_MOOT, notices)
        self._settle(taken, by)
        report.moot += len(taken)

    def _attempt(
        self, message: Notification, taken: Sequence[NoticeRecord], by: str, report: SendReport
    ) -> None:
        """Send a message, and settle what it was about. Durable: when it returns."""
        try:
            self._deliver(message)
        except Undelivered as error:
            report.problems.append(str(error))
            tries = max(one.tries for one in taken)
            if tries > len(RETRY_SECONDS):
                self._settle(taken, by, problem=str(error))
                report.given_up += len(taken)
            else:
                self._settle(taken, by, retry_seconds=RETRY_SECONDS[tries - 1], problem=str(error))
                report.failed += 1
        else:
            self._settle(taken, by)
            report.sent += 1
            report.notices += len(taken)

    def _message(self, known: KnownNotice) -> Notification:
        return message_of(self._store, known, self._settings, now=self._clock.now())

    def _deliver(self, message: Notification) -> None:
        now = self._clock.now()
        deliver(message, self._target, now=now, limit_seconds=self._limit_seconds)

    def _take(self, kind: str, notices: Sequence[NoticeRecord]) -> tuple[str, list[NoticeRecord]]:
        by = kind + uuid.uuid4().hex
        taken = self._store.take_notices(
            by=by,
            kinds=self._kinds,
            now=self._clock.now(),
            lease_seconds=LEASE_SECONDS,
            limit=MOST_IN_A_DIGEST,
            only=[one.notice_id for one in notices],
        )
        return by, taken

    def _settle(
        self,
        taken: Sequence[NoticeRecord],
        by: str,
        *,
        retry_seconds: float | None = None,
        problem: str | None = None,
    ) -> None:
        if taken:
            self._store.settle_notices(
                [one.notice_id for one in taken],
                by=by,
                now=self._clock.now(),
                retry_seconds=retry_seconds,
                problem=problem,
            )


def _is_news_no_more(notice: NoticeRecord, now: float) -> bool:
    is_open = notice.kind in (REVIEW_OPENED, REVIEW_OLD)
    return not is_open and now - notice.created_at > NEWS_SECONDS


def given_up(store: Store, *, since: float) -> list[NoticeRecord]:
    """The notices whose last try failed since then, oldest first."""
    return store.settled_notices(since=since, kinds=NOTIFIED_KINDS, given_up=True)
