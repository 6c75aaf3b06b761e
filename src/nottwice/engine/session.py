"""One run while this process drives it: who holds it, and how it writes.

Nothing here is trusted after a crash. It is only what the holder knows in addition to the store.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nottwice.engine import events, said
from nottwice.engine.asks import Ask, Doing, Write
from nottwice.engine.calls.in_flight import InFlight, InFlightCalls
from nottwice.engine.hiding import hide
from nottwice.engine.opening import Opening
from nottwice.engine.pending import PendingWrites
from nottwice.engine.stepping.drift import Drift, StepState
from nottwice.engine.tools_seen import ToolsMet
from nottwice.engine.waits.stops import Stops
from nottwice.errors import NotInRun, OwnershipLost
from nottwice.model.call import (
    FIRST_CHECKPOINT,
    ROOT_NODE,
    CallIdentity,
    CallRow,
    CallStatus,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.decision import Action
from nottwice.model.review import AuditEntry, Evidence
from nottwice.model.run import (
    Fence,
    HolderRecord,
    RunRecord,
    RunStatus,
    Standing,
)
from nottwice.model.runs.openings import Savings
from nottwice.model.sealing.keyring import Key
from nottwice.store.interface import (
    CallWrite,
    ChargeWrite,
    Claim,
    Commit,
    EventWrite,
    Outdated,
    ReviewWrite,
    RunUpdate,
)

MOST_PENDING = 200


@frozen_record(frozen=True, slots=True, eq=False)
class Scope:
    """Where code runs: the run, and the step or branch that identifies a call."""

    session: Session
    node_id: str = ROOT_NODE
    checkpoint_id: str = FIRST_CHECKPOINT
    steps: tuple[StepState, ...] = ()
    """Open steps, innermost first."""
    heeds_own_reviews_only: bool = False
    """A doubt about another call does not hold back new effects here (P241)."""


current_scope: contextvars.ContextVar[Scope | None] = contextvars.ContextVar(
    "nottwice_scope", default=None
)
current_attempt: contextvars.ContextVar[InFlight | None] = contextvars.ContextVar(
    "nottwice_attempt", default=None
)


class AlreadyBegun(Exception):
    """The first commit of a run found that another process was faster. Internal: look again."""


class Session:
    """One claimed run in this process.

    Only this class writes its attributes. Related state has its own class: ``pending``
    (``pending.py``), ``in_flight`` (``in_flight.py``), ``stops`` (``stops.py``), ``drift``
    (``drift.py``) and ``tools`` (``tools_seen.py``). A house rule checks this.
    """

    # Not set before ``stands``: code that only claims a run does not drive it.
    standing: Standing
    """What there was to reconcile when the run was claimed."""
    looked_for_word: tuple[float, int] | None
    """When the last check for a cancellation was made, and how many cancellations this process had
    made by then; see cancelled.py."""
    _ordinals: Iterator[int]
    is_over = False
    """Whether the commit of the only call of a run has also ended and released the run."""

    def __init__(
        self,
        opening: Opening,
        *,
        run: RunRecord,
        holder: HolderRecord,
        found: RunRecord | None = None,
        driving: object | None = None,
        unclaimed: Claim | None = None,
    ) -> None:
        """``unclaimed``: the claim of a new run, if its first commit shall also be its claim."""
        self.opening = opening
        self.host = opening.host
        self.store, self.clock = self.host.store, self.host.clock
        self.run = run
        self.found = found
        """The run as it was before the claim. None: it did not exist."""
        self.run_id = run.workflow_id
        self.holder = holder
        self.fence = Fence(holder.holder_id, run.epoch)
        self.until = opening.until
        """When the host of the caller ends it, as long as that still counts."""
        self.pending = PendingWrites(self._flush_soon)
        self.in_flight = InFlightCalls()
        self.stops = Stops()
        self.drift = Drift(is_first_drive=found is None or found.epoch == 0)
        self.unrecorded: dict[CallIdentity, CallWrite] = {}
        """Outcomes that are known here but could not be written. They are retried before
        doubting."""
        self.may_have_reviews = found is not None
        """Whether a person may have been asked something, before this claim or since."""
        self.expects_new = found is not None and found.epoch == 0
        """Whether the last call that was looked up was new. If so, the next one probably is too. In
        a run that no process has opened before, every call is."""
        self.secret_key: Key | None = None
        """The key of this run, once it was needed; see ``secret_key.py``."""
        self.tools = ToolsMet(self.store)
        self.saved = Savings()
        """What this process got from the ledger instead of doing or paying for it again."""
        self._saving = threading.Lock()
        self._unclaimed = unclaimed
        self.closed = False
        self.pid = os.getpid()
        self.thread_id = threading.get_ident()
        self._trouble: Exception | None = None
        # By identity: two blocks may name the same.
        self._blocks = {id(opening)}
        self._steps_entered = itertools.count(1)
        self._lot = os.urandom(12).hex()
        self._attempts = itertools.count()
        # This reference keeps other drivers in this process out while the session lives.
        self.driving = driving

    def stands(self, standing: Standing, *, looked_for_word: tuple[float, int] | None) -> None:
        """Set what there is to reconcile. After that the run can continue."""
        self.standing = standing
        self.may_have_reviews = standing.reviews
        self._ordinals = itertools.count(standing.last_ordinal + 1)
        self.looked_for_word = looked_for_word

    @property
    def is_claimed(self) -> bool:
        """Whether the ledger says that this process holds the run."""
        return self._unclaimed is None

    def ends_with(self, row: CallRow) -> RunUpdate | None:
        """Return the end of a run of one call, which is written with the outcome of the call.

        None: the run has other calls, or the call is not over.
        """
        if not self.opening.is_single or row.status.in_doubt or row.retry_at is not None:
            return None
        status = RunStatus.COMPLETED if row.status is CallStatus.DONE else RunStatus.FAILED
        return RunUpdate(status, self.clock.now(), row.failure, release=True)

    def at_most(self, seconds: float) -> float:
        """Return this time, or what the host has left if that is less (P304)."""
        return seconds if self.until is None else min(seconds, self.until - self.clock.now())

    def ignore_deadline(self) -> None:
        """Wait as long as it takes from now on, whatever the host has left."""
        self.until = None

    def end_is_written(self) -> None:
        """Note that the run is over and released."""
        self.is_over = True

    def next_ordinal(self) -> int:
        """Return the position of a step that begins now among the steps of the run."""
        return next(self._ordinals)

    def look_for_word(self, now: float, words: int) -> None:
        """Note that the run was checked for a cancellation."""
        self.looked_for_word = (now, words)

    def expect(self, *, new: bool) -> None:
        """Note whether a call was new. The next one probably is the same."""
        self.expects_new = new

    def note_review(self) -> None:
        """Note that a person is being asked something."""
        self.may_have_reviews = True

    def keep_outcome(self, write: CallWrite) -> None:
        """Keep an outcome that could not be written and is known only here."""
        self.unrecorded[write.row.identity] = write

    def outcome_is_written(self, identity: CallIdentity) -> None:
        """Forget an outcome that was written after all."""
        del self.unrecorded[identity]

    def keep_secret_key(self, key: Key) -> None:
        """Remember the key of this run."""
        self.secret_key = key

    def note_receipt(self, row: CallRow) -> None:
        """Count a recorded result that was returned: of an earlier opening, or of an effect."""
        is_earlier = not row.attempt_id.startswith(self._lot)
        is_effect = row.replay_class.effectful
        if is_earlier or is_effect:
            with self._saving:
                self.saved = self.saved.plus(receipts=is_earlier, duplicates=is_effect)

    def note_reply(self, *, tokens: int, usd: float) -> None:
        """Count what the recorded reply of a model, which was returned, had cost."""
        with self._saving:
            self.saved = self.saved.plus(tokens=tokens, usd=usd)

    def close(self) -> None:
        """Allow nothing new in this session."""
        self.closed = True

    # Blocks of code. A run may be entered again inside itself.

    def enter_block(self, opening: Opening) -> None:
        """Note that another block of code has entered the run."""
        self._blocks.add(id(opening))

    def leave_block(self, opening: Opening) -> bool:
        """Note that a block has left, and return whether none is left."""
        self._blocks.discard(id(opening))
        return not self._blocks

    @property
    def was_left(self) -> bool:
        """Whether no block of code is inside any longer."""
        return self.closed or not self._blocks

    def check_usable(self) -> None:
        """Refuse a session that was left, or that belongs to the parent of a forked process."""
        if self.pid != os.getpid():
            raise forked(self)
        if self.closed:
            raise was_left(self)
        if self._trouble is not None:
            trouble = self._trouble
            # A full disk may have space again. A run that another process took does not come back.
            self._trouble = trouble if isinstance(trouble, OwnershipLost) else None
            raise trouble

    # Commits

    def commit(
        self,
        *,
        run: RunUpdate | None = None,
        unless_blocked: bool = False,
        calls: tuple[CallWrite, ...] = (),
        reviews: tuple[ReviewWrite, ...] = (),
        evidence: tuple[Evidence, ...] = (),
        audit: tuple[AuditEntry, ...] = (),
        events: tuple[EventWrite, ...] = (),
        charges: tuple[ChargeWrite, ...] = (),
    ) -> Iterable[Ask]:
        """Write as the holder, with all pending writes: ``yield from session.commit(...)``.

        Durable: when that returns.
        """
        if self.pid != os.getpid():
            raise forked(self)
        if reviews:
            self.may_have_reviews = True
        if run is not None and self.stops.aborted is not None:
            # Another branch ended the run at this moment.
            run = replace(run, status=RunStatus.ABORTED, waits=())
        if run is not None and run.release:
            run = replace(run, released_at=self.clock.now(), saved=self.saved)
        group = self.run.group if self.opening.is_single else None
        if reviews and group is not None:
            reviews = tuple(_of_group(write, group) for write in reviews)
        commit = Commit(
            self.run_id,
            self.fence,
            self._unclaimed,
            run,
            unless_blocked,
            calls,
            reviews=reviews,
            evidence=evidence,
            audit=audit,
            events=events,
            charges=charges,
            group=group if unless_blocked else None,
        )
        if self._unclaimed is None and not self.pending.has_any and not self.tools.new:
            # This is the usual case, twice in every call. Nothing remains to do after the commit,
            # so the ask is returned without a generator around it.
            return (Write(commit),)
        return self._commit_pending(commit)

    def _commit_pending(self, alone: Commit) -> Doing[None]:
        pending, new = self.pending.take(), dict(self.tools.new)
        try:
            commit = replace(
                alone,
                calls=pending.calls + alone.calls,
                steps=pending.steps,
                evidence=pending.evidence + alone.evidence,
                checkpoints=pending.checkpoints,
                tools=tuple(record for _, record in new.values()),
            )
            yield Write(commit)
            self._unclaimed = None
            self.pending.written(commit)
            self.tools.written(new)
        except Outdated as error:
            if self._unclaimed is None:
                raise
            raise AlreadyBegun(str(error)) from error
        finally:
            self.pending.over()

    def commit_row(
        self, row: CallRow, *, after: CallRow, reviews: tuple[ReviewWrite, ...]
    ) -> Doing[None]:
        """Write one row that ends a doubt, with the reviews that end with it."""
        update = RunUpdate(RunStatus.RUNNING, self.clock.now()) if reviews else None
        yield from self.commit(calls=(CallWrite(row, after.state),), reviews=reviews, run=update)

    def flush_if_heavy(self) -> Doing[None]:
        """Limit the work that a crash can cost, and the memory that pending writes take."""
        if len(self.pending) >= MOST_PENDING:
            yield from self.commit()

    def flush_at_step(self) -> Doing[None]:
        """Write what is pending when a step is entered, if ``checkpoints`` asks for it (P152).

        Durable: what was pending, when this returns, if it was written.
        """
        every = self.opening.cadence.steps
        if every is not None and next(self._steps_entered) % every == 0 and self.pending:
            yield from self.commit()

    def _flush_soon(self) -> None:
        seconds = self.opening.cadence.waits_seconds
        if seconds is not None and not self.closed:
            self.clock.later(seconds, self._flush)

    def _flush(self) -> None:
        """Commit what is still pending. Runs in another thread and never invokes a tool.

        Durable: what was pending, when this returns without an error.
        """
        if self.closed or self.pid != os.getpid():
            return
        if self.pending.is_under_way:
            # A running commit will write it, or most of it.
            self._flush_soon()
            return
        if not self.pending or self._unclaimed is not None:
            # What is pending in a run that does not exist yet is written with its first commit.
            return
        try:
            with contextlib.closing(self._commit_pending(Commit(self.run_id, self.fence))) as asks:
                for ask in asks:
                    self.host.driver.answer(ask, self.host)
        except Exception as error:
            # An overtaken holder gets this error before its next call. Its pending writes are not
            # evidence: they say nothing about the world, and the new holder finds out itself
            # (P153).
            self._trouble = error
            return
        if self.pending:
            self._flush_soon()

    def new_attempt_id(self) -> str:
        """Return a unique id: random for this session, and counted within it."""
        return f"{self._lot}{next(self._attempts):08x}"

    def tell_attempt(self, row: CallRow, *, began: float) -> None:
        """Report the outcome of an attempt that was made here. ``began``: when it was invoked."""
        seconds = max(0.0, (row.finished_at or self.clock.now()) - began)
        ended = events.attempt_ended(self.store.location, row, seconds=seconds)
        if ended.error is not None:
            again = "" if ended.retry_in is None else f" again in {ended.retry_in:.3g} s"
            detail = f"after {seconds:.3g} s error={ended.error!r}{again}"
            self.say(f"attempt {row.attempt} ended with an error", row, detail)
        if events.listeners:
            events.tell(ended, self.store)

    def say(
        self, decision: str | Action, row_or_identity: CallRow | CallIdentity, detail: str = ""
    ) -> None:
        """Write one log line about a call (O1)."""
        if said.is_heard():
            detail = hide(detail)
            words = decision.value if isinstance(decision, Action) else decision
            said.say(said.about_call(self, row_or_identity, words, detail), self.store)


def _of_group(write: ReviewWrite, group: str) -> ReviewWrite:
    """Return the same write of a review that also holds back the other runs of a group (P301)."""
    if write.review.group == group:
        return write
    return ReviewWrite(replace(write.review, group=group), write.after_version)


def forked(session: Session) -> NotInRun:
    """Return the error for a forked child that uses the run of its parent."""
    return NotInRun(
        f"Run {session.run_id!r} was opened by process {session.pid}, and this is process "
        f"{os.getpid()}, forked from it. Nothing was sent. Open a separate run in the child."
    )


def was_left(session: Session) -> NotInRun:
    """Return the error for code that still works in a run whose block has ended."""
    return NotInRun(
        f"This process has already left run {session.run_id!r}. Nothing was sent. Call the tool "
        "inside the with-block, or open the run again."
    )
