"""How is OpenTelemetry switched on? ``nottwice.otel.instrument(ledger)``.

Spans and metrics are listeners, and a listener that fails is only logged. Promise kept here: P346.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence

from opentelemetry import metrics, trace

from nottwice.engine.events import Event, Listener, listen
from nottwice.errors import UsageError
from nottwice.guard.ledger import AnyStore, Ledger, ledger_of
from nottwice.metrics.measuring import MEASURED
from nottwice.model.data.records import frozen_record
from nottwice.otel.content import KINDS, Content
from nottwice.otel.meters import Meters, observe
from nottwice.otel.spans import TRACED, Spans
from nottwice.store.interface import Store

SCOPE = "nottwice"


@frozen_record(frozen=True, slots=True, eq=False)
class _Reporting:
    """What one call of ``instrument`` reports."""

    what: str
    store: Store | None
    """The ledger's store; None: all ledgers of this process."""
    provider: object

    def doubles(self, other: _Reporting) -> bool:
        """Whether both would report the same to the same provider."""
        same_store = self.store is other.store or None in (self.store, other.store)
        return same_store and self.what == other.what and self.provider is other.provider


_under_way: list[_Reporting] = []
_guard = threading.Lock()


def instrument(
    ledger: AnyStore = None,
    *,
    spans: bool = True,
    metrics: bool = True,
    gauges: bool = False,
    content: Collection[str] = (),
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Callable[[], None]:
    """Report what this process does to OpenTelemetry from now on, and return what ends it.

    ``ledger``: one ledger, an app or a path; None: all ledgers of this process. ``gauges``: also
    report how that ledger is, its open reviews and its runs; let exactly one process do it.
    ``content``: what spans also show of a call: ``"arguments"``, ``"results"``, ``"keys"`` and
    ``"errors"`` (their messages). None of it is shown otherwise, and secrets never are. Providers:
    None means those that are set globally. Raises UsageError if the same is already reported to the
    same provider.
    """
    wanted = _read_content(content)
    one = None if ledger is None else ledger_of(ledger, create=True)
    if gauges and one is None:
        raise UsageError(
            "gauges=True reports the state of a ledger, and no ledger is named. Nothing was "
            "changed. Name it: nottwice.otel.instrument(ledger, gauges=True)"
        )
    asked = (
        ("spans", spans, tracer_provider),
        ("metrics", metrics, meter_provider),
        ("gauges", gauges, meter_provider),
    )
    store = None if one is None else one.store
    mine = [_Reporting(what, store, provider) for what, is_on, provider in asked if is_on]
    _begin(mine)
    ends: list[Callable[[], None]] = [lambda: _end(mine)]
    if spans:
        tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
        ends.append(_listen(Spans(tracer, wanted), one, TRACED))
    if metrics or gauges:
        meter = _meter(meter_provider)
        if metrics:
            ends.append(_listen(Meters(meter), one, MEASURED))
        if gauges and one is not None:
            ends.append(observe(meter, one))

    def stop() -> None:
        for end in ends:
            end()

    return stop


def _begin(mine: Sequence[_Reporting]) -> None:
    """Note what is reported from now on. Every span would be there twice if it were again."""
    with _guard:
        again = {new.what for new in mine for old in _under_way if new.doubles(old)}
        if again:
            raise UsageError(
                f"instrument already reports the {' and '.join(sorted(again))} of this ledger or "
                "of all ledgers, and each would be counted twice. Nothing was changed. Call it "
                "once, or first call what it returned."
            )
        _under_way.extend(mine)


def _end(mine: Sequence[_Reporting]) -> None:
    with _guard:
        _under_way[:] = [one for one in _under_way if one not in mine]


def _listen(
    listener: Listener, ledger: Ledger | None, kinds: Collection[type[Event]]
) -> Callable[[], None]:
    if ledger is None:
        return listen(listener, kinds=kinds)
    return ledger.on(listener, kinds=kinds)


def _meter(provider: metrics.MeterProvider | None) -> metrics.Meter:
    return metrics.get_meter(SCOPE, meter_provider=provider)


def _read_content(content: Collection[str]) -> Content:
    unknown = [one for one in content if one not in KINDS]
    if isinstance(content, str) or unknown:
        raise UsageError(
            f"content={content!r} is not understood. Nothing was changed. Give a list of: "
            f"{', '.join(KINDS)}."
        )
    return Content(**dict.fromkeys(content, True))
