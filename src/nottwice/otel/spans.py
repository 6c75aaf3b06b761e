"""Which spans are there? One for each opening of a run, for each step, and for each live call.

A span of days would be lost with its process, so a run has a span for each opening, and each links
to the opening before it. Receipts are span events, since nothing was done for them. If a framework
has made a span for the call already, it gets the attributes, and no second span is made. Promises
kept here: P340, P345.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Link, Span, Status, StatusCode, Tracer

from nottwice.engine import events
from nottwice.engine.session import current_attempt
from nottwice.metrics.measuring import is_duplicate_prevented
from nottwice.otel import contexts, names
from nottwice.otel.content import Content
from nottwice.otel.contexts import Entered
from nottwice.otel.live_calls import LiveCall, begin_call, framework_span

_Key = tuple[str, str]


class _Opened:
    """One opening of a run while this process drives it."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.steps: dict[tuple[str, str], list[Entered]] = {}
        self.calls: dict[tuple[str, int], LiveCall] = {}


class Spans:
    """A listener that makes spans."""

    def __init__(self, tracer: Tracer, content: Content) -> None:
        self._tracer, self._content = tracer, content
        self._guard = threading.Lock()
        self._opened: dict[_Key, _Opened] = {}
        self._entered: dict[_Key, list[Entered]] = {}
        """The code of runs that runs now. It may return after the run was released."""

    def __call__(self, event: events.Event) -> None:
        how = _BY_EVENT.get(type(event))
        if how is not None:
            how(self, event)

    # Runs

    def opening(self, event: events.RunOpening) -> None:
        caused, links = contexts.read(event.caused_by), []
        parent = None
        if caused is not None:
            inside = trace.get_current_span().get_span_context().is_valid
            if event.epoch == 1 and not inside:
                # The first opening continues the trace of what enqueued the run.
                parent = caused
            else:
                why = "the opening before" if event.epoch > 1 else "enqueued"
                links = [Link(contexts.span_context_in(caused), {names.LINK: why})]
        name, attributes = _named(event)
        span = self._tracer.start_span(name, context=parent, links=links, attributes=attributes)
        contexts.write(span, event.carrier)
        with self._guard:
            before = self._opened.get(_key(event))
            self._opened[_key(event)] = _Opened(span)
        if before is not None:
            _close(before, {names.STATUS: "lost"})

    def began(self, event: events.RunBegan) -> None:
        opened = self._opened.get(_key(event))
        if opened is not None:
            entered = Entered(opened.span)
            with self._guard:
                self._entered.setdefault(_key(event), []).append(entered)

    def returned(self, event: events.RunReturned) -> None:
        with self._guard:
            stack = self._entered.get(_key(event), [])
            _leave_one(stack)
            if not stack:
                self._entered.pop(_key(event), None)

    def left(self, event: events.RunLeft) -> None:
        opened = self._take(event)
        if opened is None:
            return
        found: dict[str, Any] = {names.STATUS: event.status, names.RECEIPTS: event.receipts}
        if event.tokens_saved:
            found[names.TOKENS_SAVED] = event.tokens_saved
        if event.usd_saved:
            found[names.USD_SAVED] = event.usd_saved
        if event.error_type is not None:
            found[names.ERROR] = event.error_type
            opened.span.set_status(Status(StatusCode.ERROR))
        _close(opened, found)

    def lost(self, event: events.RunLost) -> None:
        opened = self._take(event)
        if opened is not None:
            _close(opened, {names.STATUS: "lost"})

    def _take(self, event: events.Event) -> _Opened | None:
        with self._guard:
            return self._opened.pop(_key(event), None)

    # Steps

    def step_began(self, event: events.StepBegan) -> None:
        opened = self._opened.get(_key(event))
        if opened is None:
            return
        attributes: dict[str, Any] = {
            names.RUN: event.run_id,
            names.STEP: event.step,
            names.VISIT: event.visit,
            names.RESUMED: event.resumed,
        }
        # The name has no numbers of branches: there may be thousands.
        name = f"step {event.step.split('[')[0]}"
        span = self._tracer.start_span(name, context=_parent(opened), attributes=attributes)
        entered = Entered(span)
        with self._guard:
            opened.steps.setdefault((event.step, event.visit), []).append(entered)

    def step_returned(self, event: events.StepReturned) -> None:
        opened = self._opened.get(_key(event))
        if opened is None:
            return
        with self._guard:
            entered = _leave_one(opened.steps.get((event.step, event.visit), []))
        if entered is None:
            return
        entered.span.set_attribute(names.OUTCOME, event.outcome)
        if event.error_type is not None:
            entered.span.set_attribute(names.ERROR, event.error_type)
            entered.span.set_status(Status(StatusCode.ERROR))
        entered.span.end()

    # Calls

    def attempt_began(self, event: events.AttemptBegan) -> None:
        opened = self._opened.get(_key(event))
        if opened is None:
            return
        mine = current_attempt.get()
        call = begin_call(self._tracer, event, mine, self._content, _parent(opened))
        with self._guard:
            opened.calls[event.call_id, event.attempt] = call

    def attempt_returned(self, event: events.AttemptReturned) -> None:
        opened = self._opened.get(_key(event))
        call = None if opened is None else opened.calls.get((event.call_id, event.attempt))
        if call is not None:
            call.returned()

    def attempt_ended(self, event: events.AttemptEnded) -> None:
        opened = self._opened.get(_key(event))
        if opened is None:
            return
        with self._guard:
            call = opened.calls.pop((event.call_id, event.attempt), None)
        if call is not None:
            call.ended(event, self._content)

    def call_ended(self, event: events.CallEnded) -> None:
        opened = self._opened.get(_key(event))
        if event.replayed:
            _tell_of_receipt(event, opened)
        if opened is None:
            return
        with self._guard:
            unended = [key for key in opened.calls if key[0] == event.call_id]
            calls = [opened.calls.pop(key) for key in unended]
        for call in calls:
            # Its outcome could not be recorded, or it is still running.
            call.unrecorded()

    # What else happens in a run

    def taken(self, event: events.EventTaken) -> None:
        caused = contexts.read(event.caused_by)
        if caused is not None:
            about = {names.LINK: "an event"}
            _current_or(self._opened.get(_key(event))).add_link(
                contexts.span_context_in(caused), about
            )

    def review_opened(self, event: events.ReviewOpened) -> None:
        about = {
            names.REVIEW: event.review_id,
            names.REVIEW_KIND: event.kind,
            names.TOOL: event.tool,
        }
        _current_or(self._opened.get(_key(event))).add_event(names.REVIEW_EVENT, about)

    def doubt_ended(self, event: events.DoubtEnded) -> None:
        about = {names.TOOL: event.tool, names.CALL: event.call_id, names.SETTLED_BY: event.by}
        _current_or(self._opened.get(_key(event))).add_event(names.DOUBT_EVENT, about)


