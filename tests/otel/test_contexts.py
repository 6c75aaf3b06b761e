"""Is a span current exactly for the code inside of it, and is a stored context read with care?"""

from __future__ import annotations

import contextvars

import pytest
from opentelemetry import context, trace

from nottwice.otel.contexts import Entered, read, span_context_in, write
from tests.otel.telemetry import Telemetry

WRITTEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_what_was_current_before_is_current_again(telemetry: Telemetry) -> None:
    before = context.get_current()
    span = telemetry.tracer.start_span("a")
    entered = Entered(span)
    assert trace.get_current_span() is span
    assert entered.leave()
    assert context.get_current() is before


def test_another_context_is_left_as_it_is(telemetry: Telemetry) -> None:
    entered = contextvars.copy_context().run(Entered, telemetry.tracer.start_span("a"))
    with telemetry.tracer.start_as_current_span("mine") as mine:
        assert not entered.leave()
        assert trace.get_current_span() is mine


def test_a_stored_context_is_read_as_it_was_written(telemetry: Telemetry) -> None:
    span, carrier = telemetry.tracer.start_span("a"), dict[str, str]()
    write(span, carrier)
    found = read(carrier["traceparent"])
    assert found is not None
    assert span_context_in(found).span_id == span.get_span_context().span_id
    assert read(WRITTEN) is not None


@pytest.mark.parametrize("text", [None, "", "rubbish", "00-0-0-00", WRITTEN.replace("4b", "zz")])
def test_what_is_no_context_is_none(text: str | None) -> None:
    assert read(text) is None
