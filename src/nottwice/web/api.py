"""The same views as JSON: what ``--json`` prints, for programs.

A program sends ``Authorization: Bearer TOKEN``. Promise kept here: P327.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nottwice.views.ledger.ledgers import look_at_ledger
from nottwice.views.pages import page_of_runs
from nottwice.views.people.choices import open_docket
from nottwice.views.people.inbox import read_inbox
from nottwice.views.run.conversation import turns_of
from nottwice.views.run.details import look_into
from nottwice.views.runs import load_run
from nottwice.views.shape import to_plain
from nottwice.web import inbox
from nottwice.web.actions import cancel_run, send_event
from nottwice.web.deciding import record
from nottwice.web.desk import Desk, form_in, visitor_of
from nottwice.web.ledger import read_behind, read_report, read_retention
from nottwice.web.runs import MOST_CALLS, read_filter


def routes(desk: Desk) -> list[Route]:
    """The documents, each under ``/api``."""

    def reviews(request: Request) -> Response:
        return _json(read_inbox(desk.ledger, inbox.read_filter(request), desk.commands))

    def one_review(request: Request) -> Response:
        return _json(open_docket(desk.ledger, request.path_params["review_id"], desk.commands))

    def decide(request: Request) -> Response:
        review_id = request.path_params["review_id"]
        record(desk.ledger, review_id, form_in(request), by=visitor_of(request).name)
        return _json(open_docket(desk.ledger, review_id, desk.commands))

    def status(request: Request) -> Response:
        return _json(look_at_ledger(desk.ledger, desk.commands))

    def listed(request: Request) -> Response:
        return _json(page_of_runs(desk.ledger, read_filter(request)))

    def one_run(request: Request) -> Response:
        run_id = load_run(desk.ledger.store, request.query_params.get("id", "")).workflow_id
        return _json(look_into(desk.ledger, run_id, limit=MOST_CALLS))

    def report(request: Request) -> Response:
        return _json(read_report(desk, request))

    def behind(request: Request) -> Response:
        return _json(read_behind(desk, request))

    def retention(request: Request) -> Response:
        return _json(read_retention(desk, request))

    def turns(request: Request) -> Response:
        run_id = load_run(desk.ledger.store, request.query_params.get("id", "")).workflow_id
        agent = look_into(desk.ledger, run_id, limit=0).agent
        return _json({"turns": () if agent is None else turns_of(desk.ledger, run_id, agent)})

    def send(request: Request) -> Response:
        run_id = send_event(desk.ledger, form_in(request), by=visitor_of(request).name)
        return _json(look_into(desk.ledger, run_id))

    def cancel(request: Request) -> Response:
        run_id = cancel_run(desk.ledger, form_in(request), by=visitor_of(request).name)
        return _json(look_into(desk.ledger, run_id))

    return [
        Route("/api/runs", listed),
        Route("/api/run", one_run),
        Route("/api/run/send", send, methods=["POST"]),
        Route("/api/run/cancel", cancel, methods=["POST"]),
        Route("/api/run/turns", turns),
        Route("/api/report", report),
        Route("/api/behind", behind),
        Route("/api/retention", retention),
        Route("/api/ledger", status),
        Route("/api/reviews", reviews),
        Route("/api/reviews/{review_id}", one_review, methods=["GET"]),
        Route("/api/reviews/{review_id}", decide, methods=["POST"]),
    ]


def _json(view: Any) -> JSONResponse:
    return JSONResponse(to_plain(view))