_BY_EVENT: dict[type[events.Event], Callable[[Spans, Any], None]] = {
    events.RunOpening: Spans.opening,
    events.RunBegan: Spans.began,
    events.RunReturned: Spans.returned,
    events.RunLeft: Spans.left,
    events.RunLost: Spans.lost,
    events.StepBegan: Spans.step_began,
    events.StepReturned: Spans.step_returned,
    events.AttemptBegan: Spans.attempt_began,
    events.AttemptReturned: Spans.attempt_returned,
    events.AttemptEnded: Spans.attempt_ended,
    events.CallEnded: Spans.call_ended,
    events.EventTaken: Spans.taken,
    events.ReviewOpened: Spans.review_opened,
    events.DoubtEnded: Spans.doubt_ended,
}

TRACED = tuple(_BY_EVENT)
"""The kinds of events that spans are made of."""


def _key(event: events.Event) -> _Key:
    return event.ledger, event.run_id


def _named(event: events.RunOpening) -> tuple[str, dict[str, Any]]:
    """The name and the attributes of the span of an opening."""
    found: dict[str, Any] = {names.RUN: event.run_id, names.EPOCH: event.epoch}
    if event.graph is None:
        return "nottwice.run", found
    name = event.graph.rpartition("@")[0]
    operation, word = names.INVOKE_WORKFLOW, names.WORKFLOW
    if event.is_agent:
        operation, word = names.INVOKE_AGENT, names.AGENT
    found |= {names.OPERATION: operation, word: name, names.GRAPH: event.graph}
    return f"{operation} {name}", found


def _parent(opened: _Opened) -> Any:
    """The context of a new span: what is current, or the opening if nothing is."""
    if trace.get_current_span().get_span_context().is_valid:
        return None
    return trace.set_span_in_context(opened.span)


def _current_or(opened: _Opened | None) -> Span:
    current = trace.get_current_span()
    return current if opened is None or current.is_recording() else opened.span


def _tell_of_receipt(event: events.CallEnded, opened: _Opened | None) -> None:
    about: dict[str, Any] = {
        names.TOOL: event.tool,
        names.CALL: event.call_id,
        names.REPLAY_CLASS: event.replay_class,
        names.OUTCOME: event.outcome,
        names.DUPLICATE: is_duplicate_prevented(event),
    }
    if event.settled_by is not None:
        # Without the name of the person, who is in the audit trail.
        about[names.SETTLED_BY] = event.settled_by.split(" by ")[0]
    _current_or(opened).add_event(names.RECEIPT_EVENT, about)
    theirs = framework_span(event.tool, event.call_id)
    if theirs is not None:
        theirs.set_attributes({**about, names.REPLAYED: True})


def _leave_one(stack: list[Entered]) -> Entered | None:
    """Leave the newest of these that is current here."""
    for entered in reversed(stack):
        if entered.leave():
            stack.remove(entered)
            return entered
    return stack.pop() if stack else None


def _close(opened: _Opened, attributes: dict[str, Any]) -> None:
    """End the span of an opening, and what was left open in it."""
    for call in list(opened.calls.values()):
        call.unrecorded()
    for stack in list(opened.steps.values()):
        for entered in stack:
            entered.span.end()
    opened.span.set_attributes(attributes)
    opened.span.end()
