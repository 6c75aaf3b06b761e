"""How is an answer of a declared type, ``nt.Agent(..., answer=Invoice)``, requested and checked?

The model answers with JSON, which is validated before the run counts as done. If it does not fit,
the model is told why and answers again, as often as the budget's ``repeats`` allows. The JSON is on
record, and is converted to the type whenever the state is read.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from nottwice.errors import UsageError
from nottwice.guard.arguments.annotations import describe
from nottwice.guard.plain_data.typed_form import build_adapter, explain, restore
from nottwice.model import values

_FENCED = re.compile(r"```(?:json)?\s*\n(?P<json>.*?)```", re.DOTALL)


class WrongAnswer(Exception):
    """An answer that does not have the declared type; the text says why."""


class AnswerType:
    """The type of an agent's answer: a pydantic model, a dataclass, or any annotation."""

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
        """Return the plain value in a model's answer; WrongAnswer if it does not have the type."""
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
        """Convert the recorded value to the type; return it as stored if the type has changed."""
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
