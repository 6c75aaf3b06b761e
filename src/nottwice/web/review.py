"""One review: what is known, what each answer does, and the form that records it.

A form that comes too late gets the page again, with what was decided meanwhile and by whom.
Promises kept here: P322, P323.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nottwice.errors import DecisionConflict, UsageError
from nottwice.views.people.choices import open_docket
from nottwice.web.deciding import record
from nottwice.web.desk import Desk, form_in, visitor_of
from nottwice.web.rendering import go_to


def routes(desk: Desk) -> list[Route]:
    """One review, and the form that decides it."""

    def show(request: Request) -> Response:
        return _page(desk, request)

    def decide(request: Request) -> Response:
        review_id = request.path_params["review_id"]
        try:
            review = record(desk.ledger, review_id, form_in(request), by=visitor_of(request).name)
        except DecisionConflict as error:
            return _page(desk, request, conflict=str(error), status=409)
        except UsageError as error:
            return _page(desk, request, mistake=str(error), status=400)
        if form_in(request).get("then") == "inbox":
            return go_to(request, "/", recorded=review.review_id)
        return go_to(request, f"/review/{review.review_id}", recorded=review.version)

    path = "/review/{review_id}"
    return [Route(path, show, methods=["GET"]), Route(path, decide, methods=["POST"])]


def _page(
    desk: Desk, request: Request, *, conflict: str = "", mistake: str = "", status: int = 200
) -> Response:
    docket = open_docket(desk.ledger, request.path_params["review_id"], desk.commands)
    return desk.render.page(
        request,
        "review.html",
        now=docket.now,
        status=status,
        docket=docket,
        review=docket.case.review,
        call=docket.case.call,
        conflict=conflict,
        mistake=mistake,
    )
