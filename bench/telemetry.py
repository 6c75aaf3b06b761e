"""What does telemetry add to a call?

The same calls are made without a listener, with figures for Prometheus, with OpenTelemetry's API
alone, and with its SDK, which batches spans and sends them nowhere. A ledger on disk commits twice
for a call, so its time depends on the disk; the ledger in memory shows the work alone. Subjects
take turns in short slices, round by round, and the fastest round of each counts, because other load
on the machine can only add to it. What is added is CPU time of the whole process, with the thread
that exports, as a share of the time that a call takes without telemetry.

"the SDK alone" makes the same span and records the same values by hand, around a call that nottwice
does not report. No instrumentation can add less, so the rest is what nottwice itself adds.

    python bench/telemetry.py [--rounds 9] [--calls 300] [--folder DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import nottwice as nt

GOAL_PERCENT = 5.0
Stop = Callable[[], None]
Tool = Callable[[int], Any]
FLOOR, ALL = "the SDK alone", "SDK, spans and metrics"


@nt.tool("unsafe_on_replay", name="bench_telemetry_send")
def send(number: int) -> dict[str, str]:
    """An effect that returns immediately: whatever is added shows."""
    return {"receipt": "x" * 480}


@nt.tool("unsafe_on_replay", name="bench_telemetry_slow_send")
def send_slowly(number: int) -> dict[str, str]:
    """An effect of 20 milliseconds, which is a fast request over a network."""
    time.sleep(0.02)
    return {"receipt": "x" * 480}


class Nowhere(SpanExporter):
    """Takes spans and keeps none."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def off(ledger: nt.Ledger) -> Stop:
    return lambda: None


def figures(ledger: nt.Ledger) -> Stop:
    return nt.metrics.count(ledger).stop


def with_api_alone(ledger: nt.Ledger) -> Stop:
    return nt.otel.instrument(ledger)


def with_sdk(*, spans: bool, metrics: bool) -> Callable[[nt.Ledger], Stop]:
    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    tracers.add_span_processor(BatchSpanProcessor(Nowhere()))

    def start(ledger: nt.Ledger) -> Stop:
        return nt.otel.instrument(
            ledger, spans=spans, metrics=metrics, tracer_provider=tracers, meter_provider=meters
        )

    return start


def by_hand() -> Callable[[Tool], Tool]:
    """What the SDK costs: the span and the values of one call, without nottwice's listener."""
    tracers, meters = TracerProvider(), MeterProvider([InMemoryMetricReader()])
    tracers.add_span_processor(BatchSpanProcessor(Nowhere()))
    tracer, meter = tracers.get_tracer("bench"), meters.get_meter("bench")
    calls = meter.create_counter("calls")
    took, committed = meter.create_histogram("call"), meter.create_histogram("commit")
    labels = {"tool": "send", "class": "unsafe_on_replay", "outcome": "done"}
    said = {
        "nottwice.run_id": "run-1",
        "nottwice.step": "/",
        "nottwice.call_id": "0" * 32,
        "nottwice.attempt": 1,
        "nottwice.replay_class": "unsafe_on_replay",
        "nottwice.replayed": False,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "send",
        "gen_ai.tool.type": "function",
    }

    def around(tool: Tool) -> Tool:
        def called(number: int) -> Any:
            with tracer.start_as_current_span("execute_tool send", attributes=said) as span:
                result = tool(number)
                span.set_attribute("nottwice.outcome", "done")
                # Inside of a span, as in a run that is traced: the SDK then keeps exemplars.
                calls.add(1, {**labels, "replayed": False})
                took.record(0.001, labels)
                committed.record(0.001, {})
                committed.record(0.001, {})
            return result

        return called

    return around


WAYS: dict[str, Callable[[nt.Ledger], Stop]] = {
    "off": off,
    "off again": off,
    "Prometheus figures": figures,
    "OpenTelemetry, no SDK": with_api_alone,
    "SDK, metrics": with_sdk(spans=False, metrics=True),
    "SDK, spans": with_sdk(spans=True, metrics=False),
    ALL: with_sdk(spans=True, metrics=True),
    FLOOR: off,
}
AROUND: dict[str, Callable[[Tool], Tool]] = {FLOOR: by_hand()}


def measure(
    make_ledger: Callable[[str], nt.Ledger], tool: Tool, *, rounds: int, calls: int
) -> dict[str, list[tuple[float, float]]]:
    """Return the microseconds of a call and those of the CPU, for each way in each round."""
    ledgers = {name: make_ledger(name) for name in WAYS}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in WAYS}
    number = 0
    for turn in range(rounds + 1):
        # Each round begins with another one, so that none is always the first.
        names = list(WAYS)
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            stop = WAYS[name](ledgers[name])
            made = AROUND[name](tool) if name in AROUND else tool
            with ledgers[name].run(f"run-{turn}"):
                began, worked = time.perf_counter(), time.process_time()
                for _ in range(calls):
                    number += 1
                    made(number)
                took = time.perf_counter() - began
                worked = time.process_time() - worked
            stop()
            if turn:
                found[name].append((took / calls * 1e6, worked / calls * 1e6))
    for ledger in ledgers.values():
        ledger.close()
    return found


def summed_up(found: dict[str, list[tuple[float, float]]]) -> list[dict[str, Any]]:
    best = {
        name: (min(wall for wall, _ in times), min(cpu for _, cpu in times))
        for name, times in found.items()
    }
    wall_off, cpu_off = best["off"]
    return [
        {
            "way": name,
            "microseconds": round(wall, 1),
            "cpu_microseconds": round(cpu, 1),
            "added_cpu_microseconds": round(cpu - cpu_off, 1),
            "added_percent": round(100 * (cpu - cpu_off) / wall_off, 1),
        }
        for name, (wall, cpu) in best.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=wanted.folder) as folder:
        place = Path(folder)

        def on_disk(name: str) -> nt.Ledger:
            return nt.Ledger(place / f"{name}.db")

        scenes = {
            "a call in memory, an instant tool": measure(
                lambda name: nt.Ledger(":memory:"), send, rounds=wanted.rounds, calls=wanted.calls
            ),
            "a call on SQLite, an instant tool": measure(
                on_disk, send, rounds=wanted.rounds, calls=wanted.calls
            ),
            "a call on SQLite, a tool of 20 ms": measure(
                lambda name: nt.Ledger(place / f"{name} slow.db"),
                send_slowly,
                rounds=wanted.rounds,
                calls=max(1, wanted.calls // 20),
            ),
        }
    results = {scene: summed_up(found) for scene, found in scenes.items()}
    if wanted.json:
        print(json.dumps(results, indent=2))
        return
    for scene, rows in results.items():
        print(f"{scene}:")
        for row in rows:
            print(
                f"  {row['way']:<24} {row['microseconds']:>9.1f} µs"
                f"  {row['added_cpu_microseconds']:>+7.1f} µs CPU  {row['added_percent']:>+6.1f} %"
            )
        added = {row["way"]: row["added_cpu_microseconds"] for row in rows}
        print(f"  of {ALL}, nottwice itself: {added[ALL] - added[FLOOR]:+.1f} µs CPU")
    print(f"Goal: off adds nothing; on, at most {GOAL_PERCENT:g} % of a call.")


if __name__ == "__main__":
    main()
