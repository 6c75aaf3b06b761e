"""What do Prometheus and a probe get? The state of the ledger, and whether it can be read.

``/metrics`` needs the right to look, as every page does. ``/healthz`` says nothing about the ledger
but that it can be read, so every caller may ask. Promise kept here: P343.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nottwice.guard.ledger import Ledger
from nottwice.metrics.endpoint import health
from nottwice.metrics.exposition import CONTENT_TYPE
from nottwice.metrics.figures import Figures
from nottwice.metrics.gauges import Gauges
from nottwice.web.desk import Desk
from nottwice.web.safety import HEALTH


def routes(desk: Desk) -> list[Route]:
    """``/metrics`` and ``/healthz``."""
    shown = Figures(Gauges(desk.ledger))

    def metrics(request: Request) -> Response:
        return Response(shown.text(), media_type=CONTENT_TYPE)

    return [Route("/metrics", metrics), probe([desk.ledger])]


def probe(ledgers: Sequence[Ledger]) -> Route:
    """``/healthz``: whether all of these ledgers can be read."""

    def healthz(request: Request) -> Response:
        found = [health(ledger) for ledger in ledgers]
        status, kind, text = max(found)
        # The reason may name the place of the ledger, which a stranger must not learn.
        return Response(text if status == 200 else "not ready\n", status, media_type=kind)

    return Route(HEALTH, healthz)
