"""Claude, through Anthropic's own SDK and its Messages API: what goes out, and what comes back.

What the API says beside the fields that a block has is kept in its ``extra``, under ``anthropic``,
and goes back as it came: signatures of thinking, citations, cache marks, blocks of a kind that is
not known here. What another provider said under its own name is not sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from nottwice.agent.messages import (
    Block,
    Message,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    Unknown,
)
from nottwice.agent.provider import ModelReply, ModelRequest, StopReason, Usage
from nottwice.agent.providers.prices import Prices, price_of
from nottwice.agent.providers.sdk import Api, SdkProvider

ANTHROPIC = "anthropic"
_STOPS = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.END,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.TRUNCATED,
    "model_context_window_exceeded": StopReason.TRUNCATED,
    "refusal": StopReason.REFUSED,
}


def anthropic(
    model: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    max_tokens: int | None = None,
    prices: Prices | None = None,
    time_limit: str | float = "10m",
) -> SdkProvider:
    """A model of Anthropic: ``nt.providers.anthropic("claude-sonnet-5-5")``.

    ``api_key``: else what the SDK finds, usually in ANTHROPIC_API_KEY. ``max_tokens``: never more
    output tokens than this, whatever is asked for. ``prices``: by model, where the list here is
    silent or out of date. Needs ``pip install 'nottwice[anthropic]'``.
    """
    return SdkProvider(
        API,
        model,
        api_key=api_key,
        base_url=base_url,
        max_tokens=max_tokens,
        time_limit=time_limit,
        price=price_of(model, prices),
    )


def ask(request: ModelRequest) -> dict[str, Any]:
    """The words of one request."""
    asked: dict[str, Any] = {"messages": list(_outgoing(request.messages))}
    if request.system:
        asked["system"] = request.system
    if request.tools:
        asked["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": {"type": "object", "properties": {}, **tool.parameters},
            }
            for tool in request.tools
        ]
    return asked


def _outgoing(messages: Iterable[Message]) -> Iterable[dict[str, Any]]:
    for message in messages:
        content = [sent for block in message.blocks if (sent := _sent(block)) is not None]
        # The API wants the results of tools before anything else that is said.
        content.sort(key=lambda sent: sent["type"] != "tool_result")
        if content:
            own = message.extra.get(ANTHROPIC, {})
            yield {"role": message.role.value, "content": content, **own}


def _sent(block: Block) -> dict[str, Any] | None:
    """A block as the API takes it; None: it cannot be sent."""
    own = block.extra.get(ANTHROPIC)
    more = own if isinstance(own, Mapping) else {}
    match block:
        case Text():
            # An empty text is refused.
            return {"type": "text", "text": block.text, **more} if block.text.strip() else None
        case Reasoning():
            if own is None:
                return None
            if more.get("type") == "redacted_thinking":
                return dict(more)
            return {"type": "thinking", "thinking": block.text, **more}
        case ToolCall():
            called = {"id": block.id, "name": block.name, "input": dict(block.arguments)}
            return {"type": "tool_use", **called, **more}
        case ToolResult():
            result: dict[str, Any] = {"tool_use_id": block.call_id, "content": block.content}
            if block.is_error:
                result["is_error"] = True
            return {"type": "tool_result", **result, **more}
        case Unknown():
            return None if own is None else dict(block.payload)


def read(body: dict[str, Any], headers: Mapping[str, str]) -> ModelReply:
    """The reply in the body of an answer."""
    stop = _STOPS.get(body["stop_reason"], StopReason.OTHER)
    blocks = [_received(block) for block in body["content"]]
    if stop is StopReason.TRUNCATED and blocks and isinstance(blocks[-1], ToolCall):
        blocks[-1] = _cut_off(blocks[-1])
    rest = {name: value for name, value in body.items() if name not in ("content", "role", "type")}
    used = body["usage"]
    return ModelReply(
        message=Message(Role.ASSISTANT, tuple(blocks)),
        stop=stop,
        usage=Usage(
            input_tokens=used["input_tokens"],
            output_tokens=used["output_tokens"],
            cache_read_tokens=used.get("cache_read_input_tokens") or 0,
            cache_write_tokens=used.get("cache_creation_input_tokens") or 0,
        ),
        model=body["model"],
        extra={ANTHROPIC: {**rest, "request_id": headers.get("request-id")}},
    )


def _received(block: dict[str, Any]) -> Block:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text, _rest(block, "type", "text"))
        case {"type": "thinking", "thinking": str(text)}:
            return Reasoning(text, _rest(block, "type", "thinking", always=True))
        case {"type": "redacted_thinking"}:
            return Reasoning("", _rest(block, always=True))
        case {"type": "tool_use", "id": str(id), "name": str(name), "input": dict(arguments)}:
            extra = _rest(block, "type", "id", "name", "input")
            return ToolCall(id, name, arguments, extra=extra)
        case _:
            return Unknown(block, {ANTHROPIC: {}})


def _rest(block: dict[str, Any], *known: str, always: bool = False) -> dict[str, Any]:
    """What a block says beside what is known; what it says nothing about is left out."""
    rest = {name: value for name, value in block.items() if name not in known and value is not None}
    return {ANTHROPIC: rest} if rest or always else {}


def _cut_off(call: ToolCall) -> ToolCall:
    """A call whose arguments ended where the tokens did must not be made."""
    own = {**call.extra.get(ANTHROPIC, {}), "input": dict(call.arguments)}
    return ToolCall(
        call.id,
        call.name,
        {},
        unreadable=json.dumps(call.arguments, ensure_ascii=False),
        extra={**call.extra, ANTHROPIC: own},
    )


API = Api(
    package=ANTHROPIC,
    client="Anthropic",
    async_client="AsyncAnthropic",
    most_output="max_tokens",
    create=lambda client: client.messages.with_raw_response.create,
    ask=ask,
    read=read,
)
