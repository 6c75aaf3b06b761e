"""May a call be made? The policies of the ledger decide, then a person if needed (L9, H3).

Policies are asked before the intent of a call that is not on record yet, and again when a person
grants a failed call new attempts. They are never asked about a call with a receipt, nor about a
call in doubt, which was allowed when its intent was written. Anything but an allowance is a
refusal: a policy that raises or hangs lets nothing through. Promises kept here: P81, P82, P83.
"""

from __future__ import annotations

from dataclasses import replace

from nottwice.engine.asks import Doing, Invoked, Read, Rule
from nottwice.engine.calls import approvals
from nottwice.engine.calls.requests import Request
from nottwice.engine.doubts import blocking
from nottwice.engine.hiding import classify
from nottwice.engine.host import Policy
from nottwice.engine.session import Scope, Session
from nottwice.engine.waits import questions
from nottwice.errors import DeniedByPolicy, PolicyFailed, RunStoppedByPolicy
from nottwice.model import values
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import Failure, FailureClass, is_interruption, is_ledger_trouble
from nottwice.model.policy import (
    Charge,
    ChargeRecord,
    ProposedCall,
    Ruling,
    RulingKind,
    shown_amount,
    strictest,
)
from nottwice.model.review import AuditEntry
from nottwice.model.run import RunStatus
from nottwice.model.tool import OWN_PREFIX, Tool
from nottwice.store.interface import CallWrite, ChargeWrite, ReviewWrite, RunUpdate

LIMIT_SECONDS = 30.0
MOST_REASON_CHARACTERS = 500
_DENIED = f"{DeniedByPolicy.__module__}.{DeniedByPolicy.__qualname__}"


@frozen_record(frozen=True, slots=True)
class Permit:
    """What the commit of an allowed intent writes in addition."""

    reviews: tuple[ReviewWrite, ...] = ()
    charges: tuple[ChargeWrite, ...] = ()


FREE = Permit()


@frozen_record(frozen=True, slots=True)
class _Said:
    """A ruling, and the name of the policy that made it."""

    by: str
    ruling: Ruling


def admit(
    scope: Scope, tool: Tool, intent: CallRow, *, before: CallRow | None, ask: str | None = None
) -> Doing[Permit | None]:
    """Return what makes a call allowed. None: it was denied or rejected, which is on record now.

    ``ask``: why a person must approve this call, whatever its tool and the policies say. Raises
    ApprovalNeeded while a person has not decided, RunStoppedByPolicy if a policy stops the run, and
    PolicyFailed if a policy is broken. In all three cases nothing was sent.
    """
    session, identity = scope.session, intent.identity
    said: list[_Said] = []
    if not _is_allowed_before(tool, before):
        said = yield from _ask_policies(session, tool, intent)
    kind = strictest(one.ruling.kind for one in said)
    reasons = [one for one in said if one.ruling.kind is kind]
    if kind is RulingKind.STOP:
        raise (yield from _stop(session, intent, reasons[0]))
    if kind is RulingKind.DENY:
        yield from _record_denial(session, intent, reasons[0], before=before)
        return None
    reviews: tuple[ReviewWrite, ...] = ()
    must_ask = tool.approve or ask is not None or kind is RulingKind.ASK
    if must_ask or identity in session.stops.asked:
        # Once a person was asked, a policy that would no longer ask does not overrule them.
        said_by_policies = [one.ruling.why for one in reasons] if kind is RulingKind.ASK else []
        why = "; ".join(filter(None, [ask, *said_by_policies]))
        licence = yield from approvals.authorise(scope, tool, intent, before=before, why=why)
        if licence is None:
            return None
        reviews = licence
    approved = bool(reviews) or kind is RulingKind.ASK
    charges = [charge for one in said for charge in one.ruling.charges]
    return Permit(reviews, _writes(session, intent, charges, approved=approved))


def would_ask(request: Request) -> Doing[bool]:
    """Whether a policy would ask a person to approve a call. Nothing is recorded or charged."""
    session, tool, now = request.scope.session, request.tool, request.scope.session.clock.now()
    intent = CallRow(
        request.identity,
        request.identity.call_id,
        CallStatus.PENDING,
        tool.replay_class,
        1,
        "",
        session.holder.holder_id,
        request.args_json,
        now,
        now,
        label=request.label,
        key=request.key,
    )
    kinds: list[RulingKind] = []
    for policy in session.host.policies:
        call = _proposed(session, tool, intent)
        outcome: Invoked = yield Rule(policy, call, LIMIT_SECONDS)
        if outcome.interrupt is not None:
            raise outcome.interrupt
        if not _is_ruling(outcome.value):
            # The call itself finds out what is wrong with the policy, and is refused.
            return False
        ruling = yield from _with_meters(session, intent, outcome.value)
        kinds.append(ruling.kind)
    return strictest(kinds) is RulingKind.ASK


