"""OpenTelemetry for your runs: spans, metrics, and trace contexts that outlive a process.

    nottwice.otel.instrument(ledger)     # or instrument(), for all ledgers of this process

It needs the extra ``nottwice[otel]``, which is OpenTelemetry's API. Your program brings the SDK and
says where spans and metrics go; without an SDK nothing is reported.
"""

from __future__ import annotations

from nottwice.otel.instrumenting import instrument as instrument

__all__ = ["instrument"]
