"""Models of OpenAI, through its SDK and the Responses API: building requests and reading replies.

The Responses API is used and not Chat Completions, because only it returns the reasoning between
two tool calls, encrypted, and accepts it again. Without it a model starts its reasoning over after
every tool. OpenAI stores nothing (``store=False``): the ledger is the conversation. An item is sent
back unchanged, from the ``extra`` of its block, under ``openai``, but without its id: OpenAI would
look for that id among its stored items, and refuse the request. Promise kept here: P234.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
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
from nottwice.errors import Ambiguous, ModelRefused, Permanent, Retryable, ToolFailure
from nottwice.model.tool import Duration

OPENAI = "openai"
_ITEM, _PART = "item", "part"
_CALL = ("call_id", "name")
_FAILURES: dict[str, type[ToolFailure]] = {
    "rate_limit_exceeded": Retryable,
    "server_error": Ambiguous,
    "vector_store_timeout": Ambiguous,
    "invalid_prompt": ModelRefused,
    "bio_policy": ModelRefused,
    "misalignment_policy_violation": ModelRefused,
    "image_content_policy_violation": ModelRefused,
}


def openai(
    model: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    most_output_tokens: int | None = None,
    prices: Prices | None = None,
    time_limit: Duration = "10m",
    cache: bool = True,
) -> SdkProvider:
    """A model of OpenAI: ``nt.providers.openai("gpt-5.4-mini")``.

    ``api_key``: by default what the SDK finds, usually in OPENAI_API_KEY. ``most_output_tokens``:
    an upper limit for every request. ``prices``: by model, if the built-in list lacks it or is out
    of date. ``cache``: route the requests of one conversation to where its beginning is cached
    (P205). Needs ``pip install 'nottwice[openai]'``.
    """
    return SdkProvider(
        API._replace(ask=functools.partial(ask, cache=cache)),
        model,
        api_key=api_key,
        base_url=base_url,
        max_tokens=most_output_tokens,
        time_limit=time_limit,
        prices=prices,
    )


def ask(request: ModelRequest, *, cache: bool = False) -> dict[str, Any]:
    """Build the parameters of one request."""
    unseen = first_unseen(request.messages) if request.needs_files else len(request.messages)
    items = [
        item
        for number, message in enumerate(request.messages)
        for item in _outgoing(message, needed=number >= unseen)
    ]
    asked: dict[str, Any] = {"store": False, "include": ["reasoning.encrypted_content"]}
    asked["input"] = items if request.options.get("store") else list(_self_contained(items))
    if request.system:
        asked["instructions"] = request.system
    if request.tools:
        asked["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": {"type": "object", "properties": {}, **tool.parameters},
                # Strict schemas have no optional parameters, and the guard validates anyway.
                "strict": False,
            }
            for tool in request.tools
        ]
    if cache:
        asked["prompt_cache_key"] = _cache_key(asked)
    return asked


def _cache_key(asked: dict[str, Any]) -> str:
    """Return what the requests of one conversation, and few others, share: its beginning."""
    begun = [asked.get("instructions"), asked.get("tools"), asked["input"][:1]]
    hashed = hashlib.sha256(json.dumps(begun, sort_keys=True).encode("utf-8", "replace"))
    return f"nottwice-{hashed.hexdigest()[:32]}"


def _outgoing(message: Message, *, needed: bool) -> Iterator[dict[str, Any]]:
    """Yield the items of one message, in order; texts of one item stay in one item."""
    said: dict[str, Any] | None = None
    for block in message.blocks:
        if isinstance(block, Text):
            item = _item_of(message.role, block)
            if said is None or item.get("id") is None or item["id"] != said.get("id"):
                if said is not None:
                    yield said
                said = {**item, "content": []}
            said["content"].append(_part_of(message.role, block))
            continue
        if said is not None:
            yield said
            said = None
        sent = _sent(block, needed=needed)
        if sent is not None:
            yield sent
    if said is not None:
        yield said


def _self_contained(items: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the items without ids, which only an API that has stored them could look up."""
    for item in items:
        if item["type"] == "reasoning" and not item.get("encrypted_content"):
            continue
        yield {name: value for name, value in item.items() if name != "id"}


def _item_of(role: Role, block: Text) -> dict[str, Any]:
    own = block.extra.get(OPENAI, {}).get(_ITEM)
    return dict(own) if own is not None else {"type": "message", "role": role.value}


def _part_of(role: Role, block: Text) -> dict[str, Any]:
    own = block.extra.get(OPENAI, {}).get(_PART)
    if own is not None:
        return {**own, "refusal" if own["type"] == "refusal" else "text": block.text}
    kind = "input_text" if role is Role.USER else "output_text"
    return {"type": kind, "text": block.text}


def _sent(
    block: Reasoning | ToolCall | ToolResult | File | Unknown, *, needed: bool
) -> dict[str, Any] | None:
    """Return an item that is not a message; None: it cannot be sent."""
    own = block.extra.get(OPENAI)
    match block:
        case Reasoning():
            return None if own is None else dict(own)
        case ToolCall():
            arguments = json.dumps(dict(block.arguments), ensure_ascii=False)
            if block.unreadable is not None:
                arguments = block.unreadable
            called = {"call_id": block.id, "name": block.name, "arguments": arguments}
            return {"type": "function_call", **called, **(own or {})}
        case ToolResult():
            answered: dict[str, Any] = {"call_id": block.call_id, "output": block.content}
            if block.files:
                told = [{"type": "input_text", "text": block.content}] if block.content else []
                answered["output"] = [*told, *(_shown(file, needed=False) for file in block.files)]
            return {"type": "function_call_output", **answered, **(own or {})}
        case File():
            content = [_shown(block, needed=needed)]
            return {"type": "message", "role": Role.USER.value, "content": content}
        case Unknown():
            return None if own is None else dict(block.payload)


