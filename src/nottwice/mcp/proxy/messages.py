"""What is a message of JSON-RPC: a request, an answer or a notification?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Message = dict[str, Any]
OWN = "nottwice-"
"""The beginning of the ids of our own requests."""
CALL = "tools/call"
LIST = "tools/list"
LIST_CHANGED = "notifications/tools/list_changed"
CANCELLED = "notifications/cancelled"
SERVER_ENDED = -32000


def read_line(line: bytes) -> list[Message]:
    """Return the messages of a line; a batch has several. ValueError if it is not JSON-RPC."""
    read = json.loads(line)
    found = read if isinstance(read, list) else [read]
    if not found or not all(isinstance(one, dict) for one in found):
        raise ValueError("it is not a message")
    return found


def written(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def is_request(message: Mapping[str, Any]) -> bool:
    return "method" in message and message.get("id") is not None


def is_answer(message: Mapping[str, Any]) -> bool:
    return "method" not in message and ("result" in message or "error" in message)


def params_of(message: Mapping[str, Any]) -> dict[str, Any]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def answer(request_id: Any, result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(request_id: Any, error: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "error": dict(error)}


def request(request_id: str, method: str, params: Mapping[str, Any]) -> Message:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": dict(params)}


def id_key(request_id: Any) -> str:
    """Return an id as a key: 1 and "1" are different ids."""
    return json.dumps(request_id)
