"""Which trace does this code belong to, if the process traces at all? (O3)

nottwice does not import OpenTelemetry for this: code that traces has imported it already.
"""

from __future__ import annotations

import sys
from typing import Any


def trace_id() -> str | None:
    """Return the trace that this code belongs to."""
    context = _span_context()
    return None if context is None else f"{context.trace_id:032x}"


def traceparent() -> str | None:
    """Return the current span as W3C writes a trace context, to be stored with what it causes."""
    context = _span_context()
    if context is None:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags & 1:02x}"


def _span_context() -> Any:
    tracing = sys.modules.get("opentelemetry.trace")
    if tracing is None:
        return None
    context = tracing.get_current_span().get_span_context()
    return context if context.is_valid else None