def _shown(file: File, *, needed: bool) -> dict[str, Any]:
    """Return a file in the API's form; a text file as text, as not every model opens text files."""
    is_image = file.media_type in IMAGES
    if file.is_address:
        word = "image_url" if is_image else "file_url"
        part = {word: str(file.where)}
    else:
        content = load(file, needed=needed)
        if isinstance(content, str):
            return {"type": "input_text", "text": content}
        if file.is_text:
            text = content.decode("utf-8", "replace")
            return {"type": "input_text", "text": f"{file.name}:\n{text}"}
        data = f"data:{file.media_type};base64,{base64.b64encode(content).decode()}"
        part = {"image_url": data} if is_image else {"filename": file.name, "file_data": data}
    if is_image:
        return {"type": "input_image", "detail": "auto", **part}
    return {"type": "input_file", **part}


def read(body: dict[str, Any], headers: Mapping[str, str], asked: dict[str, Any]) -> ModelReply:
    """Read the reply from the body of a response; raises what a failed one means."""
    if body["status"] == "failed":
        said = body.get("error") or {}
        code = str(said.get("code"))
        raise _FAILURES.get(code, Permanent)(f"openai failed with {code}: {said.get('message')}")
    blocks = [block for item in body["output"] for block in _received(item)]
    used = body["usage"]
    details = used.get("input_tokens_details") or {}
    cached = count(details.get("cached_tokens"))
    written = count(details.get("cache_write_tokens"))
    rest = {name: value for name, value in body.items() if name not in _SAID_BY_US}
    return ModelReply(
        message=Message(Role.ASSISTANT, tuple(blocks)),
        stop=_stop_of(body, blocks),
        usage=Usage(
            # The API counts them as part of the input; we count them separately.
            input_tokens=max(0, count(used["input_tokens"]) - cached - written),
            output_tokens=count(used["output_tokens"]),
            cache_read_tokens=cached,
            cache_write_tokens=written,
        ),
        model=str(body["model"]),
        extra={OPENAI: {**rest, "request_id": headers.get("x-request-id")}},
    )


# The response repeats the request; a long prompt need not be kept twice.
_SAID_BY_US = ("output", "instructions", "tools", "input", "object")


def _stop_of(body: dict[str, Any], blocks: Iterable[Block]) -> StopReason:
    if body["status"] == "incomplete":
        reasons = {
            "max_output_tokens": StopReason.TRUNCATED,
            "content_filter": StopReason.REFUSED,
        }
        why = (body.get("incomplete_details") or {}).get("reason")
        return reasons.get(str(why), StopReason.OTHER)
    kinds = [block.extra.get(OPENAI, {}).get(_PART, {}).get("type") for block in blocks]
    if "refusal" in kinds:
        return StopReason.REFUSED
    if any(isinstance(block, ToolCall) for block in blocks):
        return StopReason.TOOL_CALLS
    return StopReason.END if body["status"] == "completed" else StopReason.OTHER


def _received(item: dict[str, Any]) -> Iterator[Block]:
    match item:
        case {"type": "message", "content": str(text)}:
            yield Text(text)
        case {"type": "message", "content": list(parts)} if parts:
            about = {name: value for name, value in item.items() if name != "content"}
            for part in parts:
                yield _said(part, about)
        case {"type": "reasoning", "summary": list(summary)}:
            text = "\n\n".join(str(part.get("text", "")) for part in summary)
            yield Reasoning(text, {OPENAI: item})
        case {"type": "function_call"}:
            yield _called(item)
        case {"type": "message" | "reasoning"}:
            # The API would not accept it, so it is kept and never sent.
            yield Unknown(item)
        case {"type": str()}:
            yield Unknown(item, {OPENAI: {}})
        case _:
            # It could never be sent back, and every later request would fail.
            raise ValueError(f"{item!r} is no item")


def _said(part: Any, about: dict[str, Any]) -> Text | Unknown:
    """Read a part of a message. What is not text is kept, and not sent back."""
    match part:
        case {"type": "output_text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            word = "refusal" if part["type"] == "refusal" else "text"
            rest = {name: value for name, value in part.items() if name != word}
            return Text(text, {OPENAI: {_ITEM: about, _PART: rest}})
    return Unknown(part)


def _called(item: dict[str, Any]) -> ToolCall:
    """Read a call, whatever the model wrote; the model is told if the call cannot be made."""
    call_id, name = (item.get(word) if isinstance(item.get(word), str) else "" for word in _CALL)
    written = item.get("arguments")
    known = ("type", *_CALL) if isinstance(written, str) else ("type", "arguments", *_CALL)
    extra = {OPENAI: {key: value for key, value in item.items() if key not in known}}
    arguments = None
    if isinstance(written, str):
        with contextlib.suppress(ValueError):
            arguments = json.loads(written)
    else:
        written = json.dumps(written, ensure_ascii=False)
    # A call that was cut off may happen to be valid JSON, and must not be made.
    if not isinstance(arguments, dict) or item.get("status") == "incomplete":
        return ToolCall(str(call_id), str(name), {}, unreadable=written, extra=extra)
    return ToolCall(str(call_id), str(name), arguments, extra=extra)


API = Api(
    package=OPENAI,
    client="OpenAI",
    async_client="AsyncOpenAI",
    most_output="max_output_tokens",
    create=lambda client: client.responses.with_raw_response.create,
    ask=ask,
    read=read,
)
