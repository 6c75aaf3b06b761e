"""Who is looking, and what may they do?

``nottwice serve`` prints a link with a token, which becomes a cookie. A second link is only for
looking. Behind a proxy that authenticates people, the proxy sends the token and the name. Promises
kept here: P320, P413.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Awaitable, Callable, Collection

from starlette.requests import Request

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record

LEAST_TOKEN = 32
TOKEN = "token"
"""The parameter of the printed link."""
_BEARER = "bearer "


@frozen_record(frozen=True, slots=True)
class Visitor:
    """A person or a program that uses the page."""

    name: str
    """What decisions are recorded under."""
    may_decide: bool = True
    """Whether they may decide, send and cancel. Otherwise they may only look."""
    is_program: bool = False
    """Whether the request is one that no web page can make a browser send."""


Found = str | Visitor | None
FindUser = Callable[[Request], Found | Awaitable[Found]]
"""Says who sent a request. None: a stranger, who sees nothing."""


class LinkTokens:
    """The rights that links and cookies give: to decide, or only to look."""

    def __init__(
        self,
        token: str,
        *,
        name: str,
        cookie: str = "nottwice",
        user_header: str | None = None,
        deciders: Collection[str] = (),
    ) -> None:
        if len(token) < LEAST_TOKEN:
            raise UsageError(
                f"The token has {len(token)} characters, and at least {LEAST_TOKEN} are needed. "
                "Nothing was started. Make one: python -c 'import secrets; "
                "print(secrets.token_urlsafe(32))'"
            )
        self._name, self.cookie = name, cookie
        self._user_header, self._deciders = user_header, frozenset(deciders)
        self._may_decide = {token: True, self.derived(token, "look"): False}
        self.decide_token, self.look_token = self._may_decide
        self._cookies = {
            self.derived(known, "cookie"): may_decide
            for known, may_decide in self._may_decide.items()
        }

    @staticmethod
    def derived(token: str, purpose: str) -> str:
        """Return a secret for one purpose, from which the token cannot be computed."""
        made = hmac.digest(token.encode(), f"nottwice {purpose}".encode(), hashlib.sha256)
        return base64.urlsafe_b64encode(made).decode().rstrip("=")

    def cookie_for(self, token: str) -> str | None:
        """Return the cookie that a token becomes. None: it is not a token of ours."""
        found = self._known(token, self._may_decide)
        return None if found is None else self.derived(token, "cookie")

    def visitor(self, request: Request) -> Visitor | None:
        """Say who sent a request."""
        header = request.headers.get("authorization", "")
        if header.lower().startswith(_BEARER):
            return self._behind_proxy(request, header[len(_BEARER) :].strip())
        if self._user_header is not None:
            # Only the proxy is believed. A cookie would let a person skip its login.
            return None
        may_decide = self._known(request.cookies.get(self.cookie, ""), self._cookies)
        return None if may_decide is None else Visitor(self._name, may_decide)

    def _behind_proxy(self, request: Request, token: str) -> Visitor | None:
        may_decide = self._known(token, self._may_decide)
        if may_decide is None:
            return None
        if self._user_header is None:
            return Visitor(self._name, may_decide, is_program=True)
        name = request.headers.get(self._user_header, "").strip()
        if not name:
            return None
        may_decide = may_decide and (not self._deciders or name in self._deciders)
        # The proxy adds the token to what a browser sends, so forms are checked as for a cookie.
        return Visitor(name, may_decide, is_program=_is_from_a_program(request))

    @staticmethod
    def _known(given: str, known: dict[str, bool]) -> bool | None:
        """Look a secret up in constant time."""
        found: bool | None = None
        for secret, may_decide in known.items():
            if hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode()):
                found = may_decide
        return found


def _is_from_a_program(request: Request) -> bool:
    """Whether no browser can have sent this to the API for a page of another site.

    A browser asks first before it sends JSON to another site, and nottwice never allows it. With
    every POST it also names the site that sends it.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    names_its_site = {"origin", "referer", "sec-fetch-site"} & set(request.headers)
    return "/api/" in request.url.path and kind == "application/json" and not names_its_site
