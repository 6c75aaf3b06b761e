"""A model API that a test can trust: it rejects what the real one rejects, and counts.

``FakeModels`` speaks the wire formats of Anthropic's Messages API and OpenAI's Responses API on a
loopback port, to the real SDKs. What it says is scripted turn by turn, faults are scripted request
by request. It is a process of its own, so it survives the death of the agent under test. Promise
kept here: P209.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Literal

from nottwice.agent.provider import Provider, Usage
from nottwice.agent.providers.anthropic_messages import anthropic
from nottwice.agent.providers.openai_responses import openai
from nottwice.errors import NottwiceError, UsageError
from nottwice.model.data.records import frozen_record
from nottwice.testing.loopback import LoopbackServer, start_server
from nottwice.testing.models.wire import Limits

KEY = "fake-key"


class FakeModelsNotStarted(NottwiceError):
    """The process of the fake model APIs did not come up; nothing was asked."""


class Turn:
    """What a fake model says in one turn: texts and calls, in order.

    ``parts``: a text; a call, ``{"refund": {"order_id": 7}}``; or ``{"raw": block}``, a block of
    the wire format. ``thinking``: a thought before them. ``stop``: ``"max_tokens"`` or
    ``"refusal"``. ``model``: the name of the model that answers, if it is not the one that was
    asked. ``body``: the whole answer in the wire format, instead of all that.
    """

    def __init__(
        self,
        *parts: str | Mapping[str, Any],
        thinking: str | None = None,
        stop: Literal["max_tokens", "refusal"] | None = None,
        model: str | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> None:
        self.parts, self.thinking, self.stop, self.model = parts, thinking, stop, model
        self.body = body

    def to_plain(self) -> dict[str, Any]:
        """The turn as the server is told it."""
        if self.body is not None:
            return {"body": dict(self.body)}
        said: list[dict[str, Any]] = []
        if self.thinking is not None:
            said.append({"thinking": self.thinking})
        for part in self.parts:
            if isinstance(part, str):
                said.append({"text": part})
            elif "raw" in part:
                said.append({"raw": part["raw"]})
            else:
                said += [{"tool": name, "arguments": dict(each)} for name, each in part.items()]
        return {"parts": said, "stop": self.stop, "model": self.model}


Scripted = str | Mapping[str, Any] | Iterable[Any] | Turn
"""A turn: a text, a call, a list of both, or a ``Turn`` for everything else."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Fault:
    """How the fake answers one request instead of the next reply, or around it."""

    status: int = 200
    kind: str | None = None
    """The type of the error; None: the usual one for the status."""
    code: str | None = None
    message: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """Sent as it is; text is sent without being made JSON."""
    drop: bool = False
    cut: bool = False
    too_long: bool = False
    delay_seconds: float = 0.0

    @classmethod
    def rate_limited(cls, retry_after: float | None = None) -> Fault:
        """429, with Retry-After if you give it."""
        return cls(status=429, message="rate limit reached", headers=_retry_after(retry_after))

    @classmethod
    def overloaded(cls, retry_after: float | None = None) -> Fault:
        """529, as Anthropic says it."""
        return cls(status=529, message="Overloaded", headers=_retry_after(retry_after))

    @classmethod
    def server_error(cls) -> Fault:
        """500: it may have been answered, and billed."""
        return cls(status=500, message="Internal server error")

    @classmethod
    def dropped(cls) -> Fault:
        """The connection is closed, and there is no answer."""
        return cls(drop=True)

    @classmethod
    def cut_off(cls) -> Fault:
        """The reply of the script, of which only half arrives."""
        return cls(cut=True)

    @classmethod
    def slow(cls, seconds: float) -> Fault:
        """The reply of the script, this many seconds later."""
        return cls(delay_seconds=seconds)

    @classmethod
    def prompt_too_long(cls) -> Fault:
        """400: the prompt does not fit, as the API spells it."""
        return cls(status=400, too_long=True)

    @classmethod
    def answer(
        cls, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Fault:
        """Any body at all, as it is."""
        return cls(body=body, status=status, headers=headers or {})


def _retry_after(seconds: float | None) -> dict[str, str]:
    return {} if seconds is None else {"retry-after": f"{seconds:g}"}


@frozen_record(frozen=True, slots=True, kw_only=True)
class SeenRequest:
    """A request that reached the fake."""

    number: int
    path: str
    model: str
    turn: int
    """Which reply of its conversation it asked for, from 1 on."""
    body: Any
    headers: Mapping[str, str]
    status: int
    rejected: str | None
    """Why the API does not accept it; None: it does."""
    usage: Usage
    """What it took; nothing if the answer was a fault."""


class FakeModels(LoopbackServer):
    """Both APIs on a loopback port; they end with the block, or with their starter."""

    @classmethod
    def start(cls, **limits: Any) -> FakeModels:
        """Start the APIs and wait until they listen; ``limits`` as for ``reset``."""
        started = start_server("nottwice.testing.models.server")
        if started is None:
            raise FakeModelsNotStarted("The process of the fake model APIs did not come up.")
        fake = cls(*started)
        fake.reset(**limits)
        return fake

    def reset(self, **limits: Any) -> None:
        """Forget scripts, faults, caches and requests.

        ``strict=False``: accept any request. ``context_tokens``, ``most_output_tokens``,
        ``least_cached_tokens``: how much fits into a prompt and a reply, and from how many tokens
        on a prompt is cached.
        """
        strange = sorted(limits.keys() - set(Limits._fields))
        if strange:
            raise UsageError(
                f"The fake model APIs have no limit {strange[0]!r}. Nothing was changed. They "
                f"have: {', '.join(Limits._fields)}."
            )
        self._tell({"reset": limits})

    def will_say(
        self,
        *turns: Scripted,
        model: str | None = None,
        by: Literal["turn", "order"] = "turn",
    ) -> None:
        """Script what a model says; ``model``: only the one of this name.

        By ``turn``, a question gets the reply that its conversation lacks, however often it is
        asked: so a killed agent gets the same words again. By ``order``, each new question gets the
        next reply, and the very same question the same one: for conversations whose beginning is
        no longer sent, and for replies that say nothing. An agent does not send those back, so by
        ``turn`` they would be given forever; UsageError.
        """
        plain = [_plain(turn) for turn in turns]
        if by == "turn":
            for number, turn in enumerate(plain, start=1):
                _check_says_something(turn, number)
        self._tell({"script": plain, "model": model, "by": by})

    def will_fail(self, *faults: Fault, model: str | None = None) -> None:
        """Script how the next requests are answered, one fault each; then the script continues."""
        plain = [{name: getattr(fault, name) for name in _FAULT} for fault in faults]
        self._tell({"faults": plain, "model": model})

    @property
    def requests(self) -> list[SeenRequest]:
        """Every request since the start or the last reset, in order."""
        found = self._tell({"seen": 0})
        return [SeenRequest(usage=Usage(*one.pop("tokens")), **one) for one in found]

    @property
    def rejected(self) -> list[str]:
        """Why requests were rejected: empty after a sound conversation."""
        return [one.rejected for one in self.requests if one.rejected is not None]

    @property
    def usage(self) -> Usage:
        """What all answers took together."""
        took = [one.usage for one in self.requests]
        return Usage(
            sum(one.input_tokens for one in took),
            sum(one.output_tokens for one in took),
            sum(one.cache_read_tokens for one in took),
            sum(one.cache_write_tokens for one in took),
        )

    def anthropic(self, model: str = "claude-sonnet-5-5", **options: Any) -> Provider:
        """A provider that asks this fake through Anthropic's SDK."""
        return anthropic(model, **{"base_url": self.url, "api_key": KEY, **options})

    def openai(self, model: str = "gpt-5.4-mini", **options: Any) -> Provider:
        """A provider that asks this fake through OpenAI's SDK."""
        return openai(model, **{"base_url": f"{self.url}/v1", "api_key": KEY, **options})

    def _tell(self, order: dict[str, Any]) -> Any:
        data = json.dumps(order).encode()
        # No proxy that the environment names may come between a test and its own machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.url}/nottwice", data=data, timeout=20) as answer:
            return json.load(answer)


_FAULT = "status kind code message headers body drop cut too_long delay_seconds".split()


def _plain(turn: Scripted) -> dict[str, Any]:
    if isinstance(turn, Turn):
        return turn.to_plain()
    parts = [turn] if isinstance(turn, str | Mapping) else list(turn)
    return Turn(*parts).to_plain()


def _check_says_something(turn: dict[str, Any], number: int) -> None:
    """Refuse a reply that its agent would leave out of the conversation, and so ask for again."""
    if turn.get("stop") == "refusal":
        # A person decides what comes after it.
        return
    body = turn.get("body", {})
    said = turn.get("parts", body.get("content", body.get("output")))
    if said is None or any(_says_something(part) for part in said):
        return
    raise UsageError(
        f"Reply {number} of the script says nothing. An agent does not send such a reply back, so "
        "its conversation would lack this reply forever and get it again each time. Nothing was "
        "scripted. Give the replies by the order of the questions: will_say(..., by='order')."
    )


_SAYS_SOMETHING = ("text", "tool_use", "message", "function_call")


def _says_something(part: Any) -> bool:
    """Whether a part of a reply is more than a thought, or words without anything in them."""
    if isinstance(part, Mapping) and isinstance(raw := part.get("raw"), Mapping):
        return raw.get("type") in _SAYS_SOMETHING and raw.get("content") != []
    if not isinstance(part, Mapping) or part.keys() & {"thinking", "text"} != part.keys():
        return True
    return bool(str(part.get("text", "")).strip())
