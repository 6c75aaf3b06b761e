"""What does OpenAI's Responses API reject, and how does it spell an answer and an error?

The rules and their wording follow the API's documentation and the types of its SDK. Reasoning is
accepted only if this fake has spoken it, and only together with the item that followed it.
"""

from __future__ import annotations

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

PATH = "/v1/responses"
LEAST_OUTPUT_TOKENS = 16
_TOP = frozenset(
    "access_programs background context_management conversation include input instructions "
    "max_output_tokens max_tool_calls metadata model moderation parallel_tool_calls "
    "previous_response_id prompt prompt_cache_key prompt_cache_options prompt_cache_retention "
    "reasoning safety_identifier service_tier store stream stream_options temperature text "
    "tool_choice tools top_logprobs top_p truncation user".split()
)
_PARTS = {
    "input_text": frozenset("type text prompt_cache_breakpoint".split()),
    "input_image": frozenset("type detail image_url file_id prompt_cache_breakpoint".split()),
    "input_file": frozenset(
        "type detail file_data file_id file_url filename prompt_cache_breakpoint".split()
    ),
    "output_text": frozenset("type text annotations logprobs".split()),
    "refusal": frozenset("type refusal".split()),
}
_OF_USER = ("input_text", "input_image", "input_file")
_OF_ASSISTANT = ("output_text", "refusal")
_ITEMS = {
    "message": frozenset("type role content id status phase".split()),
    "function_call": frozenset("type call_id name arguments id status caller namespace".split()),
    "function_call_output": frozenset(
        "type call_id output id status caller name namespace".split()
    ),
    "reasoning": frozenset("type id summary content encrypted_content status".split()),
    "item_reference": frozenset("type id".split()),
    "web_search_call": frozenset("type id status action".split()),
}
_TOOL = frozenset(
    "type name description parameters strict allowed_callers defer_loading output_schema".split()
)
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class OpenaiThoughts:
    """The reasoning that this fake has spoken, which only it could decrypt."""

    def __init__(self) -> None:
        self._spoken: set[str] = set()

    def keep(self, body: dict[str, Any], content: list[dict[str, Any]]) -> None:
        """Remember the reasoning of a reply."""
        self._spoken |= {
            str(item.get("encrypted_content"))
            for item in content
            if item.get("type") == "reasoning"
        }

    def check(self, place: str, encrypted: str) -> None:
        if encrypted not in self._spoken:
            raise RejectedRequest(
                f"The encrypted content {encrypted[:8]}... could not be verified. Reason: "
                "Encrypted content could not be decrypted or parsed.",
                code="invalid_encrypted_content",
                param=place,
            )


def new_thoughts() -> OpenaiThoughts:
    """A memory for a new server: nothing was spoken yet."""
    return OpenaiThoughts()


def check_headers(headers: dict[str, str]) -> None:
    """The key that every request needs."""
    if not headers.get("authorization", "").startswith("Bearer "):
        raise RejectedRequest(
            "Missing bearer or basic authentication in header",
            status=401,
            code="missing_authentication",
        )


def check(body: Any, limits: Limits, thoughts: OpenaiThoughts) -> None:
    """Raise Rejected for what the API would not accept."""
    if not isinstance(body, dict):
        raise RejectedRequest("We could not parse the JSON body of your request.")
    for name in body:
        if name not in _TOP:
            raise RejectedRequest(
                f"Unknown parameter: '{name}'.", code="unknown_parameter", param=name
            )
    for name in ("model", "input"):
        if name not in body:
            raise _missing(name)
    if body.get("stream") or body.get("background"):
        raise RejectedRequest(
            "This fake answers in one piece. Ask without `stream` and `background`.",
            code="unsupported_value",
            param="stream" if body.get("stream") else "background",
        )
    _check_output(body.get("max_output_tokens"), limits)
    _check_tools(body.get("tools") or [])
    items = body["input"]
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    if not isinstance(items, list) or not items:
        raise RejectedRequest(
            "Invalid 'input': empty array. Expected an array with minimum length 1, but got an "
            "empty array instead.",
            code="empty_array",
            param="input",
        )
    for number, item in enumerate(items):
        _check_item(f"input[{number}]", item, stored=body.get("store", True), thoughts=thoughts)
    _check_results(items)
    _check_reasoning(items)
    tokens = sum(each.tokens for each in prompt(body))
    if tokens > limits.context_tokens:
        raise TOO_LONG


