"""Several models as one: if one does not answer, the next is asked (P206).

A turn still has one reply, which says which model gave it. A rejected request cost nothing, so the
next model is asked immediately. A request that may have been answered, and billed, ends the attempt
instead: the agent reserves again, and its next attempt begins with the next model. A model that
refuses in a reply was paid; its cost is added to that of the next one.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Generator
from typing import Any, NamedTuple

from nottwice.agent.provider import (
    ModelReply,
    ModelRequest,
    Price,
    Provider,
    StopReason,
    Usage,
    cost_of,
    dearest,
)
from nottwice.errors import (
    ContextTooLong,
    FileChanged,
    Permanent,
    Retryable,
    ToolFailure,
    UsageError,
)
from nottwice.model.data.shapes import not_believed

FALLBACK = "fallback"
"""The key in a reply's ``extra`` that says which model answered and which did not."""
_MOST_CHARACTERS = 300
log = logging.getLogger("nottwice")


class _Came(NamedTuple):
    """The result of one request."""

    reply: ModelReply | None = None
    error: ToolFailure | None = None


class FallbackProvider:
    """Models that are asked in turn; created by ``nt.providers.fallback``."""

    def __init__(self, providers: tuple[Provider, ...], *, refusals: bool) -> None:
        self._providers = providers
        self._refusals = refusals
        self.most_requests = len(providers) if refusals else 1
        """How many requests one ``complete`` may be billed for."""

    @property
    def model(self) -> str:
        """The names of the models, in the order in which they are asked."""
        return ", then ".join(provider.model for provider in self._providers)

    @property
    def price(self) -> Price | None:
        """The price of the most expensive; None: the price of one is unknown."""
        return dearest(provider.price for provider in self._providers)

    def __repr__(self) -> str:
        return f"<fallback provider of {self.model}>"

    def complete(self, request: ModelRequest) -> ModelReply:
        """Ask until a model answers, and return its reply."""
        asking = self._asking(request)
        provider = next(asking)
        while True:
            try:
                came = _Came(provider.complete(request))
            except ToolFailure as error:
                came = _Came(error=error)
            try:
                provider = asking.send(came)
            except StopIteration as ended:
                return _reply(ended)

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """Do the same without blocking the event loop."""
        asking = self._asking(request)
        provider = next(asking)
        while True:
            try:
                came = _Came(await provider.acomplete(request))
            except ToolFailure as error:
                came = _Came(error=error)
            try:
                provider = asking.send(came)
            except StopIteration as ended:
                return _reply(ended)

    def cost_usd(self, reply: ModelReply) -> float | None:
        """Return what a reply cost, including the refusals before it; None: unknown."""
        noted = reply.extra.get(FALLBACK)
        if not isinstance(noted, dict):
            return cost_of(self._providers[0], reply)
        total = 0.0
        with not_believed("What models were paid for one reply"):
            for one in (*noted["refused"], noted):
                alone = dataclasses.replace(
                    reply, usage=Usage(**one["usage"]), model=one["answered"]
                )
                cost = cost_of(self._providers[one["number"]], alone)
                if cost is None:
                    return None
                total += cost
        return round(total, 9)

    def _asking(self, request: ModelRequest) -> Generator[Provider, _Came, ModelReply]:
        """Yield the next provider to ask, receive its result; return the reply, or raise."""
        count = len(self._providers)
        order = [(request.attempt - 1 + step) % count for step in range(count)]
        turned_away: list[tuple[str, ToolFailure]] = []
        refused: list[dict[str, Any]] = []
        last: ModelReply | None = None
        for number in order:
            provider = self._providers[number]
            came = yield provider
            if came.error is not None:
                if not _was_turned_away(came.error):
                    raise came.error
                turned_away.append((provider.model, came.error))
                log.warning("model %r does not answer: %s", provider.model, came.error)
                continue
            assert came.reply is not None
            last = _noted(came.reply, number, turned_away, refused)
            if came.reply.stop is not StopReason.REFUSED or not self._refusals:
                return last
            refused.append(_paid(came.reply, number))
            log.warning("model %r refuses", provider.model)
        if last is not None:
            # Each has refused, or could not be asked after another had refused: that is the reply.
            return last
        raise _worth_telling(turned_away)


def fallback(*providers: Provider, refusals: bool = True) -> FallbackProvider:
    """Several models as one: ``nt.providers.fallback(first, second)``.

    The next model is asked if the one before it is unavailable (overloaded, no permission, no
    quota, no connection) or refuses. With ``refusals=False`` a refusal in a reply is the reply;
    then a request is billed once, and less is reserved for it.
    """
    if not providers or not all(isinstance(one, Provider) for one in providers):
        raise UsageError(
            "nt.providers.fallback takes one provider or more. Nothing happened. Write "
            "nt.providers.fallback(nt.providers.anthropic('...'), nt.providers.openai('...'))."
        )
    return FallbackProvider(_flat(providers), refusals=refusals)


def _flat(providers: tuple[Provider, ...]) -> tuple[Provider, ...]:
    found: list[Provider] = []
    for one in providers:
        found += _flat(one._providers) if isinstance(one, FallbackProvider) else [one]
    return tuple(found)


def _was_turned_away(error: ToolFailure) -> bool:
    """Whether nothing was answered, and another model may answer.

    Not if the prompt is too long, which is shortened instead, or if a file is missing for all.
    """
    ours = isinstance(error, ContextTooLong | FileChanged)
    return isinstance(error, Retryable | Permanent) and not ours


def _worth_telling(turned_away: list[tuple[str, ToolFailure]]) -> ToolFailure:
    """Return an error that may be retried, if there is one, with what the others said."""
    chosen = next((one for _, one in turned_away if isinstance(one, Retryable)), turned_away[-1][1])
    others = [f"{model}: {error}" for model, error in turned_away if error is not chosen]
    if not others:
        return chosen
    text = f"{chosen.message} Other models did not answer either: {'; '.join(others)}"
    if isinstance(chosen, Retryable):
        return Retryable(text, retry_after=chosen.retry_after)
    return type(chosen)(text)


def _paid(reply: ModelReply, number: int) -> dict[str, Any]:
    return {"answered": reply.model, "number": number, "usage": reply.usage.to_plain()}


def _noted(
    reply: ModelReply,
    number: int,
    turned_away: list[tuple[str, ToolFailure]],
    refused: list[dict[str, Any]],
) -> ModelReply:
    """Return the reply with the models that did and did not answer, and their total usage."""
    noted = {
        **_paid(reply, number),
        "refused": list(refused),
        "turned_away": [
            {"model": model, "error": error.message[:_MOST_CHARACTERS]}
            for model, error in turned_away
        ],
    }
    usage = reply.usage
    for one in refused:
        usage = _sum(usage, Usage(**one["usage"]))
    return dataclasses.replace(reply, usage=usage, extra={**reply.extra, FALLBACK: noted})


def _sum(one: Usage, other: Usage) -> Usage:
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cache_read_tokens + other.cache_read_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
    )


def _reply(ended: StopIteration) -> ModelReply:
    reply: ModelReply = ended.value
    return reply
