"""What is an answer of a declared type, ``nt.Agent(..., answer=Invoice)``, and is this one?

The model answers with JSON, which is validated before the run counts as done. What does not fit is
told to the model, with the reason, and it answers again; a budget of repeats bounds that. The JSON
is on record, and is read into the type whenever the state is looked at.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from nottwice.errors import UsageError
from nottwice.guard.arguments.annotations import describe
from nottwice.guard.plain_data.codec import build_adapter, explain, restore
from nottwice.model import values

_FENCED = re.compile(r"```(?:json)?\s*\n(?P<json>.*?)```", re.DOTALL)


class WrongAnswer(Exception):
    """An answer that is not of the declared type; the text tells the model why."""


class AnswerType:
    """The type that an agent's answer has: a pydantic model, a dataclass, or any annotation."""

    def __init__(self, agent: str, annotation: Any) -> None:
        self._adapter, unusable = build_adapter(annotation)
        try:
            schema = self._adapter.json_schema()
        except Exception as error:
            unusable = unusable or f"it has no JSON schema ({str(error).partition(chr(10))[0]})"
        if unusable is not None:
            raise UsageError(
                f"Agent {agent!r} has answer={describe(annotation)}, which a model cannot be asked "
                f"for: {unusable}. Nothing happened. Give a pydantic model, a dataclass or a type "
                "of plain data."
            )
        self.instructions = (
            "When the task is done, answer with one JSON value and nothing else. It must fit this "
            f"JSON schema:\n{json.dumps(schema, ensure_ascii=False)}"
        )

    def read(self, text: str) -> Any:
        """The plain value in what a model said; WrongAnswer if it is not of the type."""
        try:
            plain = _parsed(text)
            restore(self._adapter, plain)
        except _NoJson as error:
            raise WrongAnswer(f"{error} {self.instructions}") from None
        except Exception as error:
            path, why = explain(error, root="$")
            raise WrongAnswer(
                f"Your answer is JSON, and does not fit: {path}: {why}. {self.instructions}"
            ) from None
        return plain

    def show(self, plain: Any) -> Any:
        """What is on record, in the type; as it is stored, if the type has changed since."""
        try:
            return restore(self._adapter, plain)
        except Exception:
            return plain


class _NoJson(Exception):
    pass


def _parsed(text: str) -> Any:
    fenced = _FENCED.findall(text)
    bare = fenced[0] if len(fenced) == 1 else text
    try:
        plain = json.loads(bare, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise _NoJson(f"Your answer is not one JSON value: {error}.") from None
    if not values.is_plain(plain):
        raise _NoJson("Your answer has a number or a text in it that cannot be kept.")
    return plain


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