def _missing(param: str) -> RejectedRequest:
    return RejectedRequest(
        f"Missing required parameter: '{param}'.", code="missing_required_parameter", param=param
    )


def _invalid(value: Any, param: str, supported: tuple[str, ...]) -> RejectedRequest:
    names = ", ".join(f"'{each}'" for each in supported)
    return RejectedRequest(
        f"Invalid value: '{value}'. Supported values are: {names}.",
        code="invalid_value",
        param=param,
    )


def _check_output(most: Any, limits: Limits) -> None:
    if most is None:
        return
    if not isinstance(most, int) or isinstance(most, bool):
        raise RejectedRequest(
            "Invalid type for 'max_output_tokens': expected an integer.",
            code="invalid_type",
            param="max_output_tokens",
        )
    for wrong, code, what in (
        (
            most < LEAST_OUTPUT_TOKENS,
            "integer_below_min_value",
            f"a value >= {LEAST_OUTPUT_TOKENS}",
        ),
        (
            most > limits.most_output_tokens,
            "integer_above_max_value",
            f"a value <= {limits.most_output_tokens}",
        ),
    ):
        if wrong:
            edge = "below minimum" if "below" in code else "above maximum"
            raise RejectedRequest(
                f"Invalid 'max_output_tokens': integer {edge} value. Expected {what}, but got "
                f"{most} instead.",
                code=code,
                param="max_output_tokens",
            )


def _check_tools(tools: Any) -> None:
    names: set[str] = set()
    for number, tool in enumerate(tools):
        if tool.get("type") != "function":
            continue
        place = f"tools[{number}]"
        for field in sorted(tool.keys() - _TOOL):
            param = f"{place}.{field}"
            raise RejectedRequest(
                f"Unknown parameter: '{param}'.", code="unknown_parameter", param=param
            )
        name = str(tool.get("name", ""))
        if not _NAME.fullmatch(name):
            raise RejectedRequest(
                f"Invalid '{place}.name': string does not match pattern. Expected a string that "
                "matches the pattern '^[a-zA-Z0-9_-]+$'.",
                code="invalid_value",
                param=f"{place}.name",
            )
        if name in names:
            raise RejectedRequest(
                f"Duplicate tool name: '{name}'.", code="invalid_value", param=f"{place}.name"
            )
        names.add(name)
        _check_schema(name, tool.get("parameters"), strict=tool.get("strict") is not False)


