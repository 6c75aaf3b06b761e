"""What has this process done so far, in figures? A listener that only adds."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable, Iterable, Mapping

from nottwice.engine.events import Event, listen
from nottwice.guard.ledger import Ledger
from nottwice.metrics.declared import BOUNDS, Instrument, Kind
from nottwice.metrics.exposition import Series, SeriesLabels, exposition
from nottwice.metrics.gauges import Gauges
from nottwice.metrics.measuring import MEASURED, Measured, measure

MOST_SERIES = 2000
"""How many combinations of labels a metric has at most. More of them are not told apart."""
_OTHERS = "others"


class _Distribution:
    """The values of one time series of a histogram."""

    __slots__ = ("buckets", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.buckets[bisect.bisect_left(BOUNDS, value)] += 1
        self.total += value


class Figures:
    """Adds up what events tell: ``figures = nottwice.metrics.count(ledger)``."""

    def __init__(self, gauges: Gauges | None = None) -> None:
        """``gauges``: also show how a ledger is; see ``count``."""
        self._guard = threading.Lock()
        self._gauges = gauges
        self._totals: dict[Instrument, dict[SeriesLabels, float]] = {}
        self._distributions: dict[Instrument, dict[SeriesLabels, _Distribution]] = {}
        self.stop: Callable[[], None] = lambda: None
        """Stops counting. What was counted stays."""

    def __call__(self, event: Event) -> None:
        for one in measure(event):
            self._add(one)

    def _add(self, measured: Measured) -> None:
        instrument, value, labels = measured
        key = tuple((name, _text(labels[name])) for name in instrument.labels)
        with self._guard:
            if instrument.kind is Kind.HISTOGRAM:
                distributions = self._distributions.setdefault(instrument, {})
                key = _bounded(key, distributions)
                distributions.setdefault(key, _Distribution()).add(value)
            else:
                totals = self._totals.setdefault(instrument, {})
                key = _bounded(key, totals)
                totals[key] = totals.get(key, 0.0) + value

    def text(self) -> str:
        """Return all figures as Prometheus reads them."""
        return exposition(self.series())

    def series(self) -> Iterable[Series]:
        """Return every time series as it is now."""
        found: list[Series] = []
        with self._guard:
            for instrument, totals in self._totals.items():
                found += [Series(instrument, key, value) for key, value in totals.items()]
            for instrument, distributions in self._distributions.items():
                for key, one in distributions.items():
                    found.append(Series(instrument, key, one.total, tuple(one.buckets)))
        for measured in () if self._gauges is None else self._gauges.read():
            labels = tuple((name, _text(text)) for name, text in measured.labels.items())
            found.append(Series(measured.instrument, labels, measured.value))
        return found


def count(ledger: Ledger | None = None, *, gauges: bool = False) -> Figures:
    """Count what this process does from now on, in one ledger or in all of them.

    ``gauges``: also show the ledger's open reviews and its runs. Exactly one process should do
    that for a ledger. ``figures.stop()`` stops counting.
    """
    figures = Figures(Gauges(ledger) if gauges and ledger is not None else None)
    if ledger is None:
        figures.stop = listen(figures, kinds=MEASURED)
    else:
        figures.stop = ledger.on(figures, kinds=MEASURED)
    return figures


def _bounded(key: SeriesLabels, known: Mapping[SeriesLabels, object]) -> SeriesLabels:
    if key in known or len(known) < MOST_SERIES:
        return key
    return tuple((name, _OTHERS) for name, _ in key)


def _text(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()
