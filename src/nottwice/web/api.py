"""The same views as JSON: what ``--json`` prints, for programs.

A program sends ``Authorization: Bearer TOKEN``. Promise kept here: P327.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nottwice.views.choices import open_docket
from nottwice.views.inbox import read_inbox
from nottwice.views.overview import look_over
from nottwice.views.shape import to_plain
from nottwice.web.deciding import record
from nottwice.web.desk import Desk, form_in, visitor_of


def routes(desk: Desk) -> list[Route]:
    """The documents, each under ``/api``."""

    def reviews(request: Request) -> Response:
        return _json(read_inbox(desk.ledger))

    def one_review(request: Request) -> Response:
        return _json(open_docket(desk.ledger, request.path_params["review_id"], desk.commands))

    def decide(request: Request) -> Response:
        review_id = request.path_params["review_id"]
        record(desk.ledger, review_id, form_in(request), by=visitor_of(request).name)
        return _json(open_docket(desk.ledger, review_id, desk.commands))

    def status(request: Request) -> Response:
        return _json(look_over(desk.ledger, desk.commands))

    return [
        Route("/api/ledger", status),
        Route("/api/reviews", reviews),
        Route("/api/reviews/{review_id}", one_review, methods=["GET"]),
        Route("/api/reviews/{review_id}", decide, methods=["POST"]),
    ]


def _json(view: Any) -> JSONResponse:
    return JSONResponse(to_plain(view))
