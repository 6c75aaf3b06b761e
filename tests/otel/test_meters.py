"""Does OpenTelemetry get the same metrics as Prometheus, under the same names? (P341, P342)"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, CollectorRegistry, generate_latest

import nottwice as nt
from nottwice.metrics.declared import ALL, OF_LEDGER, prometheus_label
from tests.otel.telemetry import Telemetry


@nt.tool("unsafe_on_replay", name="meter_mail")
def mail(to: str) -> str:
    return f"mailed {to}"


@nt.tool("unsafe_on_replay", name="meter_lost")
def lost(to: str) -> str:
    raise OSError("the connection broke")


def work(ledger: nt.Ledger) -> None:
    for _ in range(2):
        with ledger.run("r"):
            mail("ann")
    with pytest.raises(nt.RunBlocked), ledger.run("q"):
        lost("ann")


def test_calls_duplicates_and_doubts_are_counted(ledger: nt.Ledger, telemetry: Telemetry) -> None:
    work(ledger)
    found = telemetry.metrics()
    tool = ("gen_ai.tool.name", "meter_mail")
    kind = ("nottwice.replay_class", "unsafe_on_replay")
    done = ("nottwice.outcome", "done")
    assert found["nottwice.calls"][tool, done, kind, ("nottwice.replayed", False)] == 1
    assert found["nottwice.calls"][tool, done, kind, ("nottwice.replayed", True)] == 1
    assert found["nottwice.duplicates.prevented"] == {(tool,): 1}
    assert found["nottwice.doubts.opened"] == {(("gen_ai.tool.name", "meter_lost"),): 1}
    assert found["nottwice.call.duration"][tool, done, kind] == 1
    assert found["nottwice.commit.duration"][()] > 4


def test_a_run_id_is_never_a_label(ledger: nt.Ledger, telemetry: Telemetry) -> None:
    telemetry.instrument(ledger, spans=False, metrics=False, gauges=True)
    work(ledger)
    labels = {name for points in telemetry.metrics().values() for key in points for name, _ in key}
    assert labels <= {label for one in ALL for label in one.labels}
    assert not any("run_id" in label for label in labels)


def test_gauges_are_reported_only_if_asked_for_and_until_they_are_stopped(
    ledger: nt.Ledger, telemetry: Telemetry
) -> None:
    names = {one.name for one in OF_LEDGER}
    work(ledger)
    assert not names & telemetry.metrics().keys()
    stop = telemetry.instrument(ledger, spans=False, metrics=False, gauges=True)
    found = telemetry.metrics()
    assert names <= found.keys()
    assert found["nottwice.reviews.open"][(("nottwice.review.kind", "in doubt"),)] == 1
    assert found["nottwice.runs"][(("nottwice.run.state", "completed"),)] == 1
    stop()
    assert not names & telemetry.metrics().keys()


def test_names_are_those_that_opentelemetry_itself_gives_prometheus(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    reader: Any = PrometheusMetricReader(disable_target_info=True)
    REGISTRY.unregister(reader._collector)
    registry.register(reader._collector)
    meters = MeterProvider([reader])
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        stop = nt.otel.instrument(ledger, meter_provider=meters, spans=False, gauges=True)
        ours = nt.metrics.count(ledger, gauges=True)
        work(ledger)
        theirs = generate_latest(registry).decode()
        mine = ours.text()
        stop()
        ours.stop()
    # It takes itself out of the registry that it has put itself into.
    REGISTRY.register(reader._collector)
    meters.shutdown()

    def series(text: str) -> set[str]:
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        return {line.rpartition(" ")[0].partition("{")[0] for line in lines}

    def labels(text: str) -> set[str]:
        return {word for one in ALL for word in map(prometheus_label, one.labels) if word in text}

    assert series(mine) == series(theirs)
    assert labels(mine) == labels(theirs)
