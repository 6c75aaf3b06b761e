"""What happens when a model refuses to continue a conversation (A4)?

The run waits. A person may send it a message, ask the same model again, or deploy the agent with
another model. The refused reply and its tool calls do not count: its tools are not called, and no
later request shows it. Promises kept here: P192, P234.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nottwice.agent.messages import Message, Reasoning, Role, Text, Unknown
from nottwice.agent.provider import StopReason
from nottwice.agent.requests.raising import find_call
from nottwice.engine.asks import Doing
from nottwice.engine.calls.requests import Request
from nottwice.engine.session import Scope
from nottwice.engine.waits import questions, waiting
from nottwice.errors import QuestionOpen
from nottwice.guard.recorded import own_tool, request_for
from nottwice.model.asking.asked import Question
from nottwice.model.review import ReviewStatus
from nottwice.model.run import Wait, WaitKind
from nottwice.model.tool import Tool

REFUSED = "nottwice.refused"
"""Marks a reply in the transcript that does not count."""
PAUSED = "nottwice.paused"
"""Marks a reply that the provider did not finish, and that is not a refusal."""
ASK_AGAIN = "ask again"
MOST_WORDS = 500


def is_refused(plain: Mapping[str, Any]) -> bool:
    """Whether the reply of this turn is a refusal."""
    return bool(plain["reply"]["stop"] == StopReason.REFUSED.value)


def marked(message: Message, stop: StopReason) -> Message:
    """Return a reply as the transcript keeps it: marked if it was refused or paused."""
    mark = {StopReason.REFUSED: REFUSED, StopReason.OTHER: PAUSED}.get(stop)
    if mark is None:
        return message
    return Message(message.role, message.blocks, {**message.extra, mark: True})


def shown_to_model(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield what a model may be shown: neither refused replies nor empty ones.

    Providers reject a conversation with a reply that has no words or tools, and some reject one in
    which the same side speaks twice: the messages around such a reply become one message.
    """
    held: Message | None = None
    gap = False
    for message in messages:
        if message.role is Role.ASSISTANT and _counts_for_nothing(message):
            gap = True
            continue
        if held is not None:
            if gap and held.role is message.role and not (held.extra or message.extra):
                held = Message(held.role, (*held.blocks, *message.blocks))
                continue
            yield held
        held, gap = message, False
    if held is not None:
        yield held


def says_nothing(message: Message) -> bool:
    """Whether a reply has neither words nor tool calls."""
    return all(
        isinstance(block, Reasoning | Unknown)
        or (isinstance(block, Text) and not block.text.strip())
        for block in message.blocks
    )


def _counts_for_nothing(message: Message) -> bool:
    if PAUSED in message.extra and any(isinstance(block, Unknown) for block in message.blocks):
        # A provider that paused during its own work needs it back, to continue.
        return False
    return REFUSED in message.extra or says_nothing(message)


def is_decided(scope: Scope, plain: Mapping[str, Any]) -> Doing[bool]:
    """Whether a person has answered: then that answer counts, even if a message came later."""
    session, identity = scope.session, _request(scope, plain).identity
    row = yield from find_call(session, identity)
    if row is not None:
        return True
    review = yield from questions.pending_review(session, identity)
    return review is not None and review.status is ReviewStatus.DECIDED


def decide(scope: Scope, plain: Mapping[str, Any], message: Message, event: str) -> Doing[str]:
    """Return a person's answer about a refusal: ``ask again``, or words for the model.

    Durable: the question, before QuestionOpen is raised. A message wakes the run, too, so it is
    recorded as another reason to wait.
    """
    session, reply = scope.session, plain["reply"]
    words = message.text.strip() or reply.get("why") or "it gave no reason"
    words = words if len(words) <= MOST_WORDS else words[: MOST_WORDS - 1] + "…"
    request = _request(scope, plain)
    run_id = shlex.quote(session.run_id)
    question = Question(
        text=f"{reply['asked']} refuses to continue this conversation: {words}",
        about={
            "model": reply["asked"],
            "said": words,
            "to ask the same model again": f"answer with the words: {ASK_AGAIN}",
            "to say something": "answer with any other words, or send a message: nottwice run "
            f"--id {run_id} --message TEXT",
            "to ask another model": "deploy the agent with another provider, and run it",
        },
    )
    try:
        said: str = yield from waiting.ask(request, question, None)
    except QuestionOpen as error:
        other = request_for(scope, _REFUSAL, {"turn": plain["turn"], "or": event}).identity
        session.stops.note(other, error, Wait(WaitKind.EVENT, event, scope.node_id))
        raise
    return said


def _request(scope: Scope, plain: Mapping[str, Any]) -> Request:
    return request_for(scope, _REFUSAL, {"turn": plain["turn"]})


def _no_function(*args: Any) -> Any:
    raise AssertionError("a person answers, and nothing calls it")


_REFUSAL: Tool = own_tool("refusal", _no_function, str, what="what to do about a refusal")
