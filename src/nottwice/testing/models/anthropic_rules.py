"""What does Anthropic's Messages API reject, and how does it spell an answer and an error?

The rules and their wording follow the API's documentation and the types of its SDK. Two turns of
one side in a row are one turn, as they are there. Thoughts are accepted only if this fake has
spoken them, word for word; models from 5.1 on want everything before a thought unchanged, too.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from nottwice.testing.models.wire import (
    Limits,
    RejectedRequest,
    Reply,
    Segment,
    Tokens,
    canonical,
    count_tokens,
    digest,
)

PATH = "/v1/messages"
MOST_MARKS = 4
MOST_IMAGE_BYTES = 5 * 1024 * 1024
_TOP = frozenset(
    "model messages max_tokens cache_control container diagnostics inference_geo metadata "
    "output_config service_tier speed stop_sequences stream system temperature thinking "
    "tool_choice tools top_k top_p".split()
)
_BLOCKS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    kind: (frozenset(needed.split()), frozenset(allowed.split()) | frozenset(needed.split()))
    for kind, needed, allowed in (
        ("text", "type text", "cache_control citations"),
        ("image", "type source", "cache_control transformations"),
        ("document", "type source", "cache_control citations context title"),
        ("thinking", "type thinking signature", ""),
        ("redacted_thinking", "type data", ""),
        ("tool_use", "type id name input", "cache_control caller toolset_name"),
        ("tool_result", "type tool_use_id", "cache_control content is_error toolset_name"),
        ("server_tool_use", "type id name input", "cache_control caller"),
    )
}
_OF_USER = ("text", "image", "document", "tool_result")
_OF_ASSISTANT = ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use")
_IN_RESULT = ("text", "image", "document")
_TOOL = frozenset(
    "name description input_schema cache_control type strict defer_loading allowed_callers "
    "input_examples eager_input_streaming".split()
)
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_VERSION = re.compile(r"claude-[a-z]+-(\d{1,2})(?:-(\d{1,2}))?(?:-|$)")
_MAGIC = {
    "image/png": b"\x89PNG",
    "image/jpeg": b"\xff\xd8\xff",
    "image/gif": b"GIF8",
    "image/webp": b"RIFF",
}


class AnthropicThoughts:
    """The thoughts that this fake has spoken."""

    def __init__(self) -> None:
        self._spoken: dict[str, set[str]] = {}

    def keep(self, body: dict[str, Any], content: list[dict[str, Any]]) -> None:
        """Remember the thoughts of a reply, and what they were the answer to."""
        before = _sent_before(body, len(body.get("messages", ())))
        for block in content:
            if block.get("type") in ("thinking", "redacted_thinking"):
                self._spoken.setdefault(canonical(block), set()).add(before)

    def check(self, body: dict[str, Any], message: int, place: str, block: dict[str, Any]) -> None:
        spoken = self._spoken.get(canonical(block))
        if spoken is None:
            raise RejectedRequest(f"{place}: Invalid `signature` in `{block['type']}` block")
        if binds_thinking(str(body["model"])) and _sent_before(body, message) not in spoken:
            raise RejectedRequest(
                f"{place}: `{block['type']}` blocks are bound to what precedes them, and that was "
                "modified. Send everything before the block as it was, or leave the block out."
            )


def new_thoughts() -> AnthropicThoughts:
    """A memory for a new server: nothing was spoken yet."""
    return AnthropicThoughts()


def binds_thinking(model: str) -> bool:
    """Whether a model takes a thought back only where nothing before it has changed."""
    found = _VERSION.match(model)
    return found is not None and (int(found[1]), int(found[2] or 0)) > (5, 0)


def _sent_before(body: dict[str, Any], message: int) -> str:
    system = body.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    messages = body.get("messages", [])[:message]
    return digest(canonical(system), canonical(body.get("tools") or []), canonical(messages))


def check_headers(headers: dict[str, str]) -> None:
    """The key and the version that every request needs."""
    if not (headers.get("x-api-key") or headers.get("authorization")):
        raise RejectedRequest(
            "x-api-key header is required", status=401, kind="authentication_error"
        )
    if not headers.get("anthropic-version"):
        raise RejectedRequest("anthropic-version: header is required")


def check(body: Any, limits: Limits, thoughts: AnthropicThoughts) -> None:
    """Raise Rejected for what the API would not accept."""
    if not isinstance(body, dict):
        raise RejectedRequest("The request body is not valid JSON: it must be an object")
    for name in body:
        if name not in _TOP:
            raise RejectedRequest(f"{name}: Extra inputs are not permitted")
    for name in ("model", "max_tokens", "messages"):
        if name not in body:
            raise RejectedRequest(f"{name}: Field required")
    if body.get("stream"):
        raise RejectedRequest("stream: this fake answers in one piece. Ask without `stream`")
    _check_output(body, limits)
    names = _check_tools(body.get("tools") or [])
    _check_choice(body.get("tool_choice"), names)
    messages = body["messages"]
    if not isinstance(messages, list) or not messages:
        raise RejectedRequest("messages: at least one message is required")
    for number, message in enumerate(messages):
        _check_message(number, message)
    turns = _combined(messages)
    if turns[0][0] != "user":
        raise RejectedRequest('messages: first message must use the "user" role')
    if turns[-1][0] != "user":
        raise RejectedRequest(
            "This model does not support assistant message prefill. The conversation must end with "
            "a user message."
        )
    _check_results(turns)
    for number, message in enumerate(messages):
        for place, block in _blocks(number, message):
            if block["type"] in ("thinking", "redacted_thinking"):
                thoughts.check(body, number, place, block)
    _check_thinking(body, turns)
    _check_marks(body)
    _check_length(body, limits)


def _check_output(body: dict[str, Any], limits: Limits) -> None:
    most = body["max_tokens"]
    if not isinstance(most, int) or isinstance(most, bool):
        raise RejectedRequest("max_tokens: Input should be a valid integer")
    if most < 1:
        raise RejectedRequest("max_tokens: must be greater than or equal to 1")
    if most > limits.most_output_tokens:
        raise RejectedRequest(
            f"max_tokens: {most} > {limits.most_output_tokens}, which is the maximum allowed "
            f"number of output tokens for {body['model']}"
        )
    thinking = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            raise RejectedRequest(
                "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
            )
        if most <= budget:
            raise RejectedRequest("`max_tokens` must be greater than `thinking.budget_tokens`")


def _check_tools(tools: Any) -> set[str]:
    names: set[str] = set()
    for number, tool in enumerate(tools):
        place = f"tools.{number}"
        if tool.get("type", "custom") not in ("custom", None):
            continue
        for field in sorted(tool.keys() - _TOOL):
            raise RejectedRequest(f"{place}.custom.{field}: Extra inputs are not permitted")
        if not _NAME.fullmatch(str(tool.get("name", ""))):
            raise RejectedRequest(
                f"{place}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
            )
        schema = tool.get("input_schema")
        if not isinstance(schema, dict):
            raise RejectedRequest(f"{place}.custom.input_schema: Field required")
        if schema.get("type") != "object":
            raise RejectedRequest(f"{place}.custom.input_schema.type: Input should be 'object'")
        if tool["name"] in names:
            raise RejectedRequest("tools: Tool names must be unique.")
        names.add(tool["name"])
    return names


def _check_choice(choice: Any, names: set[str]) -> None:
    if choice is None:
        return
    if not names:
        raise RejectedRequest("tool_choice: may only be specified while providing tools.")
    if choice.get("type") == "tool" and choice.get("name") not in names:
        raise RejectedRequest(f"Tool '{choice.get('name')}' not found in provided tools")


def _check_message(number: int, message: Any) -> None:
    place = f"messages.{number}"
    if not isinstance(message, dict):
        raise RejectedRequest(f"{place}: Input should be an object")
    for field in sorted(message.keys() - {"role", "content"}):
        raise RejectedRequest(f"{place}.{field}: Extra inputs are not permitted")
    role = message.get("role")
    if role not in ("user", "assistant"):
        raise RejectedRequest(f"{place}.role: Input should be 'user' or 'assistant'")
    if not message.get("content"):
        raise RejectedRequest(
            f"{place}: all messages must have non-empty content except for the optional final "
            "assistant message"
        )
    allowed = _OF_USER if role == "user" else _OF_ASSISTANT
    for where, block in _blocks(number, message):
        _check_block(where, block, allowed)


def _blocks(number: int, message: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    content = message["content"]
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    return [(f"messages.{number}.content.{index}", block) for index, block in enumerate(content)]


def _check_block(place: str, block: Any, allowed: tuple[str, ...]) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in allowed:
        tags = ", ".join(f"'{each}'" for each in allowed)
        raise RejectedRequest(
            f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected "
            f"tags: {tags}"
        )
    needed, known = _BLOCKS[kind]
    for field in sorted(needed - block.keys()):
        raise RejectedRequest(f"{place}.{kind}.{field}: Field required")
    for field in sorted(block.keys() - known):
        raise RejectedRequest(f"{place}.{kind}.{field}: Extra inputs are not permitted")
    match kind:
        case "text":
            _check_text(block["text"], place)
        case "tool_use":
            if not isinstance(block["id"], str) or not _ID.fullmatch(block["id"]):
                raise RejectedRequest(
                    f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
                )
            if not isinstance(block["name"], str) or not _NAME.fullmatch(block["name"]):
                raise RejectedRequest(
                    f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
                )
            if not isinstance(block["input"], dict):
                raise RejectedRequest(f"{place}.tool_use.input: Input should be an object")
        case "tool_result":
            content = block.get("content", "")
            if isinstance(content, list):
                for index, part in enumerate(content):
                    _check_block(f"{place}.tool_result.content.{index}", part, _IN_RESULT)
            elif not isinstance(content, str):
                raise RejectedRequest(
                    f"{place}.tool_result.content: Input should be a valid string"
                )
        case "image" | "document":
            _check_source(place, kind, block["source"])


def _check_text(text: Any, place: str) -> None:
    if not isinstance(text, str):
        raise RejectedRequest(f"{place}.text.text: Input should be a valid string")
    if not text:
        raise RejectedRequest("messages: text content blocks must be non-empty")
    if not text.strip():
        raise RejectedRequest("messages: text content blocks must contain non-whitespace text")


def _check_source(place: str, kind: str, source: Any) -> None:
    place = f"{place}.{kind}.source"
    match source:
        case {"type": "url", "url": str(url)}:
            if not url.startswith(("https://", "http://")):
                raise RejectedRequest(f"{place}.url: Only HTTP and HTTPS URLs are supported.")
        case {"type": "base64", "media_type": str(media_type), "data": str(data)}:
            known = tuple(_MAGIC) if kind == "image" else ("application/pdf",)
            if media_type not in known:
                names = ", ".join(f"'{each}'" for each in known)
                raise RejectedRequest(f"{place}.base64.media_type: Input should be {names}")
            try:
                content = base64.b64decode(data, validate=True)
            except binascii.Error:
                raise RejectedRequest(f"{place}.base64: invalid base64 data") from None
            if len(data) > MOST_IMAGE_BYTES and kind == "image":
                raise RejectedRequest(
                    f"{place}.base64: image exceeds 5 MB maximum: {len(data)} bytes > "
                    f"{MOST_IMAGE_BYTES} bytes"
                )
            start = _MAGIC[media_type] if kind == "image" else b"%PDF"
            if not content.startswith(start):
                what = "Image" if kind == "image" else "Document"
                raise RejectedRequest(
                    f"{place}: {what} does not match the provided media type {media_type}"
                )
        case {"type": "text", "media_type": "text/plain", "data": str()} if kind == "document":
            pass
        case _:
            raise RejectedRequest(f"{place}: Input should be a valid source")


def _combined(messages: list[dict[str, Any]]) -> list[tuple[str, int, list[dict[str, Any]]]]:
    """The turns: role, the number of the last message, blocks; neighbours of one side are one."""
    turns: list[tuple[str, int, list[dict[str, Any]]]] = []
    for number, message in enumerate(messages):
        blocks = [block for _, block in _blocks(number, message)]
        if turns and turns[-1][0] == message["role"]:
            turns[-1] = (message["role"], number, turns[-1][2] + blocks)
        else:
            turns.append((message["role"], number, blocks))
    return turns


def _check_results(turns: list[tuple[str, int, list[dict[str, Any]]]]) -> None:
    """Each call has one result, right after it; each result has its call; no id comes twice."""
    seen: set[str] = set()
    waiting: list[str] = []
    asked_in = 0
    for role, number, blocks in turns:
        if role == "assistant":
            waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
            asked_in = number
            if len(waiting) != len(set(waiting)) or seen & set(waiting):
                raise RejectedRequest("messages: `tool_use` ids must be unique")
            seen |= set(waiting)
            continue
        leading: list[str] = []
        for index, block in enumerate(blocks):
            if block["type"] != "tool_result":
                continue
            call_id = block["tool_use_id"]
            if call_id not in waiting:
                raise RejectedRequest(
                    f"messages.{number}.content.{index}: unexpected `tool_use_id` found in "
                    f"`tool_result` blocks: {call_id}. Each `tool_result` block must have a "
                    "corresponding `tool_use` block in the previous message."
                )
            if call_id in leading:
                raise RejectedRequest(
                    f"messages.{number}.content.{index}: each tool_use must have a single result. "
                    f"Found multiple `tool_result` blocks with id: {call_id}"
                )
            if index == len(leading):
                leading.append(call_id)
        missing = [call_id for call_id in waiting if call_id not in leading]
        if missing:
            raise RejectedRequest(
                f"messages.{asked_in}: `tool_use` ids were found without `tool_result` blocks "
                f"immediately after: {', '.join(missing)}. Each `tool_use` block must have a "
                "corresponding `tool_result` block in the next message."
            )
        waiting = []


def _check_thinking(
    body: dict[str, Any], turns: list[tuple[str, int, list[dict[str, Any]]]]
) -> None:
    """While tools are used, the newest turn of a model that thinks must begin with its thought."""
    if (body.get("thinking") or {}).get("type") != "enabled" or len(turns) < 2:
        return
    _, number, blocks = turns[-2]
    first = blocks[0]["type"]
    calls = any(block["type"] == "tool_use" for block in blocks)
    if calls and first not in ("thinking", "redacted_thinking"):
        raise RejectedRequest(
            f"messages.{number}.content.0.type: Expected `thinking` or `redacted_thinking`, but "
            f"found `{first}`. When `thinking` is enabled, a final `assistant` message must start "
            "with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` "
            "blocks)."
        )


def _check_marks(body: dict[str, Any]) -> None:
    marks = sum(segment.marked for segment in prompt(body)) + (
        body.get("cache_control") is not None
    )
    if marks > MOST_MARKS:
        raise RejectedRequest(
            f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {marks}."
        )


def _check_length(body: dict[str, Any], limits: Limits) -> None:
    tokens, most = sum(each.tokens for each in prompt(body)), limits.context_tokens
    if tokens > most:
        raise RejectedRequest(f"prompt is too long: {tokens} tokens > {most} maximum")
    if tokens + body["max_tokens"] > most:
        raise RejectedRequest(
            f"input length and `max_tokens` exceed context limit: {tokens} + {body['max_tokens']} "
            f"> {most}, decrease input length or `max_tokens` and try again"
        )


# What it answers


def turn_of(body: dict[str, Any]) -> int:
    """Which reply of the conversation is asked for, from 1 on."""
    roles = [str(each.get("role")) for each in body.get("messages", ())]
    begun = [role for number, role in enumerate(roles) if number == 0 or roles[number - 1] != role]
    return begun.count("assistant") + 1


def prompt(body: dict[str, Any]) -> list[Segment]:
    """The prompt in the order in which it is cached: tools, system, messages."""
    system = body.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    parts = [*(body.get("tools") or []), *system]
    segments = [_segment("", part) for part in parts]
    for number, message in enumerate(body.get("messages", ())):
        segments += [_segment(message["role"], block) for _, block in _blocks(number, message)]
    if body.get("cache_control") is not None and segments:
        segments[-1] = segments[-1]._replace(marked=True)
    return segments


def _segment(role: str, part: dict[str, Any]) -> Segment:
    marked = part.get("cache_control") is not None
    return Segment(role + canonical(part), count_tokens(part), marked)


def cache_scope(body: dict[str, Any]) -> str:
    """What a cache entry belongs to beside the prompt."""
    return canonical([body.get("model"), body.get("tool_choice"), body.get("thinking")])


def spoken(body: dict[str, Any], reply: Reply, number: int) -> tuple[list[Any], str, int]:
    """The content of an answer, why it stopped, and how many tokens it has."""
    left = body["max_tokens"]
    content: list[dict[str, Any]] = []
    for index, part in enumerate(reply.parts):
        block = _block(part, f"{number}_{index}")
        size = count_tokens(block)
        if size > left:
            if block["type"] == "text":
                content.append({**block, "text": block["text"][: max(1, left * 4)]})
            elif block["type"] == "tool_use":
                content.append({**block, "input": {}})
            return content, "max_tokens", body["max_tokens"]
        left -= size
        content.append(block)
    calls = any(block["type"] == "tool_use" for block in content)
    stop = reply.stop or ("tool_use" if calls else "end_turn")
    return content, stop, body["max_tokens"] - left


def _block(part: dict[str, Any], label: str) -> dict[str, Any]:
    match part:
        case {"text": text}:
            return {"type": "text", "text": text}
        case {"thinking": text}:
            signature = base64.b64encode(digest("thought", str(text)).encode()).decode()
            return {"type": "thinking", "thinking": text, "signature": signature}
        case {"tool": name, "arguments": arguments}:
            called = part.get("id") or f"toolu_fake_{label}"
            return {"type": "tool_use", "id": called, "name": name, "input": arguments}
    raw: dict[str, Any] = json.loads(json.dumps(part["raw"]))
    return raw


def answer(
    body: dict[str, Any], reply: Reply, content: list[Any], stop: str, took: Tokens, number: int
) -> dict[str, Any]:
    """The body of an answer."""
    return {
        "id": f"msg_fake_{number}",
        "type": "message",
        "role": "assistant",
        "model": reply.model or body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": took.input,
            "output_tokens": took.output,
            "cache_read_input_tokens": took.cache_read,
            "cache_creation_input_tokens": took.cache_write,
            "service_tier": "standard",
        },
    }


def error(rejected: RejectedRequest, number: int) -> dict[str, Any]:
    """The body of an error."""
    said = {"type": rejected.kind, "message": rejected.message}
    return {"type": "error", "error": said, "request_id": f"req_fake_{number}"}


KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}
TOO_LONG = RejectedRequest("prompt is too long: 212000 tokens > 200000 maximum")
