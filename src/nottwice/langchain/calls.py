"""How is one call that a model asked for made, and what if a person must decide it? (P260, P263)

Without any framework: how LangGraph asks people is behind ``Asking``. The framework's own yes
decides no doubt. The call was made again just before, so what was decided in nottwice was used
already; if nothing was, the framework pauses again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

from nottwice.adapters import CallResult, Handle, aanswer, answer, verdict_of
from nottwice.errors import NottwiceError
from nottwice.guard.attached.calling import AnyTool
from nottwice.guard.attached.spec import Body
from nottwice.langchain.questions import (
    find_answer,
    has_plain_answers,
    question_about,
    review_of,
)
from nottwice.model.records import frozen_record


class Asking(Protocol):
    """How a task of a framework asks people."""

    def answers(self) -> Sequence[Any]:
        """Every answer that this task has got so far, in order."""

    def asked_last(self) -> Any:
        """The question of this task that was saved last. None: there is none."""

    async def asked_last_async(self) -> Any:
        """The same without blocking the event loop."""

    def pause(self, question: Mapping[str, Any]) -> NoReturn:
        """Raise what pauses the framework."""


@frozen_record(frozen=True, slots=True)
class Asked:
    """A call that a model asked for."""

    name: str
    """The tool as the model knows it."""
    tool: AnyTool
    arguments: Mapping[str, Any]
    label: str | None = None
    """Why it is asked for a second time, if it is a deliberate repeat."""
    ask: str | None = None
    """Why a person must approve it."""


def make(handle: Handle, asked: Asked, body: Body | None, asking: Asking | None) -> CallResult[Any]:
    """Make the call, or return its receipt. ``asking``: None if the framework cannot pause.

    Durable: the receipt of an effect, when this returns.
    """
    decided: set[str] = set()
    while True:
        try:
            return handle.call(asked.tool, asked.arguments, body, label=asked.label, ask=asked.ask)
        except NottwiceError as error:
            review = _pauses_for(error)
            if review is None or asking is None:
                raise
            answers = asking.answers()
            last = asking.asked_last() if has_plain_answers(answers) else None
            told = None if review in decided else find_answer(answers, last, error)
            if told is None or answer(handle, review, told) is None:
                asking.pause(_question(error, asked, answers))
            decided.add(review)


async def make_async(
    handle: Handle, asked: Asked, body: Body | None, asking: Asking | None
) -> CallResult[Any]:
    """Do the same without blocking the event loop."""
    decided: set[str] = set()
    while True:
        try:
            return await handle.acall(
                asked.tool, asked.arguments, body, label=asked.label, ask=asked.ask
            )
        except NottwiceError as error:
            review = _pauses_for(error)
            if review is None or asking is None:
                raise
            answers = asking.answers()
            last = await asking.asked_last_async() if has_plain_answers(answers) else None
            told = None if review in decided else find_answer(answers, last, error)
            if told is None or await aanswer(handle, review, told) is None:
                asking.pause(_question(error, asked, answers))
            decided.add(review)


def _pauses_for(error: NottwiceError) -> str | None:
    return review_of(error) if verdict_of(error) == "pause" else None


def _question(error: NottwiceError, asked: Asked, answers: Sequence[Any]) -> dict[str, Any]:
    return question_about(error, asked.name, asked.arguments, answered=len(answers))
