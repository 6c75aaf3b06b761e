"""What the two APIs answer, as the types of their SDKs define it."""

from __future__ import annotations

from typing import Any

THINKING = {"type": "thinking", "thinking": "Let me look.", "signature": "c2lnbmF0dXJl"}
REDACTED = {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"}
TOOL_USE = {"type": "tool_use", "id": "toolu_01", "name": "get_order", "input": {"order_id": 7}}
SERVER_TOOL = {
    "type": "server_tool_use",
    "id": "srvtoolu_01",
    "name": "web_search",
    "input": {"query": "tea"},
    "caller": {"type": "direct"},
}
CITED = {
    "type": "text",
    "text": "Tea is out.",
    "citations": [
        {
            "type": "char_location",
            "cited_text": "no tea",
            "document_index": 0,
            "document_title": None,
            "file_id": None,
            "start_char_index": 0,
            "end_char_index": 6,
        }
    ],
}


def claude_says(*content: Any, stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    """The body of an answer of the Messages API."""
    blocks = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content]
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": blocks,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": 100,
            "output_tokens": 20,
            "cache_read_input_tokens": 1000,
            "cache_creation_input_tokens": 300,
            "service_tier": "standard",
        },
        **more,
    }


def claude_fails(kind: str, message: str, **details: Any) -> dict[str, Any]:
    error = {"type": kind, "message": message, **({"details": details} if details else {})}
    return {"type": "error", "error": error, "request_id": "req_01"}


REASONING = {
    "type": "reasoning",
    "id": "rs_01",
    "summary": [
        {"type": "summary_text", "text": "Look first."},
        {"type": "summary_text", "text": "Then act."},
    ],
    "encrypted_content": "Z0FBQUFB",
}
FUNCTION_CALL = {
    "type": "function_call",
    "id": "fc_01",
    "call_id": "call_01",
    "name": "get_order",
    "arguments": '{"order_id":  7}',
    "status": "completed",
}
WEB_SEARCH = {
    "type": "web_search_call",
    "id": "ws_01",
    "status": "completed",
    "action": {"type": "search", "query": "tea", "queries": ["tea"]},
}


def output_message(*parts: Any, **more: Any) -> dict[str, Any]:
    made = [
        {"type": "output_text", "text": one, "annotations": []} if isinstance(one, str) else one
        for one in parts
    ]
    return {
        "type": "message",
        "id": "msg_01",
        "role": "assistant",
        "status": "completed",
        "content": made,
        **more,
    }


def gpt_says(*output: Any, status: str = "completed", **more: Any) -> dict[str, Any]:
    """The body of an answer of the Responses API."""
    items = [output_message(one) if isinstance(one, str) else one for one in output]
    return {
        "id": "resp_01",
        "object": "response",
        "created_at": 1_790_000_000,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": "Be brief.",
        "metadata": {},
        "model": "gpt-5.4-mini",
        "output": items,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": {
            "input_tokens": 1400,
            "input_tokens_details": {"cached_tokens": 1000, "cache_write_tokens": 300},
            "output_tokens": 20,
            "output_tokens_details": {"reasoning_tokens": 5},
            "total_tokens": 1420,
        },
        **more,
    }


def gpt_fails(code: str, message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
