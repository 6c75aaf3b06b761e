"""The ledger in figures, and the report about doubts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nottwice.model.tool import parse_duration
from nottwice.views.ledgers import MOST_CALLS, MOST_RUNS, look_at_ledger
from nottwice.views.report import CostReport, report_on
from nottwice.web.desk import Desk

TIMES = ("1h", "24h", "7d", "30d")


def routes(desk: Desk) -> list[Route]:
    """The ledger, and the report."""

    def ledger(request: Request) -> Response:
        found = look_at_ledger(desk.ledger, desk.commands)
        return desk.render.page(request, "ledger.html", now=found.now, view=found)

    def report(request: Request) -> Response:
        found = read_report(desk, request)
        return desk.render.page(
            request,
            "report.html",
            now=found.activity.until,
            report=found,
            since=request.query_params.get("since") or "7d",
            times=TIMES,
        )

    return [Route("/ledger", ledger), Route("/report", report)]


def read_report(desk: Desk, request: Request) -> CostReport:
    """Return the report about the time that an address names."""
    seconds = parse_duration(request.query_params.get("since") or "7d", what="The time")
    return report_on(desk.ledger, seconds, most_runs=10 * MOST_RUNS, most_calls=10 * MOST_CALLS)
