"""The tools that the harness itself offers to a model: for its plan, its evidence, its memory.

They change the run's state and nothing else, so they need no row in the ledger: the beat that
answers them and the beat that applies them are both made from what is on record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nottwice.agent.context import recall
from nottwice.agent.messages import ToolCall
from nottwice.agent.provider import ToolSchema
from nottwice.agent.state import RunState

MOST_RECALLED_CHARACTERS = 20_000


class BadArguments(Exception):
    """What a model wrote does not fit the tool; the text tells it why."""


@dataclass(slots=True)
class Changes:
    """What the harness's own tools change in the state, in the order of the calls."""

    plan: list[str]
    cursor: int
    evidence: dict[str, str]
    completed: list[dict[str, Any]] = field(default_factory=list)
    memory: list[dict[str, Any]] = field(default_factory=list)

    @staticmethod
    def of(state: RunState) -> Changes:
        return Changes(list(state.plan), state.cursor, dict(state.evidence))

    def to_update(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "cursor": self.cursor,
            "evidence": self.evidence,
            "completed": self.completed,
            "memory": self.memory,
        }


def _schema(name: str, description: str, /, **parameters: Any) -> ToolSchema:
    return ToolSchema(
        name,
        description,
        {"type": "object", "properties": parameters, "required": list(parameters)},
    )


_TEXT = {"type": "string"}
OWN_TOOLS: dict[str, ToolSchema] = {
    schema.name: schema
    for schema in (
        _schema(
            "make_plan",
            "Write down the steps that are still to be done. Replaces those you planned before.",
            steps={"type": "array", "items": _TEXT},
        ),
        _schema(
            "finish_step",
            "The current step of your plan is done. Say how you know.",
            evidence=_TEXT,
        ),
        _schema(
            "show_evidence",
            "One of the numbered conditions of your task is true. Say how you know.",
            condition={"type": "integer", "minimum": 1},
            evidence=_TEXT,
        ),
        _schema(
            "remember",
            "Note down where something can be found again: a path, an id, an address. Not the "
            "thing itself.",
            name=_TEXT,
            where=_TEXT,
        ),
        _schema(
            "recall",
            "Read earlier messages of this conversation word for word, by their numbers.",
            first={"type": "integer", "minimum": 0},
            last={"type": "integer", "minimum": 0},
        ),
    )
}


def answer(state: RunState, changes: Changes, call: ToolCall) -> str:
    """What the model is told; BadArguments if it did not say what it wants."""
    if call.name == "recall":
        first, last = (_number(call, name) for name in ("first", "last"))
        return recall(state, first, last, MOST_RECALLED_CHARACTERS)
    return apply(state, changes, call)


def apply(state: RunState, changes: Changes, call: ToolCall) -> str:
    """Take what a call changes into ``changes``; BadArguments if it says nothing that could be."""
    match call.name:
        case "make_plan":
            changes.plan = changes.plan[: changes.cursor] + _texts(call, "steps")
            return f"Noted. {len(changes.plan) - changes.cursor} steps are to be done."
        case "finish_step":
            return _finish_step(state, changes, _text(call, "evidence"))
        case "show_evidence":
            return _show_evidence(state, changes, call)
        case "remember":
            name, where = _text(call, "name"), _text(call, "where")
            changes.memory.append({"name": name, "where": where, "turn": state.turn})
            return "Noted."
        case _:
            return ""


def _finish_step(state: RunState, changes: Changes, evidence: str) -> str:
    if changes.cursor >= len(changes.plan):
        raise BadArguments(
            "No step of your plan is open. Nothing was noted. Use make_plan first, if there is "
            "more to do."
        )
    step = changes.plan[changes.cursor]
    changes.completed.append({"step": step, "evidence": evidence, "turn": state.turn})
    changes.cursor += 1
    left = changes.plan[changes.cursor :]
    return f"Noted. Next: {left[0]}" if left else "Noted. That was the last step."


def _show_evidence(state: RunState, changes: Changes, call: ToolCall) -> str:
    number = _number(call, "condition")
    if not 1 <= number <= len(state.done_when):
        raise BadArguments(_no_such_condition(len(state.done_when)))
    changes.evidence[state.done_when[number - 1]] = _text(call, "evidence")
    return "Noted."


def _no_such_condition(conditions: int) -> str:
    if conditions == 0:
        return "Your task has no conditions. Nothing was noted, and nothing needs to be."
    return f"Your task has conditions 1 to {conditions}. Nothing was noted. Name one of them."


def _needs(call: ToolCall, name: str, what: str) -> str:
    return f"{call.name} needs {name}, {what}. Nothing was noted. Call it again with {name}."


def _text(call: ToolCall, name: str) -> str:
    value = call.arguments.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadArguments(_needs(call, name, "a text"))
    return value


def _texts(call: ToolCall, name: str) -> list[str]:
    value: Any = call.arguments.get(name)
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise BadArguments(_needs(call, name, "a list of texts"))
    return list(value)


def _number(call: ToolCall, name: str) -> int:
    arguments: Mapping[str, Any] = call.arguments
    value = arguments.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadArguments(_needs(call, name, "a whole number"))
    return value
