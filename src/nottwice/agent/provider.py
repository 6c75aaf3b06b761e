"""What does the harness ask of a model, and what does it get back (A4)?

A provider makes exactly one request per ``complete``. The retries of its SDK are off, because the
harness decides about retries and counts what each may have cost. A provider raises what it knows
about a failure as one of these:

    Retryable(retry_after=…)  the request was rejected: 429, overloaded, no connection
    Permanent                 it will be rejected again: bad request, no permission
    ContextTooLong            the conversation does not fit into the model's window
    ModelRefused              the provider does not answer this conversation
    Ambiguous                 it may have been answered, and billed: cut off, timed out, 5xx

A reply that was cut short, or in which the model refuses, is still a reply: ``stop`` says so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from nottwice.agent.messages import Extra, Message
from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import checked, not_believed


@frozen_record(frozen=True, slots=True)
class ToolSchema:
    """A tool as described to a model."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON schema of its arguments, an object."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One question to a model. It is built whenever it is needed, and never recorded."""

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    most_output_tokens: int = 4096
    options: Mapping[str, Any] = field(default_factory=dict)
    """Passed to the SDK unchanged: temperature, thinking, metadata."""
    turn: int = 1
    """The number of this request in its run; the model does not see it."""
    needs_files: bool = True
    """Whether a file that the user has just sent must exist; otherwise the model is told."""
    attempt: int = 1
    """How often this process has asked for this turn's reply, including this time."""


class StopReason(enum.Enum):
    """Why a model stopped."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    TRUNCATED = "truncated"
    """It was cut off at ``most_output_tokens``; its last block may be incomplete."""
    REFUSED = "refused"
    OTHER = "other"


@frozen_record(frozen=True, slots=True)
class Usage:
    """What one request used. Cached tokens are not part of ``input_tokens``."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0

    @property
    def tokens(self) -> int:
        return (
            self.input_tokens
            + self.output_tokens
            + self.cache_read_tokens
            + self.cache_write_tokens
        )

    def to_plain(self) -> dict[str, int]:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
        }


@frozen_record(frozen=True, slots=True)
class Price:
    """What a model costs, in dollars per million tokens. None: the same as other input."""

    input_usd: float
    output_usd: float
    cache_read_usd: float | None = None
    cache_write_usd: float | None = None

    def __post_init__(self) -> None:
        for name in ("input_usd", "output_usd", "cache_read_usd", "cache_write_usd"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if value is not None and not (number and 0 <= value < 1e9):
                raise UsageError(
                    f"Price({name}={value!r}) is not a price. Nothing was asked. Give dollars per "
                    "million tokens, 0 or more."
                )

    def cost_usd(self, usage: Usage) -> float:
        """Return what this usage costs, to a billionth of a dollar."""
        read = self.input_usd if self.cache_read_usd is None else self.cache_read_usd
        write = self.input_usd if self.cache_write_usd is None else self.cache_write_usd
        millionths = (
            usage.input_tokens * self.input_usd
            + usage.output_tokens * self.output_usd
            + usage.cache_read_tokens * read
            + usage.cache_write_tokens * write
        )
        return round(millionths / 1e6, 9)

    def most_usd(self, usage: Usage) -> float:
        """Return the most that this usage can cost: all of its input may be written to a cache."""
        dearest = max(self.input_usd, self.cache_write_usd or 0.0)
        return Price(dearest, self.output_usd).cost_usd(usage)


@frozen_record(frozen=True, slots=True, kw_only=True)
class ModelReply:
    """What a model said, and what it used."""

    message: Message
    """Of the assistant."""
    stop: StopReason
    usage: Usage
    model: str
    """The model that answered, as the provider names it."""
    extra: Extra = field(default_factory=dict)
    """Other data from the provider: its request id, the service tier."""

    def to_plain(self) -> dict[str, Any]:
        return {
            "message": self.message.to_plain(),
            "stop": self.stop.value,
            "usage": self.usage.to_plain(),
            "model": self.model,
            "extra": dict(self.extra),
        }

    @classmethod
    def from_plain(cls, plain: Any) -> ModelReply:
        """Read what ``to_plain`` wrote; anything else is LedgerCorrupt."""
        with not_believed("The recorded reply of a model"):
            reply = cls(
                message=Message.from_plain(plain["message"]),
                stop=StopReason(plain["stop"]),
                usage=checked(Usage(**plain["usage"])),
                model=plain["model"],
                extra=plain["extra"],
            )
            return checked(reply)


@runtime_checkable
class Provider(Protocol):
    """A model behind an API. Several threads may use one object at the same time."""

    @property
    def model(self) -> str:
        """The name of the model."""

    @property
    def price(self) -> Price | None:
        """What it costs; None: unknown, so that no budget in dollars can be kept."""

    def complete(self, request: ModelRequest) -> ModelReply:
        """Make one request, and return the whole reply."""

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """Do the same without blocking the event loop."""


@runtime_checkable
class CountsCosts(Protocol):
    """A provider that knows what a reply cost, if several models may have answered (P206)."""

    def cost_usd(self, reply: ModelReply) -> float | None:
        """Return what this reply cost; None: unknown."""


def cost_of(provider: Provider, reply: ModelReply) -> float | None:
    """Return what a reply cost, at the price of the model that answered; None: unknown."""
    if isinstance(provider, CountsCosts):
        return provider.cost_usd(reply)
    return None if provider.price is None else provider.price.cost_usd(reply.usage)


def billed_at_most(provider: Provider) -> int:
    """Return how many requests one ``complete`` may bill: one, unless the provider says more."""
    return int(getattr(provider, "most_requests", 1))


def dearest(prices: Iterable[Price | None]) -> Price | None:
    """Return a price that is never below any of these; None: one of them is unknown."""
    known = list(prices)
    if not known or None in known:
        return None
    found = [price for price in known if price is not None]
    return Price(
        max(price.input_usd for price in found),
        max(price.output_usd for price in found),
        max(_or(price.cache_read_usd, price.input_usd) for price in found),
        max(_or(price.cache_write_usd, price.input_usd) for price in found),
    )


def _or(price: float | None, other: float) -> float:
    return other if price is None else price


_SAID = "nottwice sets it itself"
_HIDDEN = "the budget would not know how much it adds to the prompt"
_WHOLE = "a reply is read, counted and recorded as a whole"
REFUSED_OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("max_tokens", "max_output_tokens", "max_completion_tokens"),
        "the budget would not know of it; use most_output_tokens=... instead",
    ),
    **dict.fromkeys(("n", "best_of"), "each reply is billed, and a turn has one"),
    **dict.fromkeys(("stream", "background"), _WHOLE),
    **dict.fromkeys(("extra_body", "extra_query"), "the budget would not know what it asks for"),
    **dict.fromkeys(
        ("model", "messages", "input", "system", "instructions", "tools"),
        f"{_SAID}: give it to the agent or to its provider",
    ),
    **dict.fromkeys(("previous_response_id", "conversation", "prompt"), _HIDDEN),
    "timeout": "a request that is abandoned may be billed; use time_limit=... instead",
}
"""SDK options that would bypass the budget or the record, and why."""


def check_options(options: Mapping[str, Any], *, who: str) -> None:
    """Refuse options that would bypass the budget or the record. UsageError (P207)."""
    for name in options:
        if name in REFUSED_OPTIONS:
            raise UsageError(
                f"{who} has options={{{name!r}: ...}}, which is not possible: "
                f"{REFUSED_OPTIONS[name]}. Nothing was asked. Leave it out."
            )
