"""Do the traces of a run that was killed and resumed belong together? (P340)

The program traces with OpenTelemetry's own SDK and sends with its own exporter. The collector is a
server of ours, which reads what was sent with OpenTelemetry's own definitions.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nottwice as nt
from tests.otel.collector import Collector, collecting
from tests.postgres import server

PROGRAM = """
import os, signal, sys
from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
import nottwice as nt

tracers = TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(tracers)
meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
metrics.set_meter_provider(meters)

@nt.tool("unsafe_on_replay", name="trace_mail", verify=lambda call: nt.happened("mailed bob"))
def mail(to: str) -> str:
    if to == sys.argv[2]:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"mailed {to}"

nt.otel.instrument(sys.argv[1])
with nt.run("r", store=sys.argv[1], acquire_timeout="30s"), nt.step("tell"):
    for to in ("ann", "bob", "cy"):
        mail(to=to)
tracers.shutdown()
meters.shutdown()
"""


@pytest.fixture(params=["sqlite", "files", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return server.ledger_url(tmp_path, lease_seconds=1)
    return str(tmp_path / "a.db") if request.param == "sqlite" else f"file:{tmp_path / 'runs'}"


def start(program: Path, place: str, killed_at: str, collector: Collector) -> int:
    told = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.address}
    done = subprocess.run([sys.executable, program, place, killed_at], env=told, check=False)
    return done.returncode


def test_the_opening_after_a_kill_links_to_the_one_that_was_killed(
    place: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with collecting() as collector:
        assert start(program, place, "bob", collector) == -signal.SIGKILL
        # The span of the opening is lost with its process. What it had finished has arrived.
        (mailed,) = collector.named("execute_tool trace_mail")
        assert collector.named("nottwice.run") == []
        assert start(program, place, "", collector) == 0
        (resumed,) = collector.named("nottwice.run")
        assert [link.trace_id for link in resumed.links] == [mailed.trace_id]
        with nt.Ledger(place) as ledger:
            openings = ledger.run_record("r").openings
        assert openings is not None
        traces = [one.trace_id for one in openings]
        assert traces == [mailed.trace_id.hex(), resumed.trace_id.hex()]
        # The second call was verified, and the first one is a receipt: neither was made again.
        live = collector.named("execute_tool trace_mail")
        assert len(live) == 2
        (step,) = collector.named("step tell")
        assert [event.name for event in step.events] == ["nottwice.receipt"] * 2
        assert "nottwice.doubt_ended" in [event.name for event in resumed.events]
        names = {one.name for one in collector.metrics}
        assert {"nottwice.duplicates.prevented", "nottwice.doubts.settled"} <= names
