"""One HTTP request with an Idempotency-Key, and what its response or its silence means (P77).

It makes exactly one request, follows no redirect, and never resends on its own. After a crash,
nottwice resends the request with the stored key, as long as the upstream remembers it.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from datetime import timedelta
from email.message import Message
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, NoReturn

from pydantic import AfterValidator, Field
from typing_extensions import TypedDict

from nottwice.errors import Ambiguous, InvalidTool, Permanent, Retryable
from nottwice.guard.declaration import Duration
from nottwice.guard.declare import SyncTool
from nottwice.guard.ready_made import declare
from nottwice.guard.request import key_per_call
from nottwice.guard.scopes import current_call
from nottwice.model.failure import single_request
from nottwice.model.retry import RetryPolicy
from nottwice.model.single_request import Sign, read_status
from nottwice.model.tool import parse_duration

Headers = Mapping[str, str] | Callable[[], Mapping[str, str]]
"""Fixed headers, or a function that is called before every attempt. They are never recorded."""

NO_HEADERS: Mapping[str, str] = MappingProxyType({})
WHOLE = 3
"""The whole attempt may take this many time limits: a slow trickle of bytes must not be endless."""
_MOST_BODY_BYTES = 4 * 1024 * 1024
_MOST_ERROR_CHARACTERS = 1000
_KEPT_HEADERS = ("content-type", "etag", "last-modified", "location", "x-request-id")


def _check_path(path: str) -> str:
    parts = urllib.parse.urlsplit(path)
    if parts.scheme or parts.netloc or not path.startswith("/") or path.startswith("//"):
        raise ValueError("it must be a path below the address of the tool, such as '/orders/7'")
    if any(part in (".", "..") for part in urllib.parse.unquote(parts.path).split("/")):
        raise ValueError("it must not contain '.' or '..'")
    if parts.fragment or not path.isascii() or not path.isprintable() or " " in path:
        raise ValueError("it must be percent-encoded and without a fragment")
    return path


UrlPath = Annotated[
    str, AfterValidator(_check_path), Field(description="Path and query, such as /orders/7?full=1")
]


class HttpAnswer(TypedDict):
    """What ``http_request`` returns: a response with a status from 200 to 299."""

    status: int
    headers: dict[str, str]
    """Selected headers, with lower-case names."""
    body: Any
    """Its JSON, or other content as text. None if it is empty or too large."""
    body_bytes: int


class Outgoing(NamedTuple):
    """One request, ready to be sent."""

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes | None
    limit_seconds: float


def http_request(
    base_url: str,
    *,
    window: Duration,
    name: str = "http_request",
    key: str | Callable[..., str] = key_per_call,
    key_header: str = "Idempotency-Key",
    headers: Headers = NO_HEADERS,
    time_limit: Duration = "30s",
    retry: RetryPolicy | None = None,
) -> SyncTool[..., HttpAnswer]:
    """Make a tool ``http_request(method, path, body)`` for an upstream that recognises keys.

    ``window`` is how long the upstream remembers a key. Its documentation states it. An upstream
    that ignores ``key_header`` would act twice, so use ``create_if_absent`` for it instead.
    ``time_limit`` is how long to wait for each sign of life. An attempt may take three times that.
    """
    base = check_base_url(base_url, tool=name)
    limit_seconds = parse_duration(time_limit, what=f"Tool {name!r}: time_limit")

    def request(
        method: Literal["POST", "PUT", "PATCH", "DELETE"], path: UrlPath, body: Any = None
    ) -> HttpAnswer:
        """Send one request with a JSON body, and return the answer."""
        sent = {**given_headers(headers), key_header: str(current_call().key)}
        return exchange(make_request(method, base + path, sent, body, limit_seconds))[0]

    protected: SyncTool[..., HttpAnswer] = declare(
        request,
        "idempotent_with_key",
        name=name,
        recipe="http_request",
        works_on={"base_url": base, "key_header": key_header},
        key=key,
        window=window,
        classify=single_request,
        retry=retry or RetryPolicy(),
        time_limit=timedelta(seconds=limit_seconds * WHOLE),
    )
    return protected


def check_base_url(url: str, *, tool: str) -> str:
    """Return the address without a trailing slash. InvalidTool if it cannot be requested."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidTool(
            f"Tool {tool!r} was not declared: its address must start with https:// or http:// and "
            "name a host."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidTool(
            f"Tool {tool!r} was not declared: its address has a password, a query or a fragment. "
            "Pass secrets as headers=..., which are never recorded."
        )
    return url.rstrip("/")


