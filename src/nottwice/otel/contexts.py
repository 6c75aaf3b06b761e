"""How does code run inside of a span, and how is a trace context read from the record?

A span is made current where the code of the user begins, and what was current before it where the
code returns. Both happen in one thread or task, but an async generator may be closed in another
one. So nothing is changed back in a context that is not the one of the span.
"""

from __future__ import annotations

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanContext
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_W3C = TraceContextTextMapPropagator()
_CARRIED = "traceparent"


class Entered:
    """A span that is current for the code that runs now."""

    __slots__ = ("_before", "_mine", "span")

    def __init__(self, span: Span) -> None:
        self.span = span
        self._before = context.get_current()
        self._mine = trace.set_span_in_context(span, self._before)
        context.attach(self._mine)

    def leave(self) -> bool:
        """Make current again what was current before. False: this is another context."""
        if context.get_current() is not self._mine:
            return False
        context.attach(self._before)
        return True


def read(traceparent: str | None) -> Context | None:
    """Return the context that a stored ``traceparent`` names. None: it names none."""
    if traceparent is None:
        return None
    found = _W3C.extract({_CARRIED: traceparent}, context=Context())
    return found if span_context_in(found).is_valid else None


def write(span: Span, carrier: dict[str, str]) -> None:
    """Write the context of a span as it is stored. A span that is not sampled counts, too."""
    _W3C.inject(carrier, context=trace.set_span_in_context(span, Context()))


def span_context_in(found: Context) -> SpanContext:
    return trace.get_current_span(found).get_span_context()
