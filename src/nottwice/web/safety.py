"""What does every request have to pass, and what does every answer say to the browser?

Every rule is in this one place, so no page can forget one: the host, the visitor, the origin and
the secret of a form, the right to decide, and the headers that keep foreign text inert. Promises
kept here: P320, P326.
"""

from __future__ import annotations

import hashlib
import hmac
import html
import inspect
import json
from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nottwice.web.visitors import TOKEN, FindUser, LinkTokens, Visitor

MOST_BYTES = 1_000_000
"""How large a form may be."""
CSRF = "csrf"
CSRF_HEADER = "x-nottwice-csrf"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # With no-referrer a browser would not say from where a form comes.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
VISITOR, FORM, SECRET = "nottwice.visitor", "nottwice.form", "nottwice.csrf"
TOP = "nottwice.top"
"""What a page finds in the scope of a request."""
_OPEN_TO_ALL = "/static/"
HEALTH = "/healthz"
_SAFE_METHODS = ("GET", "HEAD")
_STRANGER = (
    "This page needs its link. Open the one that `nottwice serve` has printed, with the token in "
    "it.\n"
)
_UNKNOWN = "This page does not know who you are. Log in, and open it again.\n"
_REFUSAL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Refused · nottwice</title>
<link rel="stylesheet" href="{top}/static/page.css">
</head>
<body><main><h1>Refused</h1><p class="conflict">{text}</p></main></body>
</html>
"""


class Safety:
    """An ASGI app around the page. What it refuses, no page sees."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        user: FindUser,
        secret: bytes,
        hosts: Collection[str] | None = None,
        read_only: bool = False,
        tokens: LinkTokens | None = None,
    ) -> None:
        self._app, self._user, self._secret = app, user, secret
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._read_only, self._tokens = read_only, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        # Where the page begins, also for a request that is passed on to one ledger of several.
        scope[TOP] = scope.get("root_path", "").rstrip("/")

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = await self._refusal(request, scope)
        if refusal is not None:
            await refusal(scope, receive, send_safely)
            return
        await self._app(scope, receive, send_safely)

    async def _refusal(self, request: Request, scope: Scope) -> Response | None:
        """Return what is wrong with a request. None: nothing, and its visitor is known."""
        if self._hosts is not None and request.headers.get("host", "").lower() not in self._hosts:
            return _refused(
                request, 421, "This server does not answer to that name. Nothing was done."
            )
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        is_open = path == HEALTH or path.startswith(_OPEN_TO_ALL)
        if is_open and request.method in _SAFE_METHODS:
            return None
        welcome = self._welcome(request)
        if welcome is not None:
            return welcome
        found = await run_in_threadpool(self._user, request)
        if inspect.isawaitable(found):
            found = await found
        visitor = Visitor(found) if isinstance(found, str) else found
        if visitor is None or not visitor.name.strip():
            return _refused(request, 401, _UNKNOWN if self._tokens is None else _STRANGER)
        if self._read_only:
            visitor = Visitor(visitor.name, may_decide=False, is_program=visitor.is_program)
        scope[VISITOR], scope[SECRET] = visitor, self._csrf(visitor)
        if request.method in _SAFE_METHODS:
            return None
        return await self._refusal_of_form(request, scope, visitor)

    def _welcome(self, request: Request) -> Response | None:
        """Turn the token of a link into a cookie, and remove it from the address."""
        given = request.query_params.get(TOKEN)
        if given is None or self._tokens is None or request.method not in _SAFE_METHODS:
            return None
        cookie = self._tokens.cookie_for(given)
        if cookie is None:
            return _refused(request, 401, _STRANGER)
        rest = request.url.remove_query_params(TOKEN)
        query = f"?{rest.query}" if rest.query else ""
        # An address that begins with two slashes would lead to another host.
        answer = RedirectResponse(f"/{rest.path.lstrip('/')}{query}", status_code=303)
        answer.set_cookie(
            self._tokens.cookie,
            cookie,
            path=request.scope.get("root_path", "") or "/",
            httponly=True,
            # A link in a chat must open the page. A form of another site brings no such cookie.
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer

    async def _refusal_of_form(
        self, request: Request, scope: Scope, visitor: Visitor
    ) -> Response | None:
        if request.method != "POST":
            return _refused(request, 405, "Only GET and POST are known here. Nothing was done.")
        if not visitor.is_program and not _is_from_here(request):
            return _refused(
                request, 403, "This form comes from another site. Nothing was recorded."
            )
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > MOST_BYTES:
                return _refused(request, 413, "This form is too large. Nothing was recorded.")
        form = _read(request, body)
        if form is None:
            return _refused(request, 415, "Send a form, or JSON to /api. Nothing was recorded.")
        given = request.headers.get(CSRF_HEADER) or str(form.get(CSRF, ""))
        if not visitor.is_program and not hmac.compare_digest(
            given.encode("utf-8", "replace"), scope[SECRET].encode()
        ):
            return _refused(
                request,
                403,
                "This form is not from this page, or the server was started again since. Nothing "
                "was recorded. Go back, reload the page, and decide again.",
            )
        if not visitor.may_decide:
            return _refused(
                request, 403, "You may look here, and not decide. Nothing was recorded."
            )
        scope[FORM] = form
        return None

    def _csrf(self, visitor: Visitor) -> str:
        return hmac.new(self._secret, f"csrf {visitor.name}".encode(), hashlib.sha256).hexdigest()


def _is_from_here(request: Request) -> bool:
    """Whether a browser says that a form comes from this page; programs say nothing."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


def _read(request: Request, body: bytes) -> dict[str, Any] | None:
    """Return a form as a dict: the last value of each name, and all values under ``name[]``."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    try:
        if kind == "application/json":
            found = json.loads(body)
            return found if isinstance(found, dict) else None
        if kind != "application/x-www-form-urlencoded":
            return None
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=2000
        )
    except (ValueError, RecursionError):
        return None
    form: dict[str, Any] = {}
    for name, value in pairs:
        if name.endswith("[]"):
            form.setdefault(name, []).append(value)
        else:
            form[name] = value
    return form


def _refused(request: Request, status: int, text: str) -> Response:
    if "/api/" in request.url.path:
        plain = {"error": {"type": "Refused", "message": text.strip()}}
        return JSONResponse(plain, status_code=status)
    if "text/html" in request.headers.get("accept", ""):
        top = html.escape(request.scope[TOP])
        page = _REFUSAL.format(top=top, text=html.escape(text.strip()))
        return HTMLResponse(page, status_code=status)
    return PlainTextResponse(text, status_code=status)
