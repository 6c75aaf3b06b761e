"""What must be true at the end of a run: how conditions are written, and where they come from.

A condition is text. A name followed by ``()`` and nothing else is a function. Text that ends with
``[receipt: tool]`` counts only together with a receipt. For all other text, the model's word is the
evidence. A marker that is almost right is refused, and so is the name of an unknown function: read
as words, they would check nothing. A run keeps the conditions that it was started with. Those of
its agent may change with each deploy.
Promises kept here: P196, P212.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nottwice.errors import UsageError
from nottwice.model import values
from nottwice.model.data.shapes import not_believed
from nottwice.model.run import RunRecord

CALLED = "()"
"""What follows the name of a function."""
_BOUND = re.compile(r"\[\s*receipt\s*(?::\s*(?P<tool>[^\[\]]*?)\s*)?\][\s\W]*$", re.IGNORECASE)
_ALMOST = re.compile(r"\[\s*rec(?:ei|ie|e|i)pt", re.IGNORECASE)


def function_of(condition: str) -> str | None:
    """Return the name of the function that a condition names; None: it is a condition in words."""
    name = condition.strip().removesuffix(CALLED)
    return name if name != condition.strip() and name.isidentifier() else None


def check_functions(agent: str, named: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a condition that names a function which the agent does not have."""
    for condition in named:
        name = function_of(condition)
        if name is not None and name not in known:
            raise UsageError(
                f"Agent {agent!r} has done_when={condition!r}, which is the name of a function, "
                "but it was given no such function. Nothing happened. Give the function itself, "
                f"done_when=[{name}], or say it in words: 'all calls of {name}() are gone'."
            )


def is_bound(condition: str) -> bool:
    """Whether a condition in words counts only together with a receipt."""
    return _BOUND.search(condition) is not None


def bound_to(condition: str) -> str | None:
    """Return the tool whose receipt a condition in words needs; None: no particular tool."""
    found = _BOUND.search(condition)
    return None if found is None else found["tool"]


def check_markers(conditions: Iterable[Any]) -> None:
    """Refuse a receipt marker that is misspelt or not at the end."""
    for condition in conditions:
        if isinstance(condition, str) and _ALMOST.search(_BOUND.sub("", condition)):
            raise UsageError(
                f"done_when has {condition!r}, which seems to ask for a receipt, but not in the "
                "form that nottwice understands, so nothing would check it. Nothing was "
                "started. Write it once, at the end: 'Ann is paid [receipt: refund]'."
            )


def lasting(evidence: Mapping[str, str]) -> dict[str, str]:
    """Return the evidence that stays valid after a message of the user: what receipts show."""
    return {one: text for one, text in evidence.items() if is_bound(one)}


def own(state: Mapping[str, Any]) -> list[str]:
    """Return the conditions that a run was started with; the others on record are its agent's."""
    conditions: Sequence[str] = state["done_when"]
    return list(conditions[: state.get("own_conditions", len(conditions))])


def began_with(run: RunRecord) -> list[str]:
    """Do the same for a run that is inspected before it continues."""
    with not_believed(f"The input of run {run.workflow_id!r}"):
        return own(values.decode_object(run.given_input()))
