"""Is what a model is told written for a model, and is it true?"""

from __future__ import annotations

import re

import pytest

import nottwice as nt
from nottwice.agent.calls import wording
from nottwice.agent.messages import ToolCall, ToolResult
from nottwice.model.review import Verb
from tests.agent.workshop import Workshop

FOR_PROGRAMMERS = re.compile(
    r"nottwice|@nt\.|\bnt\.|--\w|\.py\b|declar|annotat|signature|volatile|decide|review|Traceback"
    r"|\.receipt|\.again|key function|with the command|idempoten",
    re.IGNORECASE,
)


def results(shop: Workshop) -> list[ToolResult]:
    transcript = shop.finish().state.transcript
    return [result for message in transcript for result in message.tool_results]


def check(result: ToolResult) -> None:
    assert result.is_error
    assert FOR_PROGRAMMERS.search(result.content) is None, result.content
    assert re.search(r"Nothing was (done|noted)|Not begun", result.content), result.content


REFUND = {"order_id": 7, "cents": 1}
MISTAKES = [
    ToolCall("a", "refnd", {}),
    ToolCall("a", "refund", {}, unreadable='{"order_id": 7'),
    ToolCall("a", "refund", {"order_id": "seven", "cents": 1}),
    ToolCall("a", "refund", {"order_id": 7}),
    ToolCall("a", "refund", {**REFUND, "class": "pure"}),
    ToolCall("a", "refund", {**REFUND, "repeat_": "x"}),
    ToolCall("a", "send_mail", {"to": ["ann"], "text": {"a": 1}}),
    ToolCall("a", "post", {"text": "x" * 400}),
    ToolCall("a", "post", {"text": "\x07"}),
    ToolCall("a", "finish_step", {"evidence": "?"}),
    ToolCall("a", "finish_step", {}),
    ToolCall("a", "make_plan", {"steps": "one"}),
    ToolCall("a", "show_evidence", {"condition": 3, "evidence": "?"}),
    ToolCall("a", "show_evidence", {"condition": "one", "evidence": "?"}),
    ToolCall("a", "recall", {"first": None, "last": 3}),
    ToolCall("a", "helper", {"task": "?"}),
]


@pytest.mark.parametrize(
    "call", MISTAKES, ids=lambda call: f"{call.name} {str(call.arguments)[:30]}"
)
def test_a_mistake_of_the_model_is_told_in_words_that_it_can_use(call: ToolCall) -> None:
    shop = Workshop(["never"])
    tools = shop.kept
    helper = shop.make(["never"], name="helper", tools=[])
    shop.agent = shop.make([[call], "done"], tools=[*tools, helper])
    (result,) = results(shop)
    check(result)
    assert shop.world.effects == []


def test_a_value_that_cannot_be_kept_is_told_with_its_place() -> None:
    error = nt.errors.NotPlainData("a set. Declare volatile=('value',).", path="value.deep")
    text = wording.of_error(ToolCall("a", "keep", {}), None, error)
    assert "value.deep holds a value that cannot be kept. Nothing was done." in text
    assert FOR_PROGRAMMERS.search(text) is None


@pytest.mark.parametrize(
    ("error", "next_step"),
    [
        (nt.Permanent("order 7 is closed"), "The same call would fail again"),
        (nt.Retryable("the bank is busy"), "you can call it again"),
    ],
)
def test_a_failure_without_effect_says_so_and_what_can_be_done(
    error: nt.ToolFailure, next_step: str
) -> None:
    shop = Workshop([{"refund": REFUND}, "done"])
    shop.world.trouble["refund"] = [error] * 9
    (result,) = results(shop)
    check(result)
    assert error.message in result.content
    assert next_step in result.content


def test_a_failed_read_names_its_error_and_claims_nothing_about_effects() -> None:
    shop = Workshop([{"get_order": {"order_id": 7}}, "done"])
    shop.world.trouble["get_order"] = [KeyError("order 7")] * 9
    (result,) = results(shop)
    assert result.is_error
    assert "KeyError" in result.content
    assert "Nothing was done" not in result.content
    assert FOR_PROGRAMMERS.search(result.content) is None


def test_a_call_that_a_person_rejects_is_not_to_be_made_by_other_means() -> None:
    @nt.tool("unsafe_on_replay", name="pay", approve=True)
    def pay(cents: int) -> str:
        return "paid"

    shop = Workshop([{"pay": {"cents": 5}}, "done"], tools=[pay])
    assert shop.finish().status == "waiting"
    shop.host.decide(Verb.REJECT, why="too much")
    (result,) = results(shop)
    check(result)
    assert "was not allowed: ann did not allow it: too much" in result.content
    assert "Do not look for a way around it" in result.content


def test_one_key_with_other_arguments_is_told_without_its_machinery() -> None:
    @nt.tool("idempotent_with_key", name="pay", key="pay-{order_id}", window="24h")
    def pay(order_id: int, cents: int) -> str:
        return nt.current_call().key or ""

    calls = [{"pay": {"order_id": 7, "cents": cents}} for cents in (1, 2)]
    shop = Workshop([*calls, "done"], tools=[pay])
    check(results(shop)[1])


def test_a_worker_that_failed_is_told_of_without_the_words_for_its_operators() -> None:
    shop = Workshop(["never"])
    # Its script has no second reply, which is an error of the program.
    helper = shop.make([{"get_order": {"order_id": 7}}], name="helper")
    shop.agent = shop.make([{"helper": {"goal": "look"}}, "done"], tools=[helper, *shop.kept])
    (result,) = results(shop)
    assert result.is_error
    assert result.content.startswith("helper could not finish its task: its program had an error.")
    assert FOR_PROGRAMMERS.search(result.content) is None
