"""Is OpenTelemetry switched on and off, and does one that fails harm nothing? (P346)"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

import nottwice as nt
from tests.otel.telemetry import Telemetry


@nt.tool("unsafe_on_replay", name="instrumented_mail")
def mail(to: str) -> str:
    return f"mailed {to}"


class Broken(SpanExporter):
    """An exporter that always fails."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError("no collector")


def test_an_exporter_that_fails_harms_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(Broken()))
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        stop = nt.otel.instrument(ledger, tracer_provider=tracers)
        for _ in range(2):
            with ledger.run("r"):
                assert mail("ann") == "mailed ann"
        stop()
        assert ledger.run_record("r").status == "completed"
        assert len(list(ledger.calls("r"))) == 1
    tracers.shutdown()


def test_a_tracer_that_fails_harms_nothing(
    ledger: nt.Ledger, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no span")

    tracers = TracerProvider()
    tracer = tracers.get_tracer("broken")
    monkeypatch.setattr(type(tracer), "start_span", refuse)
    with caplog.at_level(logging.CRITICAL, logger="nottwice"):
        with ledger.run("r"), nt.step("s"):
            assert mail("ann") == "mailed ann"
    assert ledger.run_record("r").status == "completed"


def test_without_an_sdk_nothing_is_reported_and_nothing_fails(tmp_path: Path) -> None:
    program = (
        "import nottwice as nt\n"
        "@nt.tool('unsafe_on_replay')\n"
        "def mail(to: str) -> str:\n"
        "    return to\n"
        "stop = nt.otel.instrument()\n"
        "with nt.run('r', store='agent.db'):\n"
        "    print(mail('ann'))\n"
        "stop()\n"
        "with nt.Ledger('agent.db') as ledger:\n"
        "    print(ledger.run_record('r').openings[0].trace_id)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["ann", "None"]
    assert done.stderr == ""


def test_all_ledgers_of_a_process_are_reported_if_none_is_named(
    tmp_path: Path, telemetry: Telemetry
) -> None:
    telemetry.instrument(None)
    for name in ("a", "b"):
        with nt.run(name, store=tmp_path / f"{name}.db"):
            mail("ann")
    assert len(telemetry.spans("nottwice.run")) == 2


@pytest.mark.parametrize("first_is_for_all", [False, True])
@pytest.mark.parametrize("second_is_for_all", [False, True])
def test_the_same_is_not_reported_twice(
    first_is_for_all: bool, second_is_for_all: bool, ledger: nt.Ledger
) -> None:
    spans: dict[str, Any] = {"tracer_provider": TracerProvider(), "metrics": False}
    named = [None if is_for_all else ledger for is_for_all in (first_is_for_all, second_is_for_all)]
    stop = nt.otel.instrument(named[0], **spans)
    with pytest.raises(nt.errors.UsageError, match="already reports the spans"):
        nt.otel.instrument(named[1], **spans)
    others = [
        nt.otel.instrument(named[1], tracer_provider=TracerProvider(), metrics=False),
        nt.otel.instrument(named[1], spans=False, meter_provider=MeterProvider()),
    ]
    stop()
    others.append(nt.otel.instrument(named[1], **spans))
    for end in others:
        end()


def test_spans_and_metrics_can_be_left_out(tmp_path: Path, telemetry: Telemetry) -> None:
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        telemetry.instrument(ledger, spans=False)
        with ledger.run("r"):
            mail("ann")
        assert telemetry.spans() == []
        assert "nottwice.calls" in telemetry.metrics()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"gauges": True}, "no ledger is named"),
        ({"content": ["everything"]}, "arguments, results, keys, errors"),
        ({"content": "arguments"}, "Give a list"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(nt.errors.UsageError, match=said):
        nt.otel.instrument(**options)
