"""One call that a model asked for: its identity, what is on record about it, how it is made (P242).

An effect is identified by its arguments, once per run, wherever the conversation has got to. The
deliberate second time has a label. A call without effects is identified by the number of model
replies so far; without that number it is not recorded at all, because a read after a write must not
return the old value.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from nottwice.engine.asks import Doing, Read
from nottwice.engine.calls import gate
from nottwice.engine.calls.dispatch import perform
from nottwice.engine.calls.in_flight import living
from nottwice.engine.calls.requests import Receipt, Request
from nottwice.engine.doubts.aborting import abort_if_decided
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.session import Scope, Session, current_attempt
from nottwice.engine.traces import trace_id
from nottwice.errors import InvalidTool, ResultNotKept
from nottwice.guard import registry
from nottwice.guard.attached.binding import entered
from nottwice.guard.attached.spec import Body, ToolSpec
from nottwice.guard.declare import AsyncTool, SyncTool, call_async
from nottwice.guard.recorded import check_replies
from nottwice.model import values
from nottwice.model.call import (
    FIRST_CHECKPOINT,
    ROOT_NODE,
    CallIdentity,
    CallRow,
    CallStatus,
    ResultKind,
    check_id,
    following,
    own_branch,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review, ReviewKind, ReviewStatus

T = TypeVar("T")
AnyTool = ToolSpec | SyncTool[..., Any] | AsyncTool[..., Any]
"""A tool that was declared from data, or a function protected by ``nt.tool``."""
Status = Literal["new", "receipt", "failed", "running", "in_doubt", "needs_approval"]


@frozen_record(frozen=True, slots=True)
class CallResult(Generic[T]):
    """What came of a call: its value, and where it comes from."""

    value: T
    replayed: bool
    """True: this is the result of an earlier call, and nothing was done now."""
    receipt_id: str | None
    """The id of the call in the ledger. None: it was not recorded, because it has no effect."""
    at: float
    """When the call ended, in seconds since the epoch."""
    attempts: int = 1
    settled_by: str | None = None
    """What ended a doubt about it: ``verify`` or a decision. None: there was no doubt."""

    def __repr__(self) -> str:
        # The value is left out, as in a receipt: it may be large or secret (P227).
        how = "replayed" if self.replayed else "made now"
        return f"<CallResult {self.receipt_id or 'unrecorded'}, {how}>"


@frozen_record(frozen=True, slots=True)
class CallState:
    """What would become of a call, without making it: ``handle.look(...)``."""

    status: Status
    """``new``: it would be made. ``receipt``: its receipt would be returned. ``failed``: it failed
    without effect, and would be tried again. ``running``: this process is making it. ``in_doubt``:
    it may or may not have happened. ``needs_approval``: a person must approve it first."""
    call_id: str
    review_id: str | None = None
    """The review to decide. None: there is none, or it is not written yet; the call writes it."""
    decided: str | None = None
    """What a person has decided in this review; the call uses it."""
    value: Any = None
    """The result, if there is a receipt."""
    at: float | None = None
    """When the call ended, or began if it has not ended."""
    holder_id: str | None = None
    """The process that made it, if there is a receipt."""

    def __repr__(self) -> str:
        review = f", review {self.review_id}" if self.review_id else ""
        return f"<CallState {self.status}{review}>"


@frozen_record(frozen=True, slots=True)
class ModelCall:
    """A call that was asked for."""

    tool: AnyTool
    arguments: Mapping[str, Any]
    body: Body | None = None
    label: str | None = None
    replies: int | None = None
    retry: bool | None = None
    ask: str | None = None
    alone: bool = False
    """It is the only call of its run, so every review of the run is its own affair (P300)."""

    @property
    def is_recorded(self) -> bool:
        """Whether the ledger holds it: every effect, and a read that is told apart from others."""
        return self.tool.tool.replay_class.effectful or self.replies is not None

    def bare(self) -> Bare:
        """Return how to make a call that is not recorded."""
        tool = self.tool
        if isinstance(tool, ToolSpec):
            arguments = tool.checked(self.arguments)
            made = tool.with_body(self._given_body(tool))
            return Bare(partial(made.function, arguments), made.is_async)
        function = partial(tool.fn, *_instance_of(tool), **dict(self.arguments))
        return Bare(function, tool.tool.is_async)

    def request(self, session: Session, *, body: bool = True) -> Request:
        """Return the call as the engine needs it. ``body``: False if it is only looked up."""
        if self.label is not None:
            check_id(self.label, what="The label of a deliberate repeat")
        check_replies(self.replies)
        tool = self.tool
        if isinstance(tool, ToolSpec):
            made = self._of_spec(session, tool, body=body)
        elif self.body is not None:
            raise InvalidTool(
                f"Tool {tool.tool.name!r} was not run: it is protected by nt.tool and has its own "
                "body. Leave body out."
            )
        else:
            with entered(Scope(session)):
                requests = getattr(tool, "requests")  # noqa: B009 - it is not for users' types
                made = requests.make(_instance_of(tool), dict(self.arguments), label=self.label)
        return self._placed(session, made)

    def _of_spec(self, session: Session, spec: ToolSpec, *, body: bool) -> Request:
        if registry.find_tool(spec.name) is not None:
            raise InvalidTool(
                f"Tool {spec.name!r} was not run: nt.tool has declared another tool of this name, "
                "and one would get the receipts of the other. Pass that function itself, or give "
                "this one a namespace: declare('shop/" + spec.name + "', ...)",
                tool=spec.name,
            )
        arguments = spec.checked(self.arguments)
        identity = spec.identity_of(arguments)
        hashed = values.hash_of(identity if self.label is None else [identity, self.label, {}])
        return Request(
            tool=spec.with_body(self._given_body(spec)) if body else spec.tool,
            scope=Scope(session),
            identity=CallIdentity(session.run_id, ROOT_NODE, FIRST_CHECKPOINT, spec.name, hashed),
            args_json=values.encode_known(arguments),
            args=(arguments,),
            kwargs={},
            label=self.label,
            trace_id=trace_id(),
        )

    def _given_body(self, spec: ToolSpec) -> Body:
        if self.body is None:
            raise InvalidTool(
                f"Tool {spec.name!r} was not run: it was declared from data, so its body comes "
                "with the call: handle.call(spec, arguments, body)."
            )
        return self.body

    def _placed(self, session: Session, request: Request) -> Request:
        """Return the request in its own branch of the run, with its key."""
        identity = request.identity
        if not request.tool.replay_class.effectful:
            # Without the number of replies each read is a call of its own: only policies know it.
            told = session.new_attempt_id() if self.replies is None else self.replies
            hashed = values.hash_of([identity.input_hash, told])
            identity = identity._replace(input_hash=hashed)
        placed = own_branch(identity)
        key = request.key
        if isinstance(self.tool, ToolSpec):
            key = self.tool.key_of(dict(request.args[0]), placed.call_id, label=self.label)
        elif key == request.identity.call_id:
            # The key is per call, and this is the call.
            key = placed.call_id
        scope = Scope(session, placed.node_id, heeds_own_reviews_only=not self.alone)
        return replace(
            request,
            identity=placed,
            scope=scope,
            key=key,
            ask=self.ask,
            retry=bool(self.retry),
        )


def _instance_of(tool: Any) -> tuple[Any, ...]:
    """Return the instance that a bound method is called with, ``shop.refund``."""
    return (tool.__self__,) if inspect.ismethod(tool) else ()


@frozen_record(frozen=True, slots=True)
class Bare:
    """A call that is not recorded."""

    function: Callable[[], Any]
    is_async: bool


def make(wanted: ModelCall, session: Session) -> CallResult[Any]:
    """Make a recorded call, or return its receipt.

    Durable: the receipt of an effect, when this returns.
    """
    request = drive(asked(wanted, session), session.host)
    with entered(request.scope):
        receipt = drive(perform(request, current_attempt.get()), session.host)
    return drive(result_of(session, request, receipt), session.host)


async def make_async(wanted: ModelCall, session: Session) -> CallResult[Any]:
    """Do the same in an event loop; cancelling the caller cancels no effect that has begun."""
    request = await drive_async(asked(wanted, session), session.host)
    with entered(request.scope):
        receipt = await call_async(request)
    return await drive_async(result_of(session, request, receipt), session.host)


def asked(wanted: ModelCall, session: Session) -> Doing[Request]:
    """Return the request. A call that failed without effect may be tried again (P242)."""
    if not session.is_claimed:
        # The run does not exist yet, so there is nothing to look up.
        request = wanted.request(session)
        return replace(request, retry=False, is_retried_when_repeated=wanted.retry is not False)
    request, row = yield from _in_these_words(wanted.request(session), session)
    if row is not None and row.status.in_doubt:
        # A person may have answered the question about this very call by ending the run.
        yield from abort_if_decided(session)
    if wanted.retry is None:
        retry = row is not None and _may_be_tried_again(row)
        request = replace(request, retry=retry, is_retried_when_repeated=True)
    return request


def _in_these_words(request: Request, session: Session) -> Doing[tuple[Request, CallRow | None]]:
    """Return the call, and its row if there is one.

    A call keeps its recorded words. If it failed without effect, the same effect in other words is
    a call that follows it, under the same key (P213).
    """
    while True:
        row = yield from _row(session, request.identity)
        if row is None or not _may_be_tried_again(row) or row.args_json == request.args_json:
            return request, row
        identity = following(request.identity)
        key = identity.call_id if request.key == request.identity.call_id else request.key
        scope = replace(request.scope, node_id=identity.node_id)
        request = replace(request, identity=identity, key=key, scope=scope)


def result_of(session: Session, request: Request, receipt: Receipt[Any]) -> Doing[CallResult[Any]]:
    at = session.clock.now()
    if receipt.replayed:
        row = yield from _row(session, request.identity)
        at = at if row is None or row.finished_at is None else row.finished_at
    return CallResult(
        receipt.value,
        receipt.replayed,
        receipt.id,
        at,
        receipt.attempts,
        receipt.settled_by,
    )


def look(wanted: ModelCall, session: Session) -> Doing[CallState]:
    """Find out what would become of a call. Nothing is made and nothing is written."""
    request = wanted.request(session, body=False)
    if not wanted.is_recorded:
        return CallState("new", request.identity.call_id)
    request, row = yield from _in_these_words(request, session)
    identity = request.identity
    reviews: list[Review] = yield Read(lambda store: store.open_reviews(session.run_id))
    mine = [one for one in reviews if one.identity == identity]
    if row is not None and row.status is CallStatus.DONE:
        return _done(request, row, mine)
    if row is not None and row.status.in_doubt:
        status: Status = "in_doubt"
        if session.in_flight.find(identity) is not None or row.attempt_id in living:
            status = "running"
        return _with_review(CallState(status, row.call_id, at=row.started_at), mine)
    if row is not None and not _may_be_tried_again(row):
        return CallState("failed", row.call_id, at=row.finished_at)
    if (yield from _must_be_approved(request, session, mine)):
        return _with_review(CallState("needs_approval", identity.call_id), mine)
    if row is not None:
        return CallState("failed", row.call_id, at=row.finished_at)
    return CallState("new", identity.call_id)


def _row(session: Session, identity: CallIdentity) -> Doing[CallRow | None]:
    known = session.pending.find_call(identity)
    if known is not None:
        return known
    row: CallRow | None = yield Read(lambda store: store.load_call(identity))
    return row


def _may_be_tried_again(row: CallRow) -> bool:
    """Whether a model may simply ask for a failed call again: people have not refused it."""
    refused = ("nottwice.errors.RejectedByReviewer", "nottwice.errors.DeniedByPolicy")
    failure = row.failure
    return row.status is CallStatus.FAILED and not (
        failure is not None and failure.error_type in refused
    )


def _done(request: Request, row: CallRow, reviews: list[Review]) -> CallState:
    kept = row.kept_result()
    if kept.kind is not ResultKind.NOT_KEPT:
        with contextlib.suppress(ResultNotKept):
            value = request.tool.decode_result(kept)
            return CallState(
                "receipt",
                row.call_id,
                value=value,
                at=row.finished_at,
                holder_id=row.holder_id,
            )
    # It happened, but what it returned must be asked for (P134).
    return _with_review(CallState("in_doubt", row.call_id, at=row.finished_at), reviews)


def _with_review(state: CallState, reviews: list[Review]) -> CallState:
    if not reviews:
        return state
    review = reviews[-1]
    decided = None if review.decision is None else review.decision.verb.value
    return replace(state, review_id=review.review_id, decided=decided)


def _must_be_approved(request: Request, session: Session, mine: list[Review]) -> Doing[bool]:
    """Whether a person must still approve the call, because of its tool, its caller or a policy."""
    asked = [one for one in mine if one.kind is ReviewKind.APPROVAL]
    if any(one.status is ReviewStatus.DECIDED for one in asked):
        # Approved or rejected: the call finds out, and an approval may have expired by then.
        return False
    if asked or request.tool.approve or request.ask is not None:
        return True
    return bool(session.host.policies) and (yield from gate.would_ask(request))
