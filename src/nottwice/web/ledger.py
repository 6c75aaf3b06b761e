"""The ledger in figures, and the report about doubts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nottwice.model.tool import parse_duration
from nottwice.views.ledger.behind import RowsBehind, decisions_behind, rows_behind
from nottwice.views.ledger.ledgers import DAY_SECONDS, MOST_CALLS, MOST_RUNS, look_at_ledger
from nottwice.views.ledger.report import CostReport, report_on
from nottwice.views.ledger.retention import RetentionView, look_at_retention
from nottwice.web.desk import Desk

TIMES = ("1h", "24h", "7d", "30d")
MOMENTS = {"": "now", "7d": "in 7 days", "30d": "in 30 days", "365d": "in a year"}
"""The days for which the page says what would be removed."""


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

    def behind(request: Request) -> Response:
        found = read_behind(desk, request)
        return desk.render.page(
            request,
            "behind.html",
            now=found.now,
            found=found,
            since=_since(request),
            tool=request.query_params.get("tool", ""),
        )

    def decided(request: Request) -> Response:
        by = request.query_params.get("by", "")
        found = decisions_behind(desk.ledger, _seconds(request), by=by)
        return desk.render.page(
            request, "decided.html", now=found.now, found=found, since=_since(request), by=by
        )

    def retention(request: Request) -> Response:
        found = read_retention(desk, request)
        after = request.query_params.get("in", "")
        return desk.render.page(
            request, "retention.html", now=found.now, view=found, after=after, moments=MOMENTS
        )

    return [
        Route("/ledger", ledger),
        Route("/report", report),
        Route("/behind", behind),
        Route("/decided", decided),
        Route("/retention", retention),
    ]


def read_behind(desk: Desk, request: Request) -> RowsBehind:
    """Return the rows behind the figure that an address names, read as the figure was."""
    given, seconds = request.query_params, _seconds(request)
    times = 1 if seconds == DAY_SECONDS and given.get("of") == "ledger" else 10
    return rows_behind(
        desk.ledger,
        given.get("figure", ""),
        seconds,
        tool=given.get("tool", ""),
        most_runs=times * MOST_RUNS,
        most_calls=times * MOST_CALLS,
    )


def read_retention(desk: Desk, request: Request) -> RetentionView:
    """Return what would be removed at the moment that an address names."""
    given = request.query_params.get("in", "")
    seconds = parse_duration(given, what="The time") if given else 0.0
    return look_at_retention(desk.ledger, after_seconds=seconds)


def _since(request: Request) -> str:
    return request.query_params.get("since") or "24h"


def _seconds(request: Request) -> float:
    return parse_duration(_since(request), what="The time")


def read_report(desk: Desk, request: Request) -> CostReport:
    """Return the report about the time that an address names."""
    seconds = parse_duration(request.query_params.get("since") or "7d", what="The time")
    return report_on(desk.ledger, seconds, most_runs=10 * MOST_RUNS, most_calls=10 * MOST_CALLS)
