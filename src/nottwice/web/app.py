"""Which pages are there, and how are they put together? ``nottwice.web.page(ledger, user=...)``."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from pathlib import Path

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from nottwice.errors import (
    DecisionConflict,
    NottwiceError,
    UnknownReview,
    UnknownRun,
    UsageError,
)
from nottwice.guard.ledger import AnyStore, ledger_of
from nottwice.views.commands import CommandLine
from nottwice.web import actions, api, inbox, live, review, runs
from nottwice.web import ledger as ledger_pages
from nottwice.web.desk import Desk
from nottwice.web.rendering import Renderer
from nottwice.web.safety import VISITOR, Safety
from nottwice.web.visitors import FindUser, LinkTokens

STATIC = Path(__file__).with_name("static")
_STATUS: tuple[tuple[type[NottwiceError], int], ...] = (
    (UnknownReview, 404),
    (UnknownRun, 404),
    (DecisionConflict, 409),
    (UsageError, 400),
)


def page(
    ledger: AnyStore,
    *,
    user: FindUser,
    read_only: bool = False,
    hosts: Collection[str] | None = None,
    secret: str | None = None,
    commands: CommandLine | None = None,
    tokens: LinkTokens | None = None,
) -> Starlette:
    """Return the operator's page of a ledger as an ASGI app, to be mounted in one of yours.

    ``user``: a function, which may be async. It gets each request and returns the name of the
    person, a ``Visitor`` with their rights, or None for a stranger. ``read_only``: no visitor may
    decide. ``hosts``: the names that the page answers to, with their port; None: all, because your
    app checks them. ``secret``: for the forms, if several processes serve the page; the same text
    in all of them.
    """
    opened = ledger_of(ledger, create=False)
    line = commands or CommandLine(opened.location)
    renderer = Renderer(opened.location, read_only=read_only, commands=line)
    desk = Desk(opened, renderer, line)
    safety = Middleware(
        Safety,
        user=user,
        secret=(secret or secrets.token_hex(32)).encode(),
        hosts=hosts,
        read_only=read_only,
        tokens=tokens,
    )
    return Starlette(
        routes=_routes(desk),
        middleware=[safety],
        exception_handlers={NottwiceError: _problem(desk)},
    )


def _routes(desk: Desk) -> list[Route | Mount]:
    return [
        *inbox.routes(desk),
        *review.routes(desk),
        *runs.routes(desk),
        *actions.routes(desk),
        *ledger_pages.routes(desk),
        *api.routes(desk),
        *live.routes(desk),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]


def _problem(desk: Desk) -> Callable[[Request, Exception], Response]:
    """Return a page that says what went wrong, in the words of the error."""

    def problem(request: Request, error: Exception) -> Response:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        text = str(error)
        if "/api/" in request.scope["path"] or VISITOR not in request.scope:
            plain = {"error": {"type": type(error).__name__, "message": text}}
            return JSONResponse(plain, status_code=status)
        now = desk.ledger.clock.now()
        return desk.render.page(request, "problem.html", now=now, status=status, problem=text)

    return problem
