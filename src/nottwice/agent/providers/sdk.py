"""How is a model asked through a vendor's SDK: once, and with its errors as ours? (P80)

The SDK is imported when it is first needed. Its retries are off and redirects are not followed: one
``complete`` is one request, and the caller decides about the next. Every request has its own
client, so nothing is shared between threads, event loops or forked processes. The list of trusted
certificates, which is expensive to load, is loaded once. Keys are removed from every text.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, NamedTuple

from nottwice.agent.provider import ModelReply, ModelRequest, Price, check_options
from nottwice.agent.providers.prices import Prices, find_price, price_of
from nottwice.errors import (
    Ambiguous,
    ContextTooLong,
    InvalidTool,
    ModelRefused,
    Permanent,
    Retryable,
    ToolFailure,
    UsageError,
)
from nottwice.model.single_request import Sign, read_sign
from nottwice.model.tool import Duration, parse_duration

_KEYLIKE = re.compile(r"\bsk-[\w*.-]{6,}")
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_TOO_LONG = ("prompt is too long", "exceed context limit", "exceeds the context window")
_TOO_LONG_CODES = ("context_length_exceeded", "string_above_max_length")
_REFUSED_CODES = ("content_policy_violation", "invalid_prompt", "bio_policy")
# A limit that waiting does not lift.
_SPENT_CODES = ("insufficient_quota", "enforced_spend_limit_reached", "billing_hard_limit_reached")
_MOST_CHARACTERS = 1000


class Api(NamedTuple):
    """What nottwice has to know about one API."""

    package: str
    """The SDK, and the extra that installs it."""
    client: str
    async_client: str
    most_output: str
    """The API's name for the limit of output tokens."""
    create: Callable[[Any], Callable[..., Any]]
    """From a client to its function that makes the request and returns the raw response."""
    ask: Callable[[ModelRequest], dict[str, Any]]
    """Builds the parameters of that function, except the model and the limit."""
    read: Callable[[dict[str, Any], Mapping[str, str], dict[str, Any]], ModelReply]
    """Reads the body and the headers of a response, with the parameters of the request."""


