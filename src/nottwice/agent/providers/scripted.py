"""A model that answers from a script: for tests, demos and the crash test.

Its answer depends only on the turn, never on how often it was asked. It can count its requests in a
file, which survives the process: after a crash nothing else knows how often it was asked.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from nottwice.agent.context import estimate_tokens
from nottwice.agent.messages import Block, Message, Role, Text, ToolCall
from nottwice.agent.provider import ModelReply, ModelRequest, Price, StopReason, Usage
from nottwice.errors import UsageError

Reply = str | Mapping[str, Any] | Iterable[Any] | BaseException
Script = Iterable[Reply] | Callable[[ModelRequest], Reply]


class ScriptedProvider:
    """Answers turn by turn; created by ``scripted``."""

    def __init__(
        self, script: Script, *, model: str, price: Price | None, log: str | Path | None
    ) -> None:
        self.model = model
        self.price = price
        self._script = script if callable(script) else tuple(script)
        self._log = None if log is None else Path(log)

    def __repr__(self) -> str:
        return f"<scripted provider of {self.model!r}>"

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply of this turn, in any process and however often it is asked."""
        turn = request.turn
        if callable(self._script):
            reply = self._script(request)
        elif turn <= len(self._script):
            reply = self._script[turn - 1]
        else:
            raise UsageError(
                f"The script has {len(self._script)} replies, and the conversation asks for reply "
                f"{turn}. Nothing was answered. Write one more."
            )
        self._count(turn, request)
        if isinstance(reply, BaseException):
            raise reply
        return _spoken(reply, turn, request, self.model)

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """Do the same; there is nothing to wait for."""
        return self.complete(request)

    def _count(self, turn: int, request: ModelRequest) -> None:
        if self._log is None:
            return
        line = json.dumps({"turn": turn, "messages": len(request.messages), "pid": os.getpid()})
        with self._log.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
            file.flush()
            os.fsync(file.fileno())


def scripted(
    script: Script,
    *,
    model: str = "scripted-1",
    price: Price | None = Price(1.0, 5.0),  # noqa: B008
    log: str | Path | None = None,
) -> ScriptedProvider:
    """A provider that answers from a script.

    ``script``: a reply for each turn, or a function of the request. A reply is text; a call,
    ``{"refund": {"order_id": 7}}``; a list of both; or an exception, which is raised.
    ``log``: a file that gets a line for every request.
    """
    return ScriptedProvider(script, model=model, price=price, log=log)


def requests_in(log: str | Path) -> list[int]:
    """Return the turns that were asked for, in order, from a log of requests."""
    path = Path(log)
    if not path.exists():
        return []
    return [json.loads(line)["turn"] for line in path.read_text(encoding="utf-8").splitlines()]


def _spoken(reply: Any, turn: int, request: ModelRequest, model: str) -> ModelReply:
    parts = [reply] if isinstance(reply, str | Mapping) else list(reply)
    blocks: list[Block] = []
    for number, part in enumerate(parts):
        if isinstance(part, str):
            blocks.append(Text(part))
        elif isinstance(part, Mapping):
            for name, arguments in part.items():
                call_id = f"call_{turn}_{number}_{len(blocks)}"
                blocks.append(ToolCall(call_id, name, dict(arguments)))
        else:
            blocks.append(part)
    message = Message(Role.ASSISTANT, tuple(blocks))
    prompt = estimate_tokens([one.to_plain() for one in request.messages])
    usage = Usage(prompt, estimate_tokens(message.to_plain()))
    stop = StopReason.TOOL_CALLS if message.tool_calls else StopReason.END
    return ModelReply(message=message, stop=stop, usage=usage, model=model)
