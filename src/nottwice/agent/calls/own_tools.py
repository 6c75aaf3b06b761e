"""The tools that the harness itself offers to a model: for its plan, its evidence, its memory.

They only change the run's state, so they need no row in the ledger: the beat that answers them and
the beat that applies them both work from what is on record.

The model's word is evidence for a condition in words, and it may be wrong. A condition that ends
with ``[receipt: tool]`` counts only together with a receipt of that tool in this run. Promises kept
here: P196, P232.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nottwice.agent.calls.receipts import LEAST_CHARACTERS, RECALL, SHORT_CHARACTERS, page
from nottwice.agent.conditions import bound_to, is_bound
from nottwice.agent.context import call_text, most_recalled, recall
from nottwice.agent.messages import ToolCall, answered_calls
from nottwice.agent.provider import ToolSchema
from nottwice.agent.state import RunState
from nottwice.model.data.records import frozen_record

_MOST_RECEIPTS = 20


class BadArguments(Exception):
    """The model's arguments do not fit the tool; the text tells it why."""


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
        {
            "type": "object",
            "properties": parameters,
            "required": [name for name in parameters if name not in _OPTIONAL],
        },
    )


_TEXT = {"type": "string"}
_OPTIONAL_TEXT = {"type": "string", "description": "The id of a receipt of this run."}
_OPTIONAL = ("receipt", "first", "last", "offset")
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
            "One of the numbered conditions of your task is true. Say how you know. A condition "
            "that ends with [receipt: tool] needs a receipt of that tool; leave receipt out if "
            "there is only one.",
            condition={"type": "integer", "minimum": 1},
            evidence=_TEXT,
            receipt=_OPTIONAL_TEXT,
        ),
        _schema(
            "remember",
            "Note down where something can be found again: a path, an id, an address. Not the "
            "thing itself.",
            name=_TEXT,
            where=_TEXT,
        ),
        _schema(
            RECALL,
            "Read earlier messages of this conversation word for word, by their numbers. offset: "
            "read the first of them from this character on, if it was too long. Number -1 is your "
            "task, -2 your plan. receipt: read the whole result of a tool instead, by its receipt.",
            first={"type": "integer", "minimum": -2},
            last={"type": "integer", "minimum": -2},
            offset={"type": "integer", "minimum": 0},
            receipt=_OPTIONAL_TEXT,
        ),
    )
}


def answer(
    state: RunState, changes: Changes, call: ToolCall, whole: Mapping[str, str] | None = None
) -> str:
    """Return what the model is told; BadArguments if its arguments are missing or wrong.

    ``whole``: the texts of the receipts that it wants to read, by the id that the model gave.
    """
    if call.name != RECALL:
        return apply(state, changes, call)
    offset = 0 if call.arguments.get("offset") is None else _number(call, "offset")
    receipt = call.arguments.get("receipt")
    if receipt is not None:
        text = page(whole or {}, receipt, offset, most_recalled(state))
        if text is None:
            raise BadArguments(_no_such_receipt(state))
        return text
    first = _number(call, "first")
    last = first if call.arguments.get("last") is None else _number(call, "last")
    return recall(state, first, last, offset)


def _no_such_receipt(state: RunState) -> str:
    known = receipts(state, None)
    which = "\n".join(f"{one.short_id}: {one.text}" for one in known[-_MOST_RECEIPTS:])
    return (
        "There is no receipt of that id in this run. Nothing was read. Use the id that the cut "
        f"result tells, receipt='...'. There are:\n{which or 'none'}"
    )


def apply(state: RunState, changes: Changes, call: ToolCall) -> str:
    """Apply what a call changes to ``changes``; BadArguments if its arguments do not fit."""
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
    condition, evidence = state.done_when[number - 1], _text(call, "evidence")
    given = call.arguments.get("receipt")
    if is_bound(condition) or given is not None:
        tool = bound_to(condition)
        receipt = _find_receipt(receipts(state, tool), number, tool, given)
        evidence = f"{evidence} (receipt {receipt.short_id}: {receipt.text})"
    changes.evidence[condition] = evidence
    return "Noted."


def _no_such_condition(conditions: int) -> str:
    if conditions == 0:
        return "Your task has no conditions. Nothing was noted, and nothing needs to be."
    return f"Your task has conditions 1 to {conditions}. Nothing was noted. Name one of them."


def _needs(call: ToolCall, name: str, what: str) -> str:
    return f"{call.name} needs {name}, {what}. Nothing was noted. Call it again with {name}."


def _find_receipt(found: list[OwnReceipt], number: int, tool: str | None, given: Any) -> OwnReceipt:
    """Return the receipt that a model means; BadArguments lists the existing ones."""
    fitting = found
    if given is not None:
        named = given.strip() if isinstance(given, str) else ""
        is_enough = len(named) >= LEAST_CHARACTERS
        fitting = [one for one in found if is_enough and one.receipt_id.startswith(named)]
    if len(fitting) == 1:
        return fitting[0]
    of = f" of {tool}" if tool else ""
    if not found:
        raise BadArguments(
            f"Not noted: condition {number} needs a receipt{of}, and there is none in this run. "
            "Do it first; its result is the receipt."
        )
    which = "\n".join(f"{one.short_id}: {one.text}" for one in found[-_MOST_RECEIPTS:])
    raise BadArguments(
        f"Not noted: say which receipt{of} shows it, receipt='...'. There are:\n{which}"
    )


@frozen_record(frozen=True, slots=True)
class OwnReceipt:
    """A call of this run that was done, as a model can refer to it."""

    receipt_id: str
    text: str

    @property
    def short_id(self) -> str:
        return self.receipt_id[:SHORT_CHARACTERS]


def receipts(state: RunState, tool: str | None) -> list[OwnReceipt]:
    """Return the receipts of a run, each once, oldest first; only those of ``tool`` if given."""
    found: dict[str, OwnReceipt] = {}
    for call, result in answered_calls(state.transcript):
        if result.is_error or result.receipt_id is None:
            continue
        if tool in (None, call.name):
            found.setdefault(result.receipt_id, OwnReceipt(result.receipt_id, call_text(call)))
    return list(found.values())


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
