"""How do metrics reach OpenTelemetry? The same ones as for Prometheus (``metrics/declared.py``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from nottwice.engine.events import Event
from nottwice.guard.ledger import Ledger
from nottwice.metrics.declared import BOUNDS, OF_LEDGER, OF_PROCESS, Instrument, Kind
from nottwice.metrics.gauges import Gauges
from nottwice.metrics.measuring import Labels, measure

_Callback = Callable[[CallbackOptions], Iterable[Observation]]


class Meters:
    """A listener that adds to the instruments of a meter."""

    def __init__(self, meter: Meter) -> None:
        # Methods and not instruments: to ask four times in a call which kind one is would cost
        # more than all else that is done here.
        self._told = {one: _telling(meter, one) for one in OF_PROCESS}

    def __call__(self, event: Event) -> None:
        for instrument, value, labels in measure(event):
            self._told[instrument](value, labels)


def _telling(meter: Meter, one: Instrument) -> Callable[[float, Labels], None]:
    """Make an instrument, and return what a value is told to."""
    if one.kind is Kind.COUNTER:
        return meter.create_counter(one.name, unit=one.unit, description=one.about).add
    return meter.create_histogram(
        one.name,
        unit=one.unit,
        description=one.about,
        explicit_bucket_boundaries_advisory=list(BOUNDS),
    ).record


def observe(meter: Meter, ledger: Ledger) -> Callable[[], None]:
    """Report how a ledger is, each time that metrics are collected, until the returned is called.

    OpenTelemetry has no way to remove an instrument, so it stays and reports nothing more.
    """
    gauges, running = Gauges(ledger), [True]

    def callback_for(instrument: Instrument) -> _Callback:
        def observed(options: CallbackOptions) -> Iterable[Observation]:
            if not running:
                return []
            return [
                Observation(one.value, one.labels)
                for one in gauges.read()
                if one.instrument is instrument
            ]

        return observed

    for one in OF_LEDGER:
        meter.create_observable_gauge(
            one.name, callbacks=[callback_for(one)], unit=one.unit, description=one.about
        )
    return running.clear
