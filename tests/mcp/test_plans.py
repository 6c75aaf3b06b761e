"""How a tool is protected: what a person said, else what the server says, else lost answers (P271,
P272)."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from nottwice.adapters import REPEAT
from nottwice.mcp.plans import ToolPlans
from nottwice.mcp.settings import read_tools

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"cents": {"type": "integer"}}}
TOOLS: list[dict[str, Any]] = [
    {"name": "read", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "set", "inputSchema": SCHEMA, "annotations": {"idempotentHint": True}},
    {"name": "write", "inputSchema": SCHEMA, "title": "Write", "_meta": {"a": 1}},
    {"name": "charge", "inputSchema": SCHEMA, "outputSchema": SCHEMA},
]


def plans(trust: bool = True, **said: Any) -> ToolPlans:
    made = ToolPlans("shop", read_tools(said), trust_annotations=trust)
    made.learn(TOOLS)
    return made


@pytest.mark.parametrize(
    ("tool", "trust", "kind", "replay"),
    [
        ("read", True, "passed", "unsafe_on_replay"),
        ("read", False, "lost_answers", "unsafe_on_replay"),
        ("set", True, "lost_answers", "idempotent"),
        ("set", False, "lost_answers", "unsafe_on_replay"),
        ("write", True, "lost_answers", "unsafe_on_replay"),
        ("charge", True, "once", "unsafe_on_replay"),
        ("search", True, "passed", "pure"),
        ("unlisted", True, "lost_answers", "unsafe_on_replay"),
    ],
)
def test_the_three_defaults(tool: str, trust: bool, kind: str, replay: str) -> None:
    made = plans(trust, charge="unsafe_on_replay", search="pure").plan_of(tool)
    assert (made.kind, made.spec.replay_class) == (kind, replay)
    assert made.spec.name == f"shop/{tool}"


def test_a_person_is_believed_more_than_the_server() -> None:
    assert plans(read="unsafe_on_replay").plan_of("read").kind == "once"


def test_the_list_is_unchanged_but_for_the_repeat_of_classed_tools() -> None:
    before = copy.deepcopy(TOOLS)
    made = plans(charge="unsafe_on_replay", read="pure")
    shown = [made.shown(tool) for tool in TOOLS]
    assert before == TOOLS
    assert shown[:3] == TOOLS[:3]
    added = shown[3]["inputSchema"]["properties"].pop(REPEAT)
    assert added["type"] == "string"
    assert shown[3] == TOOLS[3]


def test_a_parameter_of_the_same_name_belongs_to_the_server() -> None:
    own = {"name": "charge", "inputSchema": {"properties": {REPEAT: {"type": "boolean"}}}}
    made = plans(charge="unsafe_on_replay")
    made.learn([own])
    assert made.shown(own) == own
    assert not made.plan_of("charge").can_repeat


def test_a_changed_list_is_asked_for_again() -> None:
    made = plans()
    assert made.knows("read")
    made.forget()
    assert not made.knows("read")
    assert made.plan_of("read").kind == "lost_answers"


def test_one_line_says_what_is_protected_how() -> None:
    summary = plans(charge="unsafe_on_replay").summary()
    assert summary == (
        "once per time given: charge; lost answers only: set, write; passed through: read"
    )


def test_a_name_that_is_no_tool_of_the_server_is_not_called_protected() -> None:
    made = ToolPlans("shop", read_tools({"chrage": "unsafe_on_replay"}))
    # Before the server has listed its tools, the settings are all there is.
    assert made.summary() == "once per time given: chrage"
    made.learn(TOOLS)
    assert made.summary() == (
        "not a tool of this server: chrage; lost answers only: charge, set, write; "
        "passed through: read"
    )


def test_a_name_that_the_ledger_cannot_keep_is_hashed() -> None:
    made = plans()
    first, second = made.plan_of("a\nb").spec.name, made.plan_of("x" * 5000).spec.name
    assert first.startswith("shop/")
    assert first.isprintable()
    assert len(second) < 100
