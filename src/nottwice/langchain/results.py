"""What of a tool's result becomes the receipt, and how does LangChain get it back? (P264)

A receipt holds what the tool itself returned, as plain data. LangChain makes its message of that
again, with the id of the call that is answered. Tools may also return messages and commands; these
are kept as documents of plain data that name no code.
"""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import (
    BaseMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langgraph.types import Command, Send

from nottwice.model import values

_KIND = "langchain"
_MESSAGE, _COMMAND, _SEND = "message", "command", "send"


def to_receipt(value: Any, call_id: str | None) -> Any:
    """Return a result as plain data, or as it is: then the ledger says that it was not kept.

    ``call_id``: the id that the model gave to this call; None: a program called the tool.
    """
    if values.is_plain(value):
        return value
    try:
        return _document(value, call_id)
    except _NotKept:
        pass
    if call_id is None or isinstance(value, BaseMessage | Command | list | tuple):
        return value
    # The model reads a text in any case, the one that LangChain makes of it.
    return str(value)


def from_receipt(kept: Any, call_id: str | None, *, with_artifact: bool) -> Any:
    """Return a result for LangChain, as the tool would return it to this call.

    ``with_artifact``: whether the tool returns pairs of a content and an artifact.
    """
    value = _value(kept, call_id)
    if not with_artifact or isinstance(value, ToolMessage | Command):
        return value
    if isinstance(value, list) and len(value) == 2:
        return tuple(value)
    # A person typed only the content.
    return value, None


def failure_in(value: Any) -> str | None:
    """The text of a failure that a tool returned as its result. None: it is none."""
    if isinstance(value, ToolMessage) and value.status == "error":
        return str(value.text)
    return None


def with_note(output: Any, call_id: str | None, note: str) -> Any:
    """Return what the model is told of a call, with a note below it."""
    if isinstance(output, ToolMessage):
        return output.model_copy(update={"content": _noted(output.content, note)})
    if isinstance(output, list):
        first = next((one for one in output if isinstance(one, ToolMessage)), None)
        return [with_note(one, call_id, note) if one is first else one for one in output]
    if isinstance(output, Command) and isinstance(output.update, dict):
        return Command(
            graph=output.graph,
            goto=output.goto,
            resume=output.resume,
            update={name: _told(one, call_id, note) for name, one in output.update.items()},
        )
    return output


def _told(update: Any, call_id: str | None, note: str) -> Any:
    if not isinstance(update, list):
        return update
    return [
        with_note(one, call_id, note)
        if isinstance(one, ToolMessage) and one.tool_call_id == call_id
        else one
        for one in update
    ]


def _noted(content: Any, note: str) -> Any:
    if isinstance(content, str):
        return f"{content}\n{note}"
    return [*content, {"type": "text", "text": note}]


class _NotKept(Exception):
    """A value that has no form as plain data."""


def _document(value: Any, call_id: str | None) -> Any:
    match value:
        case ToolMessage():
            # The message gets the id of the current call, and a new id of its own: a message with
            # the same id would replace the earlier one in the conversation.
            answers = value.tool_call_id == call_id
            update = {"id": None, **({"tool_call_id": ""} if answers else {})}
            data = message_to_dict(value.model_copy(update=update))
            return {_KIND: _MESSAGE, "data": _document(data, call_id)}
        case BaseMessage():
            return {_KIND: _MESSAGE, "data": _document(message_to_dict(value), call_id)}
        case Command():
            told = {"update": value.update, "goto": value.goto, "graph": value.graph}
            return {_KIND: _COMMAND, **_document(told, call_id)}
        case Send():
            return {_KIND: _SEND, "node": value.node, "arg": _document(value.arg, call_id)}
        case dict():
            return {_text(name): _document(one, call_id) for name, one in value.items()}
        case list() | tuple():
            return [_document(one, call_id) for one in value]
    if values.is_plain(value):
        return value
    raise _NotKept


def _text(name: Any) -> str:
    # As JSON writes it: 1 is "1", True is "true".
    if isinstance(name, str):
        return name
    if isinstance(name, bool | int | float) or name is None:
        return json.dumps(name)
    raise _NotKept


def _value(kept: Any, call_id: str | None) -> Any:
    if isinstance(kept, list):
        return [_value(one, call_id) for one in kept]
    if not isinstance(kept, dict):
        return kept
    plain = {name: _value(one, call_id) for name, one in kept.items()}
    match plain.pop(_KIND, None), plain:
        case (kind, {"data": {"type": _, "data": dict()} as told}) if kind == _MESSAGE:
            if told["data"].get("tool_call_id") == "":
                told["data"]["tool_call_id"] = call_id or ""
            return messages_from_dict([told])[0]
        case (kind, {"update": update, "goto": goto, "graph": graph}) if kind == _COMMAND:
            return Command(update=update, goto=goto or (), graph=graph)
        case (kind, {"node": str() as node, "arg": argument}) if kind == _SEND:
            return Send(node, argument)
    return {name: _value(one, call_id) for name, one in kept.items()}
