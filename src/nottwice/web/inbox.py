"""The inbox: what waits for a person, the most dangerous first. Promise kept here: P321."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nottwice.views.people.inbox import (
    GROUPS,
    InboxFilter,
    decided_by,
    read_inbox,
    reviews_command,
)
from nottwice.web.deciding import MOST_AT_ONCE, record_several
from nottwice.web.desk import Desk, form_in, visitor_of
from nottwice.web.rendering import go_to


def routes(desk: Desk) -> list[Route]:
    """The inbox, and the form that approves several calls."""

    def show(request: Request) -> Response:
        wanted = read_filter(request)
        found = read_inbox(desk.ledger, wanted, desk.commands)
        named = request.query_params.get("recorded", "").split(",")[:MOST_AT_ONCE]
        return desk.render.page(
            request,
            "inbox.html",
            now=found.now,
            inbox=found,
            wanted=wanted,
            groups=list(GROUPS),
            list_command=reviews_command(wanted, desk.commands),
            recorded=decided_by(desk.ledger, filter(None, named), visitor_of(request).name),
        )

    def approve(request: Request) -> Response:
        form = form_in(request)
        chosen = form.get("chosen[]")
        outcomes = record_several(
            desk.ledger,
            [str(one) for one in chosen] if isinstance(chosen, list) else [],
            str(form.get("verb", "")),
            by=visitor_of(request).name,
            why=str(form.get("why", "")),
        )
        failed = [one for one in outcomes if one.error is not None]
        if not failed:
            return go_to(request, "/", recorded=",".join(one.review_id for one in outcomes))
        now = desk.ledger.clock.now()
        return desk.render.page(
            request, "partly.html", now=now, status=409, outcomes=outcomes, failed=failed
        )

    return [
        Route("/", show),
        Route("/approve", approve, methods=["POST"]),
    ]


def read_filter(request: Request) -> InboxFilter:
    """Return the filter that an address names."""
    given = request.query_params
    return InboxFilter(
        group=given.get("kind", ""),
        tool=given.get("tool", ""),
        run=given.get("run", ""),
        tag=given.get("tag", ""),
        older=given.get("older", ""),
    )
