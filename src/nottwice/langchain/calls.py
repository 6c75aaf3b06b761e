"""How is one call that a model asked for made, and what if a person must decide it? (P260, P263)

Without any framework: how LangGraph asks people is behind ``Questioner``. The framework's own yes
decides no doubt. The call was made again just before, so what was decided in nottwice was used
already; if nothing was, the framework pauses again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

from nottwice.adapters import CallResult, Handle, answer, verdict_of
from nottwice.errors import DecisionConflict, NottwiceError
from nottwice.guard.attached.calling import AnyTool
from nottwice.guard.attached.spec import Body
from nottwice.langchain.questions import (
    Heard,
    find_answer,
    find_other_answer,
    question_about,
    review_of,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.review import ReviewStatus


class Questioner(Protocol):
    """How a task of a framework asks people."""

    def hear(self) -> Heard:
        """What this task has asked, and what it has heard."""

    async def hear_async(self) -> Heard:
        """The same without blocking the event loop."""

    def take(self, answer: Any) -> None:
        """Note that an answer was used: it is for no other question of this task."""

    def pause(self, question: Mapping[str, Any]) -> NoReturn:
        """Raise what pauses the framework."""


@frozen_record(frozen=True, slots=True)
class CallWanted:
    """A call that a model asked for."""

    name: str
    """The tool as the model knows it."""
    tool: AnyTool
    arguments: Mapping[str, Any]
    label: str | None = None
    """Why it is asked for a second time, if it is a deliberate repeat."""
    ask: str | None = None
    """Why a person must approve it."""


def make(
    handle: Handle, asked: CallWanted, body: Body | None, asking: Questioner | None
) -> CallResult[Any]:
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
            heard = asking.hear()
            found = None if review in decided else find_answer(error, heard)
            if found is None or not _decide(handle, review, found[0]):
                asking.pause(_question(handle, error, asked, heard))
            asking.take(found[1])
            decided.add(review)


async def make_async(
    handle: Handle, asked: CallWanted, body: Body | None, asking: Questioner | None
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
            heard = await asking.hear_async()
            found = None if review in decided else find_answer(error, heard)
            if found is None or not await asyncio.to_thread(_decide, handle, review, found[0]):
                asking.pause(await asyncio.to_thread(_question, handle, error, asked, heard))
            asking.take(found[1])
            decided.add(review)


def _pauses_for(error: NottwiceError) -> str | None:
    return review_of(error) if verdict_of(error) == "pause" else None


def _decide(handle: Handle, review_id: str, told: dict[str, Any]) -> bool:
    """Decide a review. False: nothing was decided. Durable: the decision, when it returns."""
    try:
        return answer(handle, review_id, told) is not None
    except DecisionConflict:
        # It was decided at this moment, by another tool of the task or by a person.
        return True


def _question(
    handle: Handle, error: NottwiceError, asked: CallWanted, heard: Heard
) -> Mapping[str, Any]:
    """Return what to ask now.

    A question of this task that waits for its answer stays. Another tool of the task must not
    replace it: its id would be the same, and a person may be about to answer what they see. If its
    answer is there, it is used first. Durable: that decision, when this returns.
    """
    other = find_other_answer(error, heard)
    if other is not None:
        _decide(handle, *other)
    elif heard.review is not None and heard.answer is None:
        review = handle.session.store.load_review(heard.review)
        if review is not None and review.status is ReviewStatus.OPEN:
            waiting: Mapping[str, Any] = heard.asked_last
            return waiting
    return question_about(error, asked.name, asked.arguments, heard)