def given_headers(headers: Headers) -> dict[str, str]:
    """Return the current headers. Permanent if they cannot be sent.

    Python would refuse them too, but with their values in the error, and the error is recorded.
    """
    given: object = headers
    if callable(headers):
        try:
            given = headers()
        except Exception as error:
            kind = type(error).__name__
        else:
            kind = ""
        if kind:
            raise Permanent(
                f"Nothing was sent: the function that returns the headers raised {kind}."
            )
    if not isinstance(given, Mapping):
        raise Permanent(f"Nothing was sent: headers must be a mapping, not {type(given).__name__}.")
    for name, value in given.items():
        texts = isinstance(name, str) and isinstance(value, str)
        if not texts or not (name + value).isprintable() or not (name + value).isascii():
            raise Permanent(f"Nothing was sent: the header {name!r} is not printable ASCII text.")
    return dict(given)


def make_request(
    method: str, url: str, headers: Mapping[str, str], body: Any, limit_seconds: float
) -> Outgoing:
    """Return a request with a JSON body, or without a body for None."""
    sent = {"Accept": "application/json", "User-Agent": "nottwice", **headers}
    content = None
    if body is not None:
        content = json.dumps(body, ensure_ascii=False).encode()
        sent.setdefault("Content-Type", "application/json")
    return Outgoing(method, url, sent, content, limit_seconds)


def exchange(outgoing: Outgoing) -> tuple[HttpAnswer, str | None]:
    """Send one request. Return the response, and the address of the next page if it names one.

    Raises Retryable, Permanent or Ambiguous for an error status. Other errors pass through.
    """
    request = urllib.request.Request(
        outgoing.url,
        data=outgoing.content,
        headers=dict(outgoing.headers),
        method=outgoing.method,
    )
    opener = urllib.request.build_opener(_NoRedirect)
    try:
        with opener.open(request, timeout=outgoing.limit_seconds) as answer:
            content = answer.read(_MOST_BODY_BYTES + 1)
            return _read_answer(answer.status, answer.headers, content)
    except urllib.error.HTTPError as error:
        with error:
            _raise_refusal(error, outgoing)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Following a redirect would make two requests where one was recorded."""

    def redirect_request(self, *asked: Any, **more: Any) -> None:
        return None


def _read_answer(status: int, headers: Message, content: bytes) -> tuple[HttpAnswer, str | None]:
    kept = {name: str(headers[name]) for name in _KEPT_HEADERS if name in headers}
    answer = HttpAnswer(
        status=status, headers=kept, body=_read_body(headers, content), body_bytes=len(content)
    )
    return answer, _next_page(headers)


def _read_body(headers: Message, content: bytes) -> Any:
    """Return the contents of a body. The effect has happened, so nothing here may raise."""
    if not content or len(content) > _MOST_BODY_BYTES:
        return None
    text = content.decode(headers.get_content_charset("utf-8"), "replace")
    kind = headers.get_content_type()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _next_page(headers: Message) -> str | None:
    """Return the ``rel="next"`` address of a Link header (RFC 8288)."""
    for link in ", ".join(headers.get_all("Link", [])).split(","):
        target, _, parameters = link.strip().partition(";")
        relations = parameters.replace('"', "").replace(" ", "")
        if "rel=next" in relations.split(";") and target.startswith("<"):
            return target.strip("<>")
    return None


def _raise_refusal(error: urllib.error.HTTPError, outgoing: Outgoing) -> NoReturn:
    said = error.read(_MOST_ERROR_CHARACTERS * 4).decode("utf-8", "replace")
    said = said[:_MOST_ERROR_CHARACTERS].strip()
    shown = outgoing.url.partition("?")[0]
    text = f"{outgoing.method} {shown} was answered with {error.code} {error.reason}. {said}"
    match read_status(error.code):
        case Sign.NOT_STARTED:
            raise Retryable(text, retry_after=error.headers.get("Retry-After")) from None
        case Sign.REFUSED:
            raise Permanent(text) from None
        case _:
            raise Ambiguous(text) from None
