"""Does a run wait after its model refused, and does every answer let it continue?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.messages import Message, Role, Text, ToolCall
from nottwice.agent.provider import ModelReply, ModelRequest, StopReason, Usage
from nottwice.model.review import Verb
from tests.agent.workshop import GOAL, Workshop
from tests.fakes import another_program

MAIL = {"send_mail": {"to": "ann", "text": "hello"}}


def no(*blocks: Any) -> ModelReply:
    return ModelReply(
        message=Message(Role.ASSISTANT, blocks or (Text("I must not."),)),
        stop=StopReason.REFUSED,
        usage=Usage(10, 10),
        model="scripted-1",
    )


def refusing(shop: Workshop, *turns: int, reply: ModelReply | None = None) -> Workshop:
    """Let the model refuse in these turns."""
    complete = shop.agent.provider.complete

    def refuse(request: ModelRequest) -> ModelReply:
        if request.turn in turns:
            shop.world.requests.append(request)
            return reply or no()
        return complete(request)

    shop.agent.provider.complete = refuse  # type: ignore[method-assign]
    return shop


def test_a_refusal_makes_the_run_wait_for_a_person_and_no_model_is_asked_again() -> None:
    shop = refusing(Workshop(["never"]), 1)
    for _ in range(2):
        outcome = shop.finish()
        assert outcome.status == "waiting"
        (review,) = outcome.reviews
        assert review.kind.value == "question"
        assert "refuses to continue this conversation: I must not." in review.summary
    assert len(shop.world.requests) == 1


def test_a_message_reopens_a_run_that_was_refused() -> None:
    shop = refusing(Workshop([MAIL, "", "Then I will."]), 2)
    assert shop.finish().status == "waiting"
    outcome = shop.finish(goal=None, message="It is for her birthday.")
    assert (outcome.status, outcome.state.answer) == ("completed", "Then I will.")
    shown = shop.world.requests[-1].messages
    assert "for her birthday" in shown[-1].text
    assert not any("I must not" in message.text for message in shown)
    assert shop.host.open_reviews == []
    assert shop.world.effects == [("mail", "ann", "hello")]


def test_a_message_wakes_a_worker_for_a_run_that_was_refused() -> None:
    shop = refusing(Workshop(["", "Then I will."]), 1)
    shop.finish()
    with shop.host.process() as ledger:
        app = nt.App(graphs=[shop.agent], store=ledger)
        assert nt.Worker(app).run(until_idle=True).taken == 0
        ledger.send("ticket-7", "message", "It is for her birthday.", by="ann")
        assert nt.Worker(app).run(until_idle=True).completed == 1


def test_a_person_lets_the_model_be_asked_again() -> None:
    shop = refusing(Workshop(["", "done"]), 1)
    shop.finish()
    shop.host.decide(Verb.ANSWER, result="ask again")
    outcome = shop.finish()
    assert (outcome.status, outcome.state.answer) == ("completed", "done")
    assert [message.text for message in outcome.state.transcript] == ["I must not.", "done"]


def test_a_person_says_something_to_the_model_that_refused() -> None:
    shop = refusing(Workshop(["", "", "Then I will."]), 1, 2)
    shop.finish()
    shop.host.decide(Verb.ANSWER, result="It is for her birthday.")
    assert shop.finish().status == "waiting", "it refused once more, and that is another question"
    shop.host.decide(Verb.ANSWER, result="Really.")
    assert shop.finish().state.answer == "Then I will."
    second, third = (request.messages[-1].text for request in shop.world.requests[1:])
    assert second.endswith("It is for her birthday.")
    assert third.endswith("It is for her birthday.\nReally.")


def test_a_person_and_the_user_are_both_heard() -> None:
    shop = refusing(Workshop(["", "Then I will."]), 1)
    shop.finish()
    shop.host.decide(Verb.ANSWER, result="It is for her birthday.")
    outcome = shop.finish(goal=None, message="Please.")
    words = [message.text for message in outcome.state.transcript]
    assert words == ["I must not.", "It is for her birthday.", "Please.", "Then I will."]


def other(shop: Workshop, script: Any, model: str) -> nt.Agent:
    made = shop.make(script, tools=shop.kept)
    made.provider.model = model  # type: ignore[misc]
    return made


def test_another_model_is_asked_when_the_agent_has_another_one() -> None:
    shop = refusing(Workshop(["never"]), 1)
    shop.finish()
    shop.agent = other(shop, ["", "With pleasure."], "scripted-2")
    outcome = shop.finish()
    assert (outcome.status, outcome.state.answer) == ("completed", "With pleasure.")
    assert shop.host.open_reviews == []


def test_models_that_all_refuse_are_not_asked_in_turn_forever() -> None:
    shop = refusing(Workshop(["never"]), 1)
    shop.finish()
    for model in ("scripted-2", "scripted-1", "scripted-2"):
        shop.agent = other(shop, ["never"] * 9, model)
        refusing(shop, *range(1, 9))
        assert shop.finish().status == "waiting"
    assert len(shop.world.requests) == 2


def test_a_fork_of_a_run_that_was_refused_can_be_spoken_to() -> None:
    shop = refusing(Workshop(["", "Then I will."]), 1)
    shop.finish()
    with shop.host.process() as ledger:
        shop.agent.fork("ticket-7", to="again", store=ledger)
        outcome = shop.agent.run("again", message="It is for her birthday.", store=ledger)
    assert outcome.state.answer == "Then I will."


def test_what_a_refused_reply_asks_for_is_not_done() -> None:
    reply = no(Text("I must not."), ToolCall("c1", "send_mail", MAIL["send_mail"]))
    shop = refusing(Workshop(["", "done"]), 1, reply=reply)
    assert shop.finish().status == "waiting"
    shop.host.decide(Verb.ANSWER, result="ask again")
    assert shop.finish().status == "completed"
    assert shop.world.effects == []


def test_a_provider_that_does_not_answer_a_conversation_is_a_refusal_too() -> None:
    shop = Workshop(["", "done"], most_output_tokens=1000, budget=nt.Budget(tokens=3000))
    complete = shop.agent.provider.complete

    def blocked(request: ModelRequest) -> ModelReply:
        if request.turn == 1:
            raise nt.errors.ModelRefused("blocked by the content filter")
        return complete(request)

    shop.agent.provider.complete = blocked  # type: ignore[method-assign]
    outcome = shop.finish()
    assert outcome.status == "waiting"
    assert "blocked by the content filter" in outcome.reviews[0].summary
    assert outcome.state.spent.own.tokens == 0
    shop.host.decide(Verb.ANSWER, result="ask again")
    assert shop.finish().state.answer == "done"


@pytest.mark.parametrize("dies_at", range(1, 12))
@pytest.mark.parametrize("checkpoints", ["effects", "every_step"])
def test_what_a_person_said_is_not_lost_wherever_the_run_is_killed(
    dies_at: int, checkpoints: Any
) -> None:
    shop = refusing(Workshop(["", "Then I will."], checkpoints=checkpoints), 1)
    shop.finish()
    shop.host.decide(Verb.ANSWER, result="It is for her birthday.")
    shop.run(dies_at=dies_at)
    outcome = shop.finish()
    assert outcome.state.answer == "Then I will."
    words = [message.text for message in outcome.state.transcript]
    assert words == ["I must not.", "It is for her birthday.", "Then I will."]


def points() -> int:
    with another_program():
        shop = refusing(Workshop(["", "Then I will."]), 1)
        shop.finish()
        shop.finish(goal=None, message="Please.")
        return shop.host.points


@pytest.mark.parametrize("dies_at", range(1, points() + 1))
def test_killed_anywhere_after_a_message_it_ends_like_an_uninterrupted_one(
    dies_at: int,
) -> None:
    expected = refusing(Workshop(["", "Then I will."]), 1)
    expected.finish()
    shop = refusing(Workshop(["", "Then I will."]), 1)
    shop.finish()
    shop.run(dies_at=dies_at, goal=None, message="Please.")
    outcome = shop.finish(goal=None, message="Please.")
    assert outcome.state == expected.finish(goal=None, message="Please.").state
    assert outcome.state.goal == GOAL
