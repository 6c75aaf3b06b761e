"""Which pages are there, and how are they put together? ``nottwice.web.page(ledger, user=...)``."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from nottwice.errors import (
    DecisionConflict,
    LedgerTampered,
    NottwiceError,
    UnknownReview,
    UnknownRun,
    UsageError,
)
from nottwice.guard.ledger import AnyStore, Ledger, ledger_of
from nottwice.views.commands import CommandLine
from nottwice.views.people.inboxes import name_ledgers
from nottwice.web import actions, api, figures, inbox, live, review, runs
from nottwice.web import ledger as ledger_pages
from nottwice.web import several as several_pages
from nottwice.web.desk import Desk
from nottwice.web.rendering import Renderer, check_trace_url
from nottwice.web.safety import HEADERS, VISITOR, Safety
from nottwice.web.visitors import FindUser, LinkTokens

STATIC = Path(__file__).with_name("static")
_STATIC = Mount("/static", StaticFiles(directory=STATIC))
_STATUS: tuple[tuple[type[NottwiceError], int], ...] = (
    (UnknownReview, 404),
    (UnknownRun, 404),
    (DecisionConflict, 409),
    (UsageError, 400),
)


def page(
    ledger: AnyStore | Sequence[AnyStore],
    *,
    user: FindUser,
    read_only: bool = False,
    hosts: Collection[str] | None = None,
    secret: str | None = None,
    commands: Sequence[CommandLine] = (),
    tokens: LinkTokens | None = None,
    trace_url: str | None = None,
) -> Starlette:
    """Return the operator's page of a ledger as an ASGI app, to be mounted in one of yours.

    ``ledger``: one ledger, or a list of several. Each of several has a page of its own below
    ``/in/NAME/``, and ``/`` shows what waits in all of them (P356).
    ``user``: a function, which may be async. It gets each request and returns the name of the
    person, a ``Visitor`` with their rights, or None for a stranger. ``read_only``: no visitor may
    decide. ``hosts``: the names that the page answers to, with their port; None: all, because your
    app checks them. ``secret``: for the forms, if several processes serve the page; the same text
    in all of them. ``trace_url``: where a trace is shown, ``"https://.../trace/{trace_id}"``.
    """
    several = isinstance(ledger, Sequence) and not isinstance(ledger, str)
    given: Sequence[AnyStore] = ledger if several else [ledger]  # type: ignore[assignment,list-item]
    if not given:
        raise UsageError("The page needs a ledger. Nothing was started. Name one.")
    traces = None if trace_url is None else check_trace_url(trace_url)
    opened = [ledger_of(one, create=False) for one in given]
    desks = _desks(opened, commands, read_only=read_only, trace_url=traces)
    safety = Middleware(
        Safety,
        user=user,
        secret=(secret or secrets.token_hex(32)).encode(),
        hosts=hosts,
        read_only=read_only,
        tokens=tokens,
    )
    if len(desks) == 1:
        return _app_of(desks[0], [safety])
    of_all = Renderer(
        f"{len(desks)} ledgers",
        read_only=read_only,
        commands=CommandLine(),
        names=desks[0].render.names,
    )
    return Starlette(
        routes=[
            *several_pages.routes(desks, of_all),
            figures.probe([desk.ledger for desk in desks]),
            *(Mount(f"/in/{desk.render.name}", _app_of(desk)) for desk in desks),
            _STATIC,
        ],
        middleware=[safety],
        exception_handlers=_problems(of_all, desks[0].ledger),
    )


def _desks(
    ledgers: Sequence[Ledger],
    commands: Sequence[CommandLine],
    *,
    read_only: bool,
    trace_url: str | None,
) -> list[Desk]:
    names = name_ledgers([one.location for one in ledgers]) if len(ledgers) > 1 else []
    lines = commands or [CommandLine(one.location) for one in ledgers]
    found = []
    for ledger, line, name in zip(ledgers, lines, names or [""], strict=True):
        render = Renderer(
            ledger.location,
            read_only=read_only,
            commands=line,
            name=name,
            names=names,
            trace_url=trace_url,
        )
        found.append(Desk(ledger, render, line))
    return found


def _app_of(desk: Desk, middleware: Sequence[Middleware] = ()) -> Starlette:
    """The pages of one ledger."""
    return Starlette(
        routes=_routes(desk),
        middleware=middleware,
        exception_handlers=_problems(desk.render, desk.ledger),
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
        *figures.routes(desk),
        _STATIC,
    ]


def _problems(
    render: Renderer, ledger: Ledger
) -> dict[int | type[Exception], Callable[[Request, Exception], Response]]:
    """Answer every error with a page that says what went wrong, and leads back to the inbox."""

    def problem(request: Request, error: Exception) -> Response:
        status, kind, text = _said_about(error)
        if "/api/" in request.scope["path"] or VISITOR not in request.scope:
            plain = {"error": {"type": kind, "message": text}}
            return JSONResponse(plain, status_code=status, headers=HEADERS)
        now = ledger.clock.now()
        what = {404: "Not found", 500: "Something failed"}.get(status, "Not done")
        is_tampered = isinstance(error, LedgerTampered)
        verify = render.commands.command("audit --verify") if is_tampered else ""
        # An error does not know how this process was told of its ledger.
        lacks_store = ": nottwice " in text and "--store" not in text and not is_tampered
        shown = render.page(
            request,
            "problem.html",
            now=now,
            status=status,
            what=what,
            problem=text,
            verify=verify,
            lacks_store=lacks_store and bool(render.commands.store_words()),
        )
        # Starlette answers what no handler expects outside of our checks.
        shown.headers.update(HEADERS)
        return shown

    return {NottwiceError: problem, HTTPException: problem, Exception: problem}


def _said_about(error: Exception) -> tuple[int, str, str]:
    """Return the status, the type and the words for an error."""
    kind = type(error).__name__
    match error:
        case NottwiceError():
            status = next((code for known, code in _STATUS if isinstance(error, known)), 500)
            return status, kind, str(error)
        case HTTPException(status_code=404):
            return 404, "Refused", "There is no page at this address. Nothing was done."
        case HTTPException(status_code=405):
            return 405, "Refused", "Only a form of this page leads here. Nothing was done."
        case HTTPException():
            return error.status_code, "Refused", error.detail
    text = (
        f"The page itself failed: {kind}. The server's log says where. What you sent may or may "
        "not be recorded. Look at the run or review again before you repeat it."
    )
    return 500, kind, text
