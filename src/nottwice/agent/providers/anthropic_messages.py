"""Claude, through Anthropic's SDK and its Messages API: building requests and reading replies.

Fields of the API that a block does not have are kept in its ``extra``, under ``anthropic``, and
sent back unchanged: signatures of thinking, citations, cache marks, blocks of an unknown kind. The
``extra`` of another provider is not sent.

Models from 5.1 on refuse a conversation in which something before a thinking block has changed. An
agent's window does change: older turns are compacted, and the plan advances. So every thinking
block is kept with a hash of what was sent before it, and is left out once that is no longer sent.
Promise kept here: P234.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
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
    first_unseen,
)
from nottwice.agent.provider import ModelReply, ModelRequest, StopReason, Usage
from nottwice.agent.providers.prices import Prices
from nottwice.agent.providers.sdk import Api, SdkProvider, count
from nottwice.agent.requests.files import IMAGES, File, load
from nottwice.model.tool import Duration

ANTHROPIC = "anthropic"
SENT_BEFORE = "anthropic_sent_before"
"""The hash of what was sent before a thinking block, in the ``extra`` of that block."""
_MARK = "cache_control"
_CALL = ("id", "name")
MOST_MARKS = 4
"""How many cache marks the API accepts in one request."""
_VERSION = re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?:-|$)")
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
    most_output_tokens: int | None = None,
    prices: Prices | None = None,
    time_limit: Duration = "10m",
    binds_thinking: bool | None = None,
    cache: bool = True,
) -> SdkProvider:
    """A model of Anthropic: ``nt.providers.anthropic("claude-sonnet-5-5")``.

    ``api_key``: by default what the SDK finds, usually in ANTHROPIC_API_KEY.
    ``most_output_tokens``: an upper limit for every request. ``prices``: by model, if the built-in
    list lacks it or is out of date. ``binds_thinking``: whether the model accepts a thinking block
    only if nothing before it has changed; None: by its name. ``cache``: mark the prompt so that
    the API caches its beginning from turn to turn (P205).
    Needs ``pip install 'nottwice[anthropic]'``.
    """
    binds = _binds_thinking(model) if binds_thinking is None else binds_thinking
    return SdkProvider(
        API._replace(ask=functools.partial(ask, binds_thinking=binds, cache=cache)),
        model,
        api_key=api_key,
        base_url=base_url,
        max_tokens=most_output_tokens,
        time_limit=time_limit,
        prices=prices,
    )


def _binds_thinking(model: object) -> bool:
    """Whether the model binds thinking to what was sent before, by the version in its name."""
    found = _VERSION.match(str(model))
    return found is not None and (int(found[1]), int(found[2] or 0)) > (5, 0)


def ask(
    request: ModelRequest, *, binds_thinking: bool = False, cache: bool = False
) -> dict[str, Any]:
    """Build the parameters of one request."""
    asked: dict[str, Any] = {}
    if request.system:
        asked["system"] = [{"type": "text", "text": request.system}]
    if request.tools:
        asked["tools"] = [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": {"type": "object", "properties": {}, **tool.parameters},
            }
            for tool in request.tools
        ]
    asked["messages"] = []
    so_far = _Sent(asked)
    unseen = first_unseen(request.messages) if request.needs_files else len(request.messages)
    for number, message in enumerate(request.messages):
        before = so_far.hash if binds_thinking else None
        content = list(_outgoing(message.blocks, before, needed=number >= unseen))
        # The API wants tool results before anything else in the message.
        content.sort(key=lambda sent: sent["type"] != "tool_result")
        if content:
            own = message.extra.get(ANTHROPIC, {})
            asked["messages"].append({"role": message.role.value, "content": content, **own})
            so_far.add(asked["messages"][-1])
    if cache and _MARK not in request.options:
        _mark(asked)
    return asked


def _mark(asked: dict[str, Any]) -> None:
    """Mark the prompt for the cache: up to its end, and the part that all runs of an agent share.

    The end of the previous turn is marked, too, because the API looks back at most twenty blocks
    for cached content, and a turn of many parallel calls has more.
    """
    left = MOST_MARKS - json.dumps(asked).count(f'"{_MARK}":')
    spoken = [message["content"] for message in asked["messages"] if message["role"] == "user"]
    shared = asked.get("system") or asked.get("tools")
    ends = [*reversed(spoken[-1:]), *([shared] if shared else []), *spoken[-2:-1]]
    for parts in ends[: max(0, left)]:
        parts[-1] = {_MARK: {"type": "ephemeral"}, **parts[-1]}


def _outgoing(
    blocks: Iterable[Block], sent_before: str | None, *, needed: bool
) -> Iterable[dict[str, Any]]:
    for block in blocks:
        sent = _sent(block, needed=needed)
        bound = isinstance(block, Reasoning) and sent_before is not None
        if sent is None or (bound and block.extra.get(SENT_BEFORE) != sent_before):
            continue
        yield sent


class _Sent:
    """What a thinking block depends on: instructions, tools and messages, without cache marks."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self._running = hashlib.sha256()
        self.add([asked.get("system"), asked.get("tools")])
        for message in asked["messages"]:
            self.add(message)

    def add(self, part: Any) -> None:
        self._running.update(json.dumps(_without_marks(part), sort_keys=True).encode() + b"\n")

    @property
    def hash(self) -> str:
        return self._running.hexdigest()[:32]


