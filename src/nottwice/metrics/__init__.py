"""What nottwice counts and measures, and the text that Prometheus reads.

    figures = nottwice.metrics.count(ledger)   # from now on
    figures.text()                             # answer GET /metrics with it

It needs no other package. ``nottwice worker --metrics`` and ``nottwice serve`` answer with the same
text, and ``nottwice.otel`` reports the same metrics through OpenTelemetry.
"""

from __future__ import annotations

from nottwice.metrics.declared import ALL as ALL
from nottwice.metrics.declared import Instrument as Instrument
from nottwice.metrics.figures import Figures as Figures
from nottwice.metrics.figures import count as count

__all__ = ["ALL", "Figures", "Instrument", "count"]