def use_up(session: Session, permit: Permit) -> Doing[None]:
    """Write what allows a pure call, which has no intent to write it with.

    Durable: when this returns.
    """
    if permit.reviews or permit.charges:
        now = session.clock.now()
        update = RunUpdate(RunStatus.RUNNING, now) if permit.reviews else None
        yield from session.commit(reviews=permit.reviews, charges=permit.charges, run=update)


def _is_allowed_before(tool: Tool, before: CallRow | None) -> bool:
    """Whether this is another attempt of an allowed call, or not one of the user's calls."""
    return tool.name.startswith(OWN_PREFIX) or (before is not None and before.retry_at is not None)


def _ask_policies(session: Session, tool: Tool, intent: CallRow) -> Doing[list[_Said]]:
    """Return what each policy says. After a refusal, the remaining policies are not asked."""
    if session.stops.ended is not None:
        raise session.stops.ended.with_traceback(None)
    said: list[_Said] = []
    for policy in session.host.policies:
        by = policy_name(policy)
        call = _proposed(session, tool, intent)
        outcome: Invoked = yield Rule(policy, call, LIMIT_SECONDS)
        if outcome.interrupt is not None:
            raise outcome.interrupt
        if outcome.error is not None and _is_no_ruling(outcome.error):
            raise outcome.error
        if outcome.error is not None or not _is_ruling(outcome.value):
            raise (yield from _fail_closed(session, intent, by, outcome))
        given = replace(outcome.value, why=_plain(outcome.value.why))
        ruling = yield from _with_meters(session, intent, given)
        said.append(_Said(by, ruling))
        if ruling.kind in (RulingKind.DENY, RulingKind.STOP):
            break
    return said


def _is_no_ruling(error: BaseException) -> bool:
    """Whether the error is an interruption or an unreadable meter, and no answer of the policy."""
    return is_interruption(error) or is_ledger_trouble(error)


def policy_name(policy: Policy) -> str:
    """Return the name of a policy in the audit trail."""
    name = getattr(policy, "__qualname__", None) or str(policy)
    return _plain(name.replace("<locals>.", ""))


def _is_ruling(said: object) -> bool:
    return (
        isinstance(said, Ruling)
        and isinstance(said.kind, RulingKind)
        and isinstance(said.charges, tuple)
        and all(isinstance(one, Charge) and one.amount >= 0 for one in said.charges)
    )


def _plain(text: object) -> str:
    """Return a policy's text as one line that any store can keep and any terminal can show."""
    shown = str(text)[:MOST_REASON_CHARACTERS]
    return "".join(one if one.isprintable() else " " for one in shown)


def _proposed(session: Session, tool: Tool, intent: CallRow) -> ProposedCall:
    def read_meter(meter: str, seconds: float | None) -> int:
        since = None if seconds is None else session.clock.now() - seconds
        return session.store.charged(meter, since=since, besides=intent.call_id)

    return ProposedCall(
        tool=tool.name,
        replay_class=tool.replay_class.value,
        tags=tool.tags,
        rate_class=tool.rate_class,
        arguments=values.decode_object(intent.args_json),
        run_id=session.run_id,
        step=intent.identity.node_id,
        call_id=intent.call_id,
        label=intent.label,
        key=intent.key,
        read_meter=read_meter,
    )


def _with_meters(session: Session, intent: CallRow, ruling: Ruling) -> Doing[Ruling]:
    """Return the ruling after a look at the meters. The commit of the intent checks them again."""
    for charge in ruling.charges:
        if charge.at_most is None:
            continue
        shown: int = yield _look_at(session, intent, charge)
        if shown + charge.amount > charge.at_most:
            kind = strictest((ruling.kind, charge.otherwise))
            if kind is RulingKind.ALLOW:
                # A limit that allows more than the limit would not be a limit.
                kind = RulingKind.DENY
            ruling = Ruling(kind, _no_room(charge, shown), ruling.charges)
    return ruling


def _look_at(session: Session, intent: CallRow, charge: Charge) -> Read:
    since = _since(session, charge)
    return Read(lambda store: store.charged(charge.meter, since=since, besides=intent.call_id))


