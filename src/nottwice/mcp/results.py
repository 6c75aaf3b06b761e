"""What of a tool's result is kept, and how does it become a result again? (P275)

A receipt holds the tool's own value and not the envelope of the protocol, because a person may have
to type it into ``nottwice decide``: the text of a single text block, or the structured content. The
whole content is kept only where that value would not give the same result again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Result = dict[str, Any]
"""A result of ``tools/call`` as JSON has it."""
_KEPT = ("content", "structuredContent")


def value_of(result: Result, output_schema: Mapping[str, Any] | None) -> Any:
    """Return what to keep of a result: its own value if that gives the same result again."""
    if "content" not in result:
        # The tool answered with something else, such as a task. It is kept as it is.
        return dict(result)
    kept = {name: result[name] for name in _KEPT if name in result}
    for value in _own_values(result):
        if _same(result_of(value, output_schema), kept):
            return value
    return kept


def result_of(value: Any, output_schema: Mapping[str, Any] | None) -> Result:
    """Return the result that a value stands for. It may come from a person."""
    if isinstance(value, Mapping) and ("resultType" in value or _is_content(value.get("content"))):
        return dict(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    result: Result = {"content": [{"type": "text", "text": text}]}
    if output_schema is None:
        return result
    structured = {"result": value} if _wraps(output_schema) else _object_in(value)
    if structured is None:
        # A person said what happened in words. Without structured content, clients accept such a
        # tool's result only as an error.
        return {**result, "isError": True}
    return {**result, "structuredContent": structured}


def with_note(result: Result, note: str) -> Result:
    """Return a result with a text below it."""
    return {**result, "content": [*result.get("content", ()), {"type": "text", "text": note}]}


def told(text: str, *, review_id: str | None = None) -> Result:
    """Return the result of a call that was not made: an error that the model reads."""
    result: Result = {"content": [{"type": "text", "text": text}], "isError": True}
    return result if review_id is None else {**result, "_meta": {"nottwice/review": review_id}}


def is_complete(result: Result) -> bool:
    """Whether the tool has ended: it does not ask for input first."""
    return bool(result.get("resultType", "complete") != "input_required")


def text_in(result: Result) -> str:
    """Return the text of a result, for a log or the reason of a failure."""
    blocks = [one for one in result.get("content", ()) if isinstance(one, Mapping)]
    return "\n".join(str(one["text"]) for one in blocks if "text" in one) or "an error"


def _own_values(result: Result) -> list[Any]:
    """Return what the tool itself may have returned, the simplest form first."""
    found: list[Any] = []
    if "structuredContent" in result:
        structured = result["structuredContent"]
        if isinstance(structured, Mapping) and set(structured) == {"result"}:
            found.append(structured["result"])
        found.append(structured)
    content = result.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], Mapping):
        text = content[0].get("text")
        if isinstance(text, str):
            found.append(text)
    return found


def _is_content(given: Any) -> bool:
    """Whether this is the content of a result and not a value of the tool with that name."""
    return isinstance(given, list) and all(
        isinstance(one, Mapping) and isinstance(one.get("type"), str) for one in given
    )


def _object_in(value: Any) -> Any:
    """Return an object, which a person may have typed as text. None: it is none."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return value if isinstance(value, Mapping) else None


def _wraps(schema: Mapping[str, Any]) -> bool:
    """Whether the server wraps a value that is no object, as the SDK for Python does."""
    known = schema.get("properties")
    return isinstance(known, Mapping) and set(known) == {"result"}


def _same(one: Result, other: Result) -> bool:
    """Whether two results say the same. The whitespace of JSON in a text does not count."""
    if {**one, "content": None} != {**other, "content": None}:
        return False
    ours, theirs = one.get("content"), other.get("content")
    if ours == theirs:
        return True
    if not (isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs) == 1):
        return False
    if {**ours[0], "text": ""} != {**theirs[0], "text": ""}:
        return False
    try:
        return bool(json.loads(ours[0]["text"]) == json.loads(theirs[0]["text"]))
    except ValueError:
        return False
