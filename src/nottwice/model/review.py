"""Reviews: what a person must decide, the verbs of each kind, and decisions (H2).

A review goes open → decided → used, or open → closed when the answer is no longer needed. A
decision may be undone until it is used. Some reviews are about what may already have happened:
while one is open, nothing new happens in the run (D11). Others ask before anything is done
(questions, approvals). They hold back only the code that asked, so that many branches can ask at
the same time.
"""

from __future__ import annotations

import enum
from dataclasses import replace
from typing import Final

from nottwice.errors import DecisionConflict, UsageError
from nottwice.model.call import CallIdentity, StoredResult
from nottwice.model.data.records import frozen_record

COPIED: Final = "copy"
ACCOUNTED_FOR: Final = "account for copy"
VOUCHED: Final = "vouch for run"
"""Audit actions: a ledger is found to be a copy, the copy is accounted for, or one run of it is
vouched for."""
HELD: Final = "hold run"
"""Audit action: a run of a copy is first opened and held. The entry says how it was found."""
FAILOVER: Final = "failover"
LOST: Final = "lost commits"
"""How the subject begins if a failover or the loss of a ledger's log made the copy."""
MIGRATE: Final = "migrate"
"""Audit action: a run is bound to another version of its graph."""


def found_text(epoch: int, updated_at: float) -> str:
    """Return how a held run was found, so that its last holder can recognise its last commit."""
    return f"epoch {epoch}, last changed at {round(updated_at * 1_000_000)}"


class ReviewKind(enum.Enum):
    """Why a run waits for a person."""

    IN_DOUBT = "in doubt"
    RESULT = "result"
    DRIFT = "drift"
    QUESTION = "question"
    APPROVAL = "approval"
    BUDGET = "budget"
    UNDEPLOYABLE = "undeployable"
    RESTORED = "restored"
    CORRUPT = "corrupt"

    @classmethod
    def _missing_(cls, value: object) -> ReviewKind | None:
        # Ledgers up to schema 5 use this word for a doubt. It is read but never written again.
        return cls.IN_DOUBT if value == "unknown" else None

    @property
    def asks_first(self) -> bool:
        """Whether it asks before anything is done, so that nothing can be in doubt yet."""
        return self in (ReviewKind.QUESTION, ReviewKind.APPROVAL, ReviewKind.BUDGET)


DANGER = (
    ReviewKind.CORRUPT,
    ReviewKind.IN_DOUBT,
    ReviewKind.RESTORED,
    ReviewKind.DRIFT,
    ReviewKind.RESULT,
    ReviewKind.UNDEPLOYABLE,
    ReviewKind.APPROVAL,
    ReviewKind.BUDGET,
    ReviewKind.QUESTION,
)
"""The kinds of reviews, the most dangerous first."""


class Verb(enum.Enum):
    """What a person can say."""

    HAPPENED = "happened"
    DID_NOT_HAPPEN = "did-not-happen"
    ACCEPT = "accept"
    ANSWER = "answer"
    APPROVE = "approve"
    REJECT = "reject"
    RAISE = "raise"
    ABORT = "abort"

    @property
    def answers(self) -> bool:
        """Whether the person's answer is passed into the run as data."""
        return self in (Verb.ANSWER, Verb.RAISE)


VERBS: dict[ReviewKind, dict[Verb, str]] = {
    ReviewKind.IN_DOUBT: {
        Verb.HAPPENED: "the effect took place; its result becomes the receipt",
        Verb.DID_NOT_HAPPEN: "the effect did not take place; allows exactly one more attempt",
        Verb.ABORT: "stop this run permanently",
    },
    ReviewKind.RESULT: {
        Verb.HAPPENED: "this is what it returned, --result JSON; the run continues with it",
        Verb.ABORT: "stop this run permanently",
    },
    ReviewKind.DRIFT: {
        Verb.ACCEPT: "the effects that the code no longer asks for may stay as they are",
        Verb.ABORT: "stop this run permanently",
    },
    ReviewKind.QUESTION: {
        Verb.ANSWER: "the run continues with this answer",
        Verb.ABORT: "stop this run permanently",
    },
    ReviewKind.APPROVAL: {
        Verb.APPROVE: "the call may be made, with these arguments and no others",
        Verb.REJECT: "the call is not made; the code gets nt.errors.RejectedByReviewer, with the "
        "reason",
        Verb.ABORT: "stop this run permanently",
    },
    ReviewKind.BUDGET: {
        Verb.RAISE: "the run may spend that much more, --result '{\"usd\": 2}', and continues",
        Verb.ABORT: "stop this run permanently",
    },
    ReviewKind.RESTORED: {
        Verb.ACCEPT: "what it did since the copy was made is accounted for; it continues from here",
        Verb.ABORT: "stop this run permanently",
    },
    ReviewKind.CORRUPT: {
        Verb.ABORT: "stop this run permanently; otherwise restore what was changed, or vouch for "
        "the rows as they are (nottwice audit --adopt), and this review is closed",
    },
    ReviewKind.UNDEPLOYABLE: {
        Verb.ABORT: "stop this run permanently; otherwise deploy its version, or migrate the run, "
        "and this review is closed",
    },
}


class ReviewStatus(enum.Enum):
    OPEN = "open"
    DECIDED = "decided"
    USED = "used"
    CLOSED = "closed"


