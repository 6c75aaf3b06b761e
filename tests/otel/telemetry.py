"""OpenTelemetry's own SDK, which keeps what it gets in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import nottwice as nt

Labels = tuple[tuple[str, Any], ...]


class Telemetry:
    """A tracer and a meter, and what they were told."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._memory))
        self.meters = MeterProvider([self._reader])
        self.tracer = self.tracers.get_tracer("the user's own")
        self._stops: list[Callable[[], None]] = []

    def instrument(self, ledger: Any, **options: Any) -> Callable[[], None]:
        stop = nt.otel.instrument(
            ledger, tracer_provider=self.tracers, meter_provider=self.meters, **options
        )
        self._stops.append(stop)
        return stop

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        """The spans that have ended, in this order; ``name``: only those."""
        found = self._memory.get_finished_spans()
        return [one for one in found if name is None or one.name == name]

    def span(self, name: str) -> ReadableSpan:
        (found,) = self.spans(name)
        return found

    def metrics(self) -> dict[str, dict[Labels, Any]]:
        """Every metric by its name, and in it the value for each combination of labels."""
        data = self._reader.get_metrics_data()
        found: dict[str, dict[Labels, Any]] = {}
        for resource in () if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points: Iterable[Any] = metric.data.data_points
                    found[metric.name] = {
                        tuple(sorted((point.attributes or {}).items())): getattr(
                            point, "value", None
                        )
                        if hasattr(point, "value")
                        else point.count
                        for point in points
                    }
        return found

    def close(self) -> None:
        for stop in self._stops:
            stop()
        self.tracers.shutdown()
        self.meters.shutdown()


def tree(spans: Iterable[ReadableSpan]) -> list[tuple[str, str | None]]:
    """The name of every span and of its parent, sorted."""
    found = list(spans)
    names = {one.context.span_id: one.name for one in found if one.context is not None}
    return sorted(
        (one.name, None if one.parent is None else names.get(one.parent.span_id, "?"))
        for one in found
    )


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})
