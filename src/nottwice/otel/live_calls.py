"""The span of one attempt to run a tool: our own, or the one that a framework has made for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Span, Status, StatusCode, Tracer

from nottwice.agent.requests.asking import MODEL
from nottwice.engine import events
from nottwice.engine.calls.in_flight import InFlight
from nottwice.otel import names
from nottwice.otel.content import Content, model_of, usage_of
from nottwice.otel.contexts import Entered


class LiveCall:
    """An attempt that runs now, or whose outcome is being recorded."""

    __slots__ = ("_entered", "_is_model", "_mine", "_span")

    def __init__(
        self, span: Span, entered: Entered | None, mine: InFlight | None, *, is_model: bool
    ) -> None:
        """``entered``: None means that the span is a framework's, which ends it."""
        self._span, self._entered, self._mine = span, entered, mine
        self._is_model = is_model

    def returned(self) -> None:
        """The body has returned, here."""
        if self._entered is not None:
            self._entered.leave()

    def ended(self, event: events.AttemptEnded, content: Content) -> None:
        """The outcome is on record."""
        found: dict[str, Any] = {names.OUTCOME: event.outcome, **content.after(self._mine)}
        if self._is_model:
            found |= usage_of(self._mine)
        if event.error is not None:
            found[names.ERROR] = event.error.partition(":")[0]
        if event.outcome != "done":
            said = event.error if content.errors else None
            self._span.set_status(Status(StatusCode.ERROR, said or event.outcome))
        self._finish(found)

    def unrecorded(self) -> None:
        """No outcome is on record, so the call is in doubt if it has effects."""
        self._finish({names.OUTCOME: "not recorded"})

    def _finish(self, attributes: dict[str, Any]) -> None:
        self._span.set_attributes(attributes)
        if self._entered is not None:
            self._span.end()


def begin_call(
    tracer: Tracer,
    event: events.AttemptBegan,
    mine: InFlight | None,
    content: Content,
    parent: Any,
) -> LiveCall:
    """Begin the span of an attempt, where its body is about to run."""
    row = None if mine is None else mine.row
    is_model = event.tool == MODEL
    found: dict[str, Any] = {
        names.RUN: event.run_id,
        names.STEP: event.step,
        names.CALL: event.call_id,
        names.ATTEMPT: event.attempt,
        names.REPLAY_CLASS: event.replay_class,
        names.REPLAYED: False,
    }
    if row is not None:
        found |= content.before(row)
    theirs = framework_span(event.tool, event.call_id)
    if theirs is not None:
        theirs.set_attributes(found)
        return LiveCall(theirs, None, mine, is_model=is_model)
    model = model_of(row) if is_model and row is not None else None
    if is_model:
        name, found[names.OPERATION] = f"{names.CHAT} {model or 'model'}", names.CHAT
        if model is not None:
            found[names.REQUEST_MODEL] = model
    else:
        name, found[names.OPERATION] = f"{names.EXECUTE_TOOL} {event.tool}", names.EXECUTE_TOOL
        found |= {names.TOOL: event.tool, names.TOOL_TYPE: "function"}
    span = tracer.start_span(name, context=parent, attributes=found)
    return LiveCall(span, Entered(span), mine, is_model=is_model)


def framework_span(tool: str, call_id: str) -> Span | None:
    """Return the current span if a framework has made it for this very call.

    Only an SDK's spans can be read. A span that already belongs to another call is around it.
    """
    span = trace.get_current_span()
    if not span.is_recording():
        return None
    attributes = getattr(span, "attributes", None)
    if not isinstance(attributes, Mapping):
        return None
    if attributes.get(names.CALL, call_id) != call_id:
        return None
    name = str(getattr(span, "name", ""))
    operation = attributes.get(names.OPERATION, name.partition(" ")[0])
    if tool == MODEL:
        return span if operation == names.CHAT else None
    named = attributes.get(names.TOOL, name.partition(" ")[2])
    return span if named == tool and _is_about_a_tool(operation, attributes) else None


def _is_about_a_tool(operation: Any, attributes: Mapping[str, Any]) -> bool:
    # Older versions of some frameworks name the tool and not the operation.
    return operation == names.EXECUTE_TOOL or names.TOOL in attributes