@frozen_record(frozen=True, slots=True)
class Decision:
    """Who decided what, when and why."""

    verb: Verb
    by: str
    why: str
    at: float
    result: StoredResult | None = None
    holder_stopped: bool = False

    def says_the_same_as(self, other: Decision) -> bool:
        return (self.verb, self.result) == (other.verb, other.result)


@frozen_record(frozen=True, slots=True)
class Review:
    """One question to a person, bound to the call and attempt that it is about.

    A review that asks first has no attempt yet, so its ``attempt_id`` is empty.
    """

    review_id: str
    kind: ReviewKind
    status: ReviewStatus
    identity: CallIdentity
    call_id: str
    attempt_id: str
    summary: str
    opened_at: float
    version: int = 1
    decision: Decision | None = None
    closed_by: str | None = None
    closed_at: float | None = None
    about: str | None = None
    """What a person is shown, as JSON; see ``model/asking/asked.py``."""
    group: str | None = None
    """The group of runs of one call in which nothing new is sent while this is open (P301)."""

    def __repr__(self) -> str:
        run_id = self.identity.workflow_id
        return f"<Review {self.review_id}: {self.kind.value}, {self.status.value}, run {run_id!r}>"

    @property
    def blocks(self) -> bool:
        """Whether all new effects of the run wait for it (D11).

        An accepted drift is used where it occurs. A question or an approval holds back only the
        code that asked. But a run that a person decided to abort does nothing new at all.
        """
        verb = self.decision.verb if self.decision is not None else None
        if self.status is ReviewStatus.OPEN:
            return not self.kind.asks_first
        if self.kind.asks_first:
            return self.status is ReviewStatus.DECIDED and verb is Verb.ABORT
        return self.status is ReviewStatus.DECIDED and verb is not Verb.ACCEPT

    @property
    def blocks_group(self) -> bool:
        """Whether new effects of the other runs of its group wait for it (P301).

        A decision is for the run that asked. The others need not wait until it is used.
        """
        return self.status is ReviewStatus.OPEN and not self.kind.asks_first

    @property
    def is_about_one_call(self) -> bool:
        """Whether it asks what one call did, and so says nothing about the rest of the run."""
        verb = self.decision.verb if self.decision is not None else None
        return self.kind in (ReviewKind.IN_DOUBT, ReviewKind.RESULT) and verb is not Verb.ABORT

    @property
    def is_licence(self) -> bool:
        """Whether it allows one more attempt that has not been made yet."""
        verb = self.decision.verb if self.decision is not None else None
        return self.status is ReviewStatus.DECIDED and verb is Verb.DID_NOT_HAPPEN

    def decided(self, decision: Decision) -> Review:
        """Return the review with this decision. The same decision again is harmless."""
        if decision.verb not in VERBS[self.kind]:
            known = ", ".join(verb.value for verb in VERBS[self.kind])
            raise UsageError(
                f"A review of kind {self.kind.value!r} cannot be decided with "
                f"{decision.verb.value!r}. Nothing was decided. Choose one of: {known}."
            )
        if self.decision is not None and self.decision.says_the_same_as(decision):
            return self
        if self.status is not ReviewStatus.OPEN:
            raise DecisionConflict(self._conflict_text())
        return replace(
            self, status=ReviewStatus.DECIDED, decision=decision, version=self.version + 1
        )

    def undone(self) -> Review:
        """Return the review without its decision. Refused once the decision was used."""
        if self.status is not ReviewStatus.DECIDED:
            raise DecisionConflict(
                f"Review {self.review_id} is {self.status.value}; only a decision that has not "
                "been used yet can be undone. Nothing was changed."
            )
        return replace(self, status=ReviewStatus.OPEN, decision=None, version=self.version + 1)

    def used(self, *, now: float) -> Review:
        """Return the review after its decision took effect in the ledger."""
        return replace(
            self,
            status=ReviewStatus.USED,
            closed_by="decision",
            closed_at=now,
            version=self.version + 1,
        )

    def closed(self, by: str, *, now: float) -> Review:
        """Return the review after the doubt ended without a person, or is no longer asked."""
        return replace(
            self,
            status=ReviewStatus.CLOSED,
            closed_by=by,
            closed_at=now,
            version=self.version + 1,
        )

    def _conflict_text(self) -> str:
        if self.decision is None:
            return (
                f"Review {self.review_id} was closed by {self.closed_by} before you decided. "
                "Nothing was changed."
            )
        verb, given = self.decision.verb, self.decision.result
        what = repr(verb.value)
        if verb.answers and given is not None:
            shown = given.json if len(given.json) <= 80 else f"{given.json[:79]}…"
            what = f"{what} {shown}"
        hint = (
            f" To change it: nottwice decide {self.review_id} undo --why TEXT"
            if self.status is ReviewStatus.DECIDED
            else " It has been used and can no longer be changed."
        )
        return (
            f"Review {self.review_id} was already decided: {what} by "
            f"{self.decision.by}. Nothing was changed.{hint}"
        )


@frozen_record(frozen=True, slots=True)
class Evidence:
    """Something that bears on whether a call happened, kept beside the ledger."""

    workflow_id: str
    call_id: str
    attempt_id: str
    at: float
    source: str
    text: str
    result: StoredResult | None = None


@frozen_record(frozen=True, slots=True)
class AuditEntry:
    """Who did what to which run, and why."""

    workflow_id: str
    at: float
    who: str
    action: str
    subject: str
    why: str


def danger_of(review: Review) -> tuple[int, float, str]:
    """Return what reviews are sorted by: the most dangerous first, then the oldest."""
    return DANGER.index(review.kind), review.opened_at, review.review_id