def _since(session: Session, charge: Charge) -> float | None:
    return None if charge.window_seconds is None else session.clock.now() - charge.window_seconds


def _no_room(charge: Charge, shown: int) -> str:
    assert charge.at_most is not None
    per = "" if charge.window_seconds is None else f" in {charge.window_seconds:g} s"
    return (
        f"{charge.meter}: {shown_amount(shown)} of {shown_amount(charge.at_most)}{per} are used, "
        f"and this would add {shown_amount(charge.amount)}"
    )


def _writes(
    session: Session, intent: CallRow, charges: list[Charge], *, approved: bool
) -> tuple[ChargeWrite, ...]:
    """Return the charges to write with the intent. An approval waives limits that ask."""
    now = session.clock.now()
    writes: list[ChargeWrite] = []
    for charge in charges:
        record = ChargeRecord(
            charge.meter, intent.identity, intent.call_id, now, charge.amount, charge.if_failed
        )
        waived = approved and charge.otherwise is RulingKind.ASK
        at_most = None if waived else charge.at_most
        writes.append(ChargeWrite(record, at_most, _since(session, charge)))
    return tuple(writes)


def _record_denial(
    session: Session, intent: CallRow, said: _Said, *, before: CallRow | None
) -> Doing[None]:
    """Record permanently that a denied call failed without effect, and why."""
    now = session.clock.now()
    text = f"policy {said.by} does not allow it: {_reason(said)}"
    row = intent.failed(Failure(FailureClass.PERMANENT, _DENIED, text), now=now)
    asked = yield from questions.pending_review(session, intent.identity)
    closing: tuple[ReviewWrite, ...] = ()
    if asked is not None:
        # Do not leave a person with a question whose answer would change nothing.
        closing = (ReviewWrite(asked.closed(f"policy {said.by}", now=now), asked.version),)
    yield from session.commit(
        calls=(CallWrite(row, before.state if before else None),),
        reviews=closing,
        audit=(_entry(session, intent, "deny", by=said.by, why=_reason(said)),),
    )
    session.stops.lift(intent.identity)
    session.say("record the denial", row, f"policy={said.by!r}")


def _stop(session: Session, intent: CallRow, said: _Said) -> Doing[RunStoppedByPolicy]:
    """Stop the run. The call is not recorded, so it is made again when the run is reopened."""
    entry = _entry(session, intent, "stop the run", by=said.by, why=_reason(said))
    yield from session.commit(audit=(entry,))
    session.say("stop the run", intent, f"policy={said.by!r}")
    denied = RunStoppedByPolicy(
        f"Policy {said.by} stopped run {session.run_id!r} at {blocking.call_text(intent)}: "
        f"{_reason(said)}. It was not sent, and nothing else is. Open the run again when the "
        "policy lets it pass.",
        run_id=session.run_id,
        call_id=intent.call_id,
    )
    session.stops.end(denied)
    return denied


def _fail_closed(
    session: Session, intent: CallRow, by: str, outcome: Invoked
) -> Doing[PolicyFailed]:
    if outcome.still_running or outcome.stopped:
        what = f"gave no answer within {LIMIT_SECONDS:g} s"
    elif outcome.error is not None:
        raised = classify(outcome.error, effectful=False, now=session.clock.now())
        what = _plain(f"raised {raised.error_type}: {raised.message}")
    else:
        what = (
            f"returned {type(outcome.value).__name__} instead of policy.allow(), policy.deny(why), "
            "policy.ask(why) or policy.stop(why)"
        )
    yield from session.commit(audit=(_entry(session, intent, "deny", by=by, why=f"it {what}"),))
    session.say("refuse without a ruling", intent, f"policy={by!r}")
    error = PolicyFailed(
        f"Policy {by} {what}. {blocking.call_text(intent)} in run {session.run_id!r} was not sent, "
        "because every policy must rule before a call is made. Fix the policy and open the run "
        "again.",
        run_id=session.run_id,
        call_id=intent.call_id,
    )
    error.__cause__ = outcome.error
    return error


def _reason(said: _Said) -> str:
    return said.ruling.why or "it gives no reason"


def _entry(session: Session, intent: CallRow, action: str, *, by: str, why: str) -> AuditEntry:
    subject = f"call {intent.call_id[:16]} {intent.identity.tool_name}"
    return AuditEntry(session.run_id, session.clock.now(), f"policy {by}", action, subject, why)