def _without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_marks(each) for each in value]
    if isinstance(value, Mapping):
        return {name: _without_marks(each) for name, each in value.items() if name != _MARK}
    return value


def _sent(block: Block, *, needed: bool) -> dict[str, Any] | None:
    """Return a block in the API's form; None: it cannot be sent."""
    own = block.extra.get(ANTHROPIC)
    more = own if isinstance(own, Mapping) else {}
    match block:
        case Text():
            # The API refuses an empty text.
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
            if block.files:
                told = [{"type": "text", "text": block.content}] if block.content.strip() else []
                result["content"] = [*told, *(_shown(file, needed=False) for file in block.files)]
            return {"type": "tool_result", **result, **more}
        case File():
            return _shown(block, needed=needed)
        case Unknown():
            return None if own is None else dict(block.payload)


def _shown(file: File, *, needed: bool) -> dict[str, Any]:
    """Return a file in the API's form."""
    kind = "image" if file.media_type in IMAGES else "document"
    if file.is_address:
        return {"type": kind, "source": {"type": "url", "url": str(file.where)}}
    content = load(file, needed=needed)
    if isinstance(content, str):
        return {"type": "text", "text": content}
    if file.is_text:
        text = content.decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": text}
        return {"type": kind, "source": source, "title": file.name}
    data = base64.b64encode(content).decode()
    source = {"type": "base64", "media_type": file.media_type, "data": data}
    return {"type": kind, "source": source}


def read(body: dict[str, Any], headers: Mapping[str, str], asked: dict[str, Any]) -> ModelReply:
    """Read the reply from the body of a response."""
    stop = _STOPS.get(body["stop_reason"], StopReason.OTHER)
    sent_before = _Sent(asked).hash
    blocks = [_received(block, sent_before) for block in body["content"]]
    if stop is StopReason.TRUNCATED and blocks and isinstance(blocks[-1], ToolCall):
        blocks[-1] = _cut_off(blocks[-1])
    rest = {name: value for name, value in body.items() if name not in ("content", "role", "type")}
    used = body["usage"]
    return ModelReply(
        message=Message(Role.ASSISTANT, tuple(blocks)),
        stop=stop,
        usage=Usage(
            input_tokens=count(used["input_tokens"]),
            output_tokens=count(used["output_tokens"]),
            cache_read_tokens=count(used.get("cache_read_input_tokens")),
            cache_write_tokens=count(used.get("cache_creation_input_tokens")),
        ),
        model=str(body["model"]),
        extra={ANTHROPIC: {**rest, "request_id": headers.get("request-id")}},
    )


def _received(block: dict[str, Any], sent_before: str) -> Block:
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(text, _rest(block, "type", "text"))
        case {"type": "thinking", "thinking": str(text), "signature": str()}:
            own = _rest(block, "type", "thinking", always=True)
            return Reasoning(text, {**own, SENT_BEFORE: sent_before})
        case {"type": "redacted_thinking", "data": str()}:
            return Reasoning("", {**_rest(block, always=True), SENT_BEFORE: sent_before})
        case {"type": "tool_use"}:
            return _called(block)
        case {"type": "text" | "thinking" | "redacted_thinking"}:
            # The API would not accept it, so it is kept and never sent.
            return Unknown(block)
        case {"type": str()}:
            return Unknown(block, {ANTHROPIC: {}})
    # It could never be sent back, and every later request would fail.
    raise ValueError(f"{block!r} is no block")


def _called(block: dict[str, Any]) -> ToolCall:
    """Read a call, whatever the model wrote; the model is told if the call cannot be made."""
    id, name = (block.get(word) if isinstance(block.get(word), str) else "" for word in _CALL)
    arguments, extra = block.get("input"), _rest(block, "type", "input", *_CALL)
    if isinstance(arguments, dict):
        return ToolCall(str(id), str(name), arguments, extra=extra)
    written = json.dumps(arguments, ensure_ascii=False)
    return ToolCall(str(id), str(name), {}, unreadable=written, extra=extra)


def _rest(block: dict[str, Any], *known: str, always: bool = False) -> dict[str, Any]:
    """Return the unknown fields of a block; fields without a value are left out."""
    rest = {name: value for name, value in block.items() if name not in known and value is not None}
    return {ANTHROPIC: rest} if rest or always else {}


def _cut_off(call: ToolCall) -> ToolCall:
    """Mark a call as incomplete: its arguments ended with the tokens, so it must not be made."""
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
