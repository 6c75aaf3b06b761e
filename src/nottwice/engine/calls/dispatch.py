"""How a call happens: look it up, decide, carry the decision out, return the receipt (D1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nottwice.engine import events
from nottwice.engine.asks import Doing, Invoked, Pause, Read
from nottwice.engine.calls import gate
from nottwice.engine.calls.alone import enter_alone
from nottwice.engine.calls.attempt import Attempted, StillRunning, attempt
from nottwice.engine.calls.expected import WITHOUT_ROW, expects_no_row
from nottwice.engine.calls.failures import failure_error
from nottwice.engine.calls.in_flight import InFlight
from nottwice.engine.calls.invocation import Invocation, invocation_for
from nottwice.engine.calls.pure import run_pure
from nottwice.engine.calls.requests import Receipt, Request
from nottwice.engine.calls.telling import tell_listeners
from nottwice.engine.doubts import blocking, lost_results, reconcile, tampered
from nottwice.engine.stepping import steps
from nottwice.engine.waits import limited
from nottwice.engine.waits.cancelled import stop_if_cancelled
from nottwice.errors import (
    LedgerTampered,
    ResultNotKept,
    RunBlocked,
    StoreError,
    ToolFailure,
    UsageError,
)
from nottwice.model.call import CallRow, CallStatus, ResultKind
from nottwice.model.decision import Action, Facts, decide
from nottwice.model.replay_class import stricter
from nottwice.model.review import Review
from nottwice.store.interface import Blocked, Outdated


def perform(request: Request, parent: InFlight | None) -> Doing[Receipt[Any]]:
    """Make a call happen once, and return its receipt."""
    session = request.scope.session
    limit = request.tool.time_limit_seconds
    mine = yield from enter_alone(session, request.identity, parent, limit_seconds=limit)
    late, receipt = False, None
    began = session.clock.now() if events.listeners else None
    mine.secrets = request.secrets
    call = _Dispatch(request, mine)
    try:
        if call.row is None and not expects_no_row(request):
            yield from call.load()
        while True:
            if request.scope.steps:
                steps.asked_again(request.scope, request.identity, call.row)
            action = call.decide()
            if action is Action.RECORD_AND_RUN:
                # This is not in ``do``: another generator layer would cost time at every ask.
                attempted = yield from call.record_and_run()
            else:
                attempted = yield from call.do(action)
            if attempted is not None:
                receipt = call.receipt(attempted)
                if receipt is not None:
                    return receipt
    except StillRunning as error:
        late = True
        raise error.blocked from None
    except LedgerTampered as found:
        if found.review_id is not None:
            raise
        raise (yield from tampered.hold(session, found, release=False)) from None
    finally:
        if not late:
            session.in_flight.leave(mine)
        if began is not None:
            tell_listeners(request, call.row, mine.row, receipt, began)


class _Dispatch:
    """One call in progress: the row as last seen, and what this caller has tried."""

    __slots__ = (
        "blocked_by",
        "error",
        "looked",
        "mine",
        "past_doubts",
        "request",
        "retry",
        "row",
        "session",
        "tool",
    )

    def __init__(self, request: Request, mine: InFlight) -> None:
        self.request = request
        self.session = request.scope.session
        self.tool = request.tool
        self.mine = mine
        self.row = self.session.pending.find_call(request.identity)
        self.looked = False
        """Whether ``row`` is what the ledger shows. If not, the call is only expected to be new."""
        self.retry = request.retry
        self.error: BaseException | None = None
        self.blocked_by: tuple[Review, ...] = ()
        self.past_doubts = False
        """Whether only doubts about other calls are open, which do not hold this call back."""

    def decide(self) -> Action:
        row = self.row
        if row is None:
            action = WITHOUT_ROW[self.tool.replay_class]
            # An expectation is logged as a decision only once the intent is durable.
            if self.looked:
                self.session.say(action, self.request.identity)
            return action
        action = decide(self._facts(row))
        if not row.status.in_doubt:
            self.session.say(action, row)
        return action

    def receipt(self, attempted: Attempted) -> Receipt[Any] | None:
        """Take note of an attempt. None: the call is not over. A final failure is raised."""
        row = self.row = attempted.row
        outcome = attempted.outcome
        self.error = outcome.error
        if row.status is CallStatus.FAILED and row.retry_at is None:
            raise self._failure(row) from self.error
        if row.status is not CallStatus.DONE:
            return None
        if not outcome.invoked:
            self.session.note_receipt(row)
        return Receipt(
            outcome.value,
            not outcome.invoked,
            row.call_id,
            row.attempt,
            self.tool.name,
            row.settled_by,
        )

    def _failure(self, row: CallRow) -> ToolFailure:
        repeated = self.request.retry or self.request.is_retried_when_repeated
        return failure_error(self.tool, row, stays=not repeated)

    def _facts(self, row: CallRow) -> Facts:
        tool = self.tool
        return Facts(
            replay_class=stricter(row.replay_class, tool.replay_class),
            status=row.status,
            retry_granted=self.retry or row.retry_at is not None,
            result_kept=row.result is None or row.result.kind is not ResultKind.NOT_KEPT,
            can_verify=tool.verify is not None,
        )

    def do(self, action: Action) -> Doing[Attempted | None]:
        """Carry out one decision. None: look at the row again."""
        row = self.row
        match action:
            case Action.RUN:
                if self.session.host.policies and not (yield from self._may_run_pure()):
                    return None
                return (yield from self._run_pure())
            case Action.RECORD_AND_RUN:
                return (yield from self.record_and_run())
            case Action.RETURN_RECEIPT:
                assert row is not None
                return (yield from self._recorded(row))
            case Action.RETURN_FAILURE:
                assert row is not None
                raise self._failure(row)
            case Action.ASK_FOR_RESULT:
                assert row is not None
                return (yield from lost_results.supply(self.session, self.tool, row))
            case _:
                assert row is not None
                return (yield from self._resolve(row))

    def _recorded(self, row: CallRow) -> Doing[Attempted]:
        """Return the recorded receipt. If a pure result cannot be read, run the tool again."""
        kept = row.kept_result()
        try:
            return Attempted(row, Invoked(value=self.tool.decode_result(kept)))
        except ResultNotKept:
            if self.tool.only_answers:
                raise
            if not stricter(row.replay_class, self.tool.replay_class).may_rerun:
                return (yield from lost_results.supply(self.session, self.tool, row))
        return (yield from self._run_pure())

    def _resolve(self, row: CallRow) -> Doing[Attempted | None]:
        self.session.stops.raise_if_aborted()
        invocation: Invocation | None = None
        unfit = ""
        try:
            invocation = invocation_for(self.request, row)
        except UsageError as error:
            unfit = str(error)
        try:
            self.row, attempted = yield from reconcile.resolve(
                self.session, self.tool, row, self.mine, invocation=invocation, unfit=unfit
            )
        except RunBlocked as blocked:
            # Show the tool's author the error that left the doubt, if it occurred just now.
            raise blocked from (blocked.__cause__ or self.error)
        return attempted

    def record_and_run(self) -> Doing[Attempted | None]:
        """Record the intent of a first or further attempt, and make the attempt."""
        session, row = self.session, self.row
        intent = yield from self._next_intent(row)
        try:
            permit: gate.Permit | None = gate.FREE
            ask = self.request.ask
            if self.tool.approve or session.host.policies or ask is not None:
                scope = self.request.scope
                permit = yield from gate.admit(scope, self.tool, intent, before=row, ask=ask)
            if permit is None:
                # The call was denied or rejected, and is on record as failed. Look at the row
                # again.
                self.retry = False
                yield from self.load()
                return None
            attempted = yield from self._attempt(intent, row, permit)
        except Blocked as blocked:
            if row is None and not self.looked:
                # A receipt is returned whatever the run waits for.
                yield from self.load()
                return None
            if self._may_pass(blocked.reviews):
                self.past_doubts = True
                return None
            # Unused decisions may lift the block. An open review raises.
            yield from reconcile.raise_if_blocked(session, refused=intent)
            if blocked.reviews == self.blocked_by:
                # The decision is about a call that only its own caller can resolve (D13).
                raise blocking.refused_by(session, blocked.reviews, intent) from None
            self.blocked_by = blocked.reviews
            return None
        except Outdated:
            yield from self.load()
            return None
        except StoreError:
            # Something is wrong, but the record may still be readable. Look it up first next time.
            session.expect(new=False)
            raise
        self.retry = False
        return attempted

    def _attempt(
        self, intent: CallRow, row: CallRow | None, permit: gate.Permit
    ) -> Doing[Attempted]:
        """Make the attempt, under the limits of its tool if there are any."""
        invocation = invocation_for(self.request, row)
        use = None
        if self.session.host.limits:
            use = yield from limited.enter_call(self.request, intent.attempt_id)
        made = attempt(
            self.session,
            self.tool,
            intent,
            self.mine,
            before=row,
            invocation=invocation,
            reviews=permit.reviews,
            charges=permit.charges,
            expected=not self.looked and row is None,
            past_doubts=self.past_doubts,
        )
        if use is None:
            return (yield from made)
        return (yield from limited.during(use, made))

    def _may_pass(self, reviews: Sequence[Review]) -> bool:
        """Whether these reviews are the affair of other calls (P241)."""
        return self.request.scope.heeds_own_reviews_only and all(
            one.is_about_one_call and one.identity != self.request.identity for one in reviews
        )

    def _next_intent(self, row: CallRow | None) -> Doing[CallRow]:
        """Return the intent of the first attempt, or of the next one once it is due."""
        session, scope = self.session, self.request.scope
        yield from stop_if_cancelled(session)
        scope.session.stops.raise_if_stopped(scope.node_id, but=self.request.identity)
        if row is None:
            yield from steps.admit(scope, self.request.identity, self.request.args_json)
            if self.request.key is None:
                return self._blank_row(session.clock.now())
            return (yield from self._keyed_intent(self.request.key))
        steps.refuse_in_fork(scope, self.request.identity)
        if row.retry_at is not None:
            # After the clock jumped back, the caller must not wait longer than the policy allows.
            left = max(0.0, row.retry_at - session.clock.now())
            yield Pause(min(left, self.tool.retry.longest_seconds))
        return row.next_attempt(
            attempt_id=session.new_attempt_id(),
            holder_id=session.holder.holder_id,
            now=session.clock.now(),
        )

    def _keyed_intent(self, key: str) -> Doing[CallRow]:
        tool, now = self.tool, self.session.clock.now()
        since, window = now, tool.window_seconds or 0.0
        used = yield Read(lambda store: store.last_use_of_key(tool.name, key))
        if used is not None and used.key_since is not None and used.key_since + window > now:
            # The upstream counts from the first use of the key, in whichever run that was.
            since = used.key_since
        return self._blank_row(now, key, since, window)

    def _blank_row(
        self,
        now: float,
        key: str | None = None,
        key_since: float | None = None,
        window_seconds: float | None = None,
    ) -> CallRow:
        request, session = self.request, self.session
        if session.tools.met.get(self.tool.name) is not self.tool:
            session.tools.note(self.tool, now=now)
        return CallRow(
            request.identity,
            request.identity.call_id,
            CallStatus.PENDING,
            self.tool.replay_class,
            1,
            session.new_attempt_id(),
            session.holder.holder_id,
            request.args_json,
            now,  # created_at
            now,  # started_at
            label=request.label,
            key=key,
            key_since=key_since,
            window_seconds=window_seconds,
            trace_id=request.trace_id,
            parent_call_id=self.mine.parent_call_id,
        )

    def _may_run_pure(self) -> Doing[bool]:
        """Whether policies allow a pure call. False: look at the row again."""
        session, row = self.session, self.row
        intent = self._blank_row(session.clock.now(), key=self.request.key)
        try:
            permit = yield from gate.admit(self.request.scope, self.tool, intent, before=row)
            if permit is not None:
                yield from gate.use_up(session, permit)
                return True
        except Blocked as blocked:
            yield from reconcile.raise_if_blocked(session, refused=intent)
            raise blocking.refused_by(session, blocked.reviews, intent) from None
        except Outdated:
            # At this moment a person decides, or another call charges a meter.
            yield from self.load()
            return False
        self.retry = False
        yield from self.load()
        return False

    def _run_pure(self) -> Doing[Attempted]:
        intent = self._blank_row(self.session.clock.now())
        attempted = yield from run_pure(self.request, self.mine, intent, before=self.row)
        self.retry = False
        return attempted

    def load(self) -> Doing[None]:
        """Look the call up."""
        identity = self.request.identity
        self.row = yield Read(lambda store: store.load_call(identity))
        self.looked = True
        # After a known call the next one is probably known, and after a new one it is new.
        self.session.expect(new=self.row is None)
