"""Is the trace of this code known exactly if the process traces?"""

from __future__ import annotations

import subprocess
import sys

from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, use_span

from nottwice.engine.traces import trace_id, traceparent

CONTEXT = SpanContext(0x4BF92F35, 0xF067AA, is_remote=False, trace_flags=TraceFlags(1))


def test_the_current_span_is_written_as_w3c_writes_it() -> None:
    assert (trace_id(), traceparent()) == (None, None)
    with use_span(NonRecordingSpan(CONTEXT)):
        assert trace_id() == "4bf92f35".rjust(32, "0")
        assert traceparent() == f"00-{'4bf92f35'.rjust(32, '0')}-{'f067aa'.rjust(16, '0')}-01"


def test_a_process_that_does_not_trace_does_not_import_opentelemetry() -> None:
    program = (
        "import sys; from nottwice.engine.traces import traceparent; print(traceparent());"
        "import nottwice as nt; nt.Ledger(':memory:').close();"
        "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["None", "False"]