def _check_schema(name: str, schema: Any, *, strict: bool) -> None:
    def refuse(why: str) -> RejectedRequest:
        return RejectedRequest(
            f"Invalid schema for function '{name}': {why}",
            code="invalid_function_parameters",
            param="tools",
        )

    if schema is None:
        return
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind != "object":
        raise refuse(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'.")
    if strict and schema.get("additionalProperties") is not False:
        raise refuse(
            "In context=(), 'additionalProperties' is required to be supplied and to be false."
        )
    if strict and set(schema.get("required") or ()) != set(schema.get("properties") or ()):
        raise refuse(
            "In context=(), 'required' is required to be supplied and to be an array including "
            "every key in properties."
        )


def _check_item(place: str, item: Any, *, stored: bool, thoughts: OpenaiThoughts) -> None:
    kind = item.get("type", "message") if isinstance(item, dict) else None
    if kind not in _ITEMS:
        raise _invalid(kind, f"{place}.type", tuple(_ITEMS))
    for field in sorted(item.keys() - _ITEMS[kind]):
        param = f"{place}.{field}"
        raise RejectedRequest(
            f"Unknown parameter: '{param}'.", code="unknown_parameter", param=param
        )
    if not stored and item.get("id") is not None:
        raise RejectedRequest(
            f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set "
            "to false. Try again with `store` set to true, or remove this item from your input.",
            status=404,
            param="input",
        )
    match kind:
        case "message":
            _check_message(place, item)
        case "function_call":
            for name in ("call_id", "name", "arguments"):
                if not isinstance(item.get(name), str):
                    raise _missing(f"{place}.{name}")
            if not _NAME.fullmatch(item["name"]):
                raise RejectedRequest(
                    f"Invalid '{place}.name': string does not match pattern. Expected a string "
                    "that matches the pattern '^[a-zA-Z0-9_-]+$'.",
                    code="invalid_value",
                    param=f"{place}.name",
                )
            if not 1 <= len(item["call_id"]) <= 64:
                raise RejectedRequest(
                    f"Invalid '{place}.call_id': string too long. Expected a string with maximum "
                    f"length 64, but got a string with length {len(item['call_id'])} instead.",
                    code="string_above_max_length",
                    param=f"{place}.call_id",
                )
        case "function_call_output":
            for name in ("call_id", "output"):
                if item.get(name) is None:
                    raise _missing(f"{place}.{name}")
            if isinstance(item["output"], list):
                _check_parts(f"{place}.output", item["output"], _OF_USER)
        case "reasoning":
            encrypted = item.get("encrypted_content")
            if encrypted is None:
                raise _missing(f"{place}.encrypted_content")
            thoughts.check(place, encrypted)


def _check_message(place: str, item: dict[str, Any]) -> None:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        roles = ("assistant", "system", "developer", "user")
        raise _invalid(role, f"{place}.role", roles)
    if content is None:
        raise _missing(f"{place}.content")
    if content == []:
        raise RejectedRequest(
            f"Invalid '{place}.content': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
            code="empty_array",
            param=f"{place}.content",
        )
    if not isinstance(content, str):
        allowed = _OF_ASSISTANT if role == "assistant" else _OF_USER
        _check_parts(f"{place}.content", content, allowed)


def _check_parts(place: str, parts: Any, allowed: tuple[str, ...]) -> None:
    for number, part in enumerate(parts):
        where = f"{place}[{number}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in allowed:
            raise _invalid(kind, where, allowed)
        for field in sorted(part.keys() - _PARTS[kind]):
            param = f"{where}.{field}"
            raise RejectedRequest(
                f"Unknown parameter: '{param}'.", code="unknown_parameter", param=param
            )
        if kind == "input_image":
            url = part.get("image_url") or ""
            if not url.startswith(("https://", "http://", "data:image/")) and not part.get(
                "file_id"
            ):
                raise RejectedRequest(
                    f"Invalid '{where}.image_url'. Expected a valid URL, but got a value with an "
                    "invalid format.",
                    code="invalid_value",
                    param=f"{where}.image_url",
                )
        if kind == "input_file":
            _check_file(where, part)


def _check_file(where: str, part: dict[str, Any]) -> None:
    sources = [name for name in ("file_data", "file_id", "file_url") if part.get(name)]
    if len(sources) != 1:
        raise RejectedRequest(
            f"Invalid '{where}': exactly one of file_data, file_id and file_url is required.",
            code="invalid_value",
            param=where,
        )
    if sources == ["file_data"] and not part.get("filename"):
        raise _missing(f"{where}.filename")
    if sources == ["file_data"] and not re.match(
        r"data:[\w.+-]+/[\w.+-]+;base64,", part["file_data"]
    ):
        raise RejectedRequest(
            f"Invalid '{where}.file_data'. Expected a base64-encoded data URL with a MIME type.",
            code="invalid_value",
            param=f"{where}.file_data",
        )


def _check_results(items: list[dict[str, Any]]) -> None:
    calls = [item["call_id"] for item in items if item.get("type") == "function_call"]
    outputs = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    for call_id in outputs:
        if call_id not in calls:
            raise RejectedRequest(
                f"No tool call found for function call output with call_id {call_id}.",
                param="input",
            )
    for call_id in calls:
        if call_id not in outputs:
            raise RejectedRequest(
                f"No tool output found for function call {call_id}.", param="input"
            )
    for ids in (calls, outputs):
        for call_id in ids:
            if ids.count(call_id) > 1:
                raise RejectedRequest(
                    f"Duplicate item found with call_id {call_id}. Remove duplicate items from "
                    "your input and try again.",
                    param="input",
                )


def _check_reasoning(items: list[dict[str, Any]]) -> None:
    for number, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        following = items[number + 1] if number + 1 < len(items) else {}
        spoken = following.get("role", "assistant") == "assistant"
        if not following or not spoken or following.get("type") == "function_call_output":
            raise RejectedRequest(
                f"Item '{item.get('id') or f'input[{number}]'}' of type 'reasoning' was provided "
                "without its required following item.",
                param="input",
            )


# What it answers


def turn_of(body: dict[str, Any]) -> int:
    """Which reply of the conversation is asked for, from 1 on."""
    turns, speaking = 0, False
    items = body.get("input")
    for item in items if isinstance(items, list) else ():
        of_model = item.get("role") == "assistant" or (
            item.get("role") is None and item.get("type") != "function_call_output"
        )
        turns += of_model and not speaking
        speaking = of_model
    return turns + 1


def prompt(body: dict[str, Any]) -> list[Segment]:
    """The prompt in the order in which it is cached."""
    items = body.get("input") or []
    if isinstance(items, str):
        items = [{"role": "user", "content": items}]
    parts = [*(body.get("tools") or []), {"instructions": body.get("instructions") or ""}, *items]
    return [Segment(canonical(part), count_tokens(part)) for part in parts]


def cache_scope(body: dict[str, Any]) -> str:
    """What a cache entry belongs to beside the prompt."""
    return canonical([body.get("model"), body.get("prompt_cache_key")])


def spoken(body: dict[str, Any], reply: Reply, number: int) -> tuple[list[Any], str, int]:
    """The output of an answer, why it stopped, and how many tokens it has."""
    most = body.get("max_output_tokens") or 128_000
    left = most
    output: list[dict[str, Any]] = []
    for index, part in enumerate(reply.parts):
        item = _item(part, f"{number}_{index}", refused=reply.stop == "refusal")
        size = count_tokens(item)
        if size > left:
            output.append(_cut(item, left))
            return output, "max_tokens", most
        left -= size
        output.append(item)
    return output, reply.stop or "completed", most - left


def _item(part: dict[str, Any], label: str, *, refused: bool) -> dict[str, Any]:
    match part:
        case {"text": text}:
            said: dict[str, Any] = {"type": "output_text", "text": text, "annotations": []}
            if refused:
                said = {"type": "refusal", "refusal": text}
            about = {"type": "message", "id": f"msg_fake_{label}", "role": "assistant"}
            return {**about, "status": "completed", "content": [said]}
        case {"thinking": text}:
            return {
                "type": "reasoning",
                "id": f"rs_fake_{label}",
                "summary": [{"type": "summary_text", "text": text}],
                "encrypted_content": f"gAAAA{digest('thought', label, str(text))}",
            }
        case {"tool": name, "arguments": arguments}:
            return {
                "type": "function_call",
                "id": f"fc_fake_{label}",
                "call_id": part.get("id") or f"call_fake_{label}",
                "name": name,
                "arguments": json.dumps(arguments, ensure_ascii=False),
                "status": "completed",
            }
    raw: dict[str, Any] = json.loads(json.dumps(part["raw"]))
    return raw


def _cut(item: dict[str, Any], left: int) -> dict[str, Any]:
    item = {**item, "status": "incomplete"}
    if item["type"] == "function_call":
        item["arguments"] = item["arguments"][: left * 4]
    elif item["type"] == "message":
        part = item["content"][0]
        word = "refusal" if part["type"] == "refusal" else "text"
        item["content"] = [{**part, word: part[word][: max(1, left * 4)]}]
    return item


def answer(
    body: dict[str, Any], reply: Reply, content: list[Any], stop: str, took: Tokens, number: int
) -> dict[str, Any]:
    """The body of an answer."""
    cut = stop == "max_tokens"
    entered = took.input + took.cache_read + took.cache_write
    return {
        "id": f"resp_fake_{number}",
        "object": "response",
        "created_at": 1_790_000_000 + number,
        "status": "incomplete" if cut else "completed",
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": reply.model or body["model"],
        "output": content,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": entered,
            "input_tokens_details": {
                "cached_tokens": took.cache_read,
                "cache_write_tokens": took.cache_write,
            },
            "output_tokens": took.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": entered + took.output,
        },
    }


def error(rejected: RejectedRequest, number: int) -> dict[str, Any]:
    """The body of an error."""
    return {
        "error": {
            "message": rejected.message,
            "type": rejected.kind,
            "param": rejected.param,
            "code": rejected.code,
        }
    }


KINDS = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
    500: "server_error",
    503: "service_unavailable_error",
    529: "service_unavailable_error",
}
TOO_LONG = RejectedRequest(
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    code="context_length_exceeded",
    param="input",
)
