"""How does Prometheus read figures? As text, in its format 0.0.4.

It is written here and not by a library: the format is a page long and fixed, and a worker should
need no package for it. The tests read it with Prometheus' own parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from nottwice.metrics.declared import ALL, BOUNDS, Instrument, Kind, prometheus_label

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SeriesLabels = tuple[tuple[str, str], ...]


class Series(NamedTuple):
    """One time series as it is now."""

    instrument: Instrument
    labels: SeriesLabels
    value: float
    """The total of a counter, the sum of a histogram, or the value of a gauge."""
    buckets: tuple[int, ...] = ()
    """How many values of a histogram are in each bucket; the last one has no upper bound."""


def exposition(series: Iterable[Series]) -> str:
    """Return time series as Prometheus reads them."""
    found: dict[Instrument, list[Series]] = {}
    for one in series:
        found.setdefault(one.instrument, []).append(one)
    lines: list[str] = []
    for instrument in ALL:
        if instrument in found:
            name = instrument.prometheus_name
            lines.append(f"# HELP {name} {_escaped(instrument.about)}")
            lines.append(f"# TYPE {name} {instrument.kind.value}")
            for one in found[instrument]:
                lines += _lines(name, one)
    return "".join(f"{line}\n" for line in lines)


def _lines(name: str, series: Series) -> Iterator[str]:
    if series.instrument.kind is not Kind.HISTOGRAM:
        yield f"{name}{_labels(series.labels)} {_number(series.value)}"
        return
    many = 0
    for bound, number in zip((*map(_number, BOUNDS), "+Inf"), series.buckets, strict=True):
        many += number
        yield f"{name}_bucket{_labels((*series.labels, ('le', bound)))} {many}"
    yield f"{name}_sum{_labels(series.labels)} {_number(series.value)}"
    yield f"{name}_count{_labels(series.labels)} {many}"


def _labels(labels: SeriesLabels) -> str:
    if not labels:
        return ""
    pairs = (f'{prometheus_label(name)}="{_quoted(value)}"' for name, value in labels)
    return f"{{{','.join(pairs)}}}"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    # Half a surrogate pair cannot be sent.
    sendable = text.encode("utf-8", "replace").decode()
    return _escaped(sendable).replace('"', '\\"')
