"""What the tests of policies share: a proposed call, and a way to rule on it."""

from __future__ import annotations

from typing import Any

from nottwice import policy


def wanted(tool: str = "refund", **changes: Any) -> policy.ProposedCall:
    """A call of a tool that is tagged ``money`` and has the rate-limit class ``bank``."""
    facts: dict[str, Any] = {
        "tool": tool,
        "replay_class": "unsafe_on_replay",
        "tags": ("money",),
        "rate_class": "bank",
        "arguments": {"cents": 40},
        "run_id": "r",
        "step": "/",
        "call_id": "c",
        "label": None,
        "key": None,
        "read_meter": lambda meter, seconds: 0,
    }
    return policy.ProposedCall(**{**facts, **changes})