class SdkProvider:
    """A model behind an SDK; created by ``nt.providers.anthropic`` and its siblings."""

    def __init__(
        self,
        api: Api,
        model: str,
        *,
        api_key: str | None,
        base_url: str | None,
        max_tokens: int | None,
        time_limit: Duration,
        prices: Prices | None,
    ) -> None:
        _check(api, model, max_tokens)
        self._api = api
        self._model = model
        self._api_key = api_key
        self._base_url = base_url
        self._max_tokens = max_tokens
        self._limit_seconds = parse_duration(time_limit, what=f"Model {model!r}: time_limit")
        self._prices = prices
        self._price = price_of(model, prices)

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._model

    @property
    def price(self) -> Price | None:
        """What it costs; None: unknown."""
        return self._price

    def cost_usd(self, reply: ModelReply) -> float | None:
        """Return what a reply cost, at the price of the model that gave it (P206).

        A gateway may let another model answer. If that model's price is unknown, the price of the
        requested model counts.
        """
        price = find_price(reply.model, self._prices) or self._price
        return None if price is None else price.cost_usd(reply.usage)

    def __repr__(self) -> str:
        return f"<{self._api.package} provider of {self._model!r}>"

    def complete(self, request: ModelRequest) -> ModelReply:
        """Make one request, and return the whole reply."""
        asked = self._ask(request)
        try:
            with self._client() as client:
                raw = self._api.create(client)(**asked).http_response
        except Exception as error:
            failure = self._in_our_words(error)
        else:
            return self._read(raw, asked)
        # Outside, so that our error does not hold the SDK's error, which holds the request.
        raise failure

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """Do the same without blocking the event loop."""
        asked = self._ask(request)
        try:
            async with self._async_client() as client:
                raw = (await self._api.create(client)(**asked)).http_response
        except Exception as error:
            failure = self._in_our_words(error)
        else:
            return self._read(raw, asked)
        raise failure

    def _ask(self, request: ModelRequest) -> dict[str, Any]:
        check_options(request.options, who=f"A request to {self._model!r}")
        for tool in request.tools:
            if not _TOOL_NAME.fullmatch(tool.name):
                raise InvalidTool(
                    f"Tool {tool.name!r} cannot be offered to a model: a name there has up to 64 "
                    "letters, digits, '_' and '-'. Nothing was asked. Give it another name: "
                    "@nt.tool(..., name='...')."
                )
        most = request.most_output_tokens
        most = most if self._max_tokens is None else min(most, self._max_tokens)
        words = {"model": self._model, self._api.most_output: most}
        return {**words, **self._api.ask(request), **request.options}

    def _read(self, raw: Any, asked: dict[str, Any]) -> ModelReply:
        try:
            return self._api.read(json.loads(raw.content), raw.headers, asked)
        except ToolFailure:
            raise
        except Exception as error:
            text = f"{self._api.package} answered, but not in a way that can be read ({error!r})."
        raise Ambiguous(f"{text} It may be billed.")

    # Clients

    @contextlib.contextmanager
    def _client(self) -> Iterator[Any]:
        sdk = importlib.import_module(self._api.package)
        with sdk.DefaultHttpxClient(**_transport(sdk)) as transport:
            yield getattr(sdk, self._api.client)(http_client=transport, **self._words())

    @contextlib.asynccontextmanager
    async def _async_client(self) -> AsyncIterator[Any]:
        sdk = importlib.import_module(self._api.package)
        async with sdk.DefaultAsyncHttpxClient(**_transport(sdk)) as transport:
            yield getattr(sdk, self._api.async_client)(http_client=transport, **self._words())

    def _words(self) -> dict[str, Any]:
        return {
            "api_key": self._api_key,
            "base_url": self._base_url,
            "max_retries": 0,
            "timeout": self._limit_seconds,
        }

    # Errors

    def _in_our_words(self, error: Exception) -> Exception:
        """Translate an error of the SDK for the caller."""
        if isinstance(error, ToolFailure | UsageError):
            return error
        sdk = importlib.import_module(self._api.package)
        if isinstance(error, sdk.APIStatusError):
            return self._answered(error)
        if isinstance(error, sdk.APIConnectionError):
            return self._not_answered(error)
        text = self._hide(f"{type(error).__name__}: {error}")
        if isinstance(error, sdk.APIError):
            return Ambiguous(f"{self._api.package} answered, but not in a readable way ({text}).")
        # It was raised before anything was sent: no key, or an option that does not exist.
        key = f"{self._api.package.upper()}_API_KEY"
        return Permanent(
            f"The model was not asked: {text}. Give api_key=..., or set {key}; options are passed "
            "to the SDK as they are."
        )

    def _answered(self, error: Any) -> ToolFailure:
        status, headers = error.status_code, error.response.headers
        said = _said(error.body)
        code, kind, message = (str(said.get(name) or "") for name in ("code", "type", "message"))
        details = said.get("details")
        if isinstance(details, dict):
            code = code or str(details.get("error_code") or "")
        shown = self._hide(message or str(error))[:_MOST_CHARACTERS]
        text = f"{self._api.package} answered with {status} {code or kind}: {shown}"
        if code in _TOO_LONG_CODES or status == 413:
            return ContextTooLong(text)
        if status == 400 and any(each in message for each in _TOO_LONG):
            return ContextTooLong(text)
        if code in _REFUSED_CODES:
            return ModelRefused(text)
        if code in _SPENT_CODES or kind == "billing_error":
            return Permanent(text)
        if status in (425, 429, 503, 529):
            return Retryable(text, retry_after=headers.get("retry-after"))
        if 400 <= status < 500 and status not in (408, 409, 499):
            return Permanent(text)
        return Ambiguous(f"{text}. It may be billed.")

    def _not_answered(self, error: Exception) -> ToolFailure:
        cause = error.__cause__
        why = self._hide(f"{type(cause or error).__name__}: {cause or error}")
        sign = None if cause is None else read_sign(cause)
        if sign is Sign.NOT_STARTED:
            return Retryable(f"{self._api.package} could not be reached ({why}).")
        if sign is Sign.REFUSED:
            return Permanent(f"{self._api.package} cannot be reached ({why}).")
        return Ambiguous(
            f"{self._api.package} did not answer ({why}). It may have been asked, and billed."
        )

    def _hide(self, text: str) -> str:
        words = (f"{self._api.package.upper()}_{what}" for what in ("API_KEY", "AUTH_TOKEN"))
        for secret in (self._api_key, *map(os.environ.get, words)):
            if secret:
                text = text.replace(secret, "***")
        return _KEYLIKE.sub("***", text)


def _check(api: Api, model: object, max_tokens: object) -> None:
    if importlib.util.find_spec(api.package) is None:
        raise UsageError(
            f"The {api.package} SDK is not installed, so its models cannot be asked. Nothing "
            f"happened. Install it: pip install 'nottwice[{api.package}]'"
        )
    if not isinstance(model, str) or not model:
        raise UsageError(f"{model!r} is not a model. Nothing happened. Give its name as text.")
    whole = isinstance(max_tokens, int) and not isinstance(max_tokens, bool)
    if max_tokens is not None and not (whole and max_tokens > 0):  # type: ignore[operator]
        raise UsageError(
            f"most_output_tokens={max_tokens!r} is not possible. Nothing happened. Give a whole "
            "number above 0."
        )


def _transport(sdk: Any) -> dict[str, Any]:
    return {"follow_redirects": False, "verify": _trust(_library_of(sdk))}


def _library_of(sdk: Any) -> str:
    """Return the HTTP library that an SDK uses: its default client is a class of that library."""
    return str(sdk.DefaultHttpxClient.__mro__[-2].__module__.partition(".")[0])


@functools.cache
def _trust(library: str) -> ssl.SSLContext:
    """Return the certificates that this library trusts; loading them is the slowest part."""
    context: ssl.SSLContext = importlib.import_module(library).create_ssl_context()
    return context


def count(tokens: object) -> int:
    """Read a number of tokens from a response; ValueError if it is not one."""
    if tokens is None:
        return 0
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
        return tokens
    raise ValueError(f"{tokens!r} is not a number of tokens")


def _said(body: object) -> dict[str, Any]:
    """Return the error in the body of a response, which one SDK unwraps and the other does not."""
    if not isinstance(body, dict):
        return {}
    inner = body.get("error", body)
    return inner if isinstance(inner, dict) else {}
