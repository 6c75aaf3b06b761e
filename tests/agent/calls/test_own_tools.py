"""Do the harness's own tools change what they say, and nothing on bad arguments?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.calls.own_tools import OWN_TOOLS, BadArguments, Changes, answer
from nottwice.agent.messages import ToolCall
from nottwice.agent.state import RunState, first_state
from tests.agent.workshop import Workshop


def state(**given: Any) -> RunState:
    return RunState({**first_state({"goal": "g", "done_when": ["paid", "told"]}), **given})


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall("c", name, arguments)


def test_a_new_plan_replaces_what_is_still_to_be_done() -> None:
    before = state(plan=["a", "b", "c"], cursor=1)
    changes = Changes.of(before)
    assert answer(before, changes, call("make_plan", steps=["x", "y"])).startswith("Noted. 2 steps")
    assert changes.to_update()["plan"] == ["a", "x", "y"]


def test_steps_are_finished_one_after_the_other() -> None:
    before = state(plan=["a", "b"], turn=4)
    changes = Changes.of(before)
    assert answer(before, changes, call("finish_step", evidence="e1")) == "Noted. Next: b"
    assert "last step" in answer(before, changes, call("finish_step", evidence="e2"))
    with pytest.raises(BadArguments, match="No step"):
        answer(before, changes, call("finish_step", evidence="e3"))
    assert changes.cursor == 2
    assert changes.completed == [
        {"step": "a", "evidence": "e1", "turn": 4},
        {"step": "b", "evidence": "e2", "turn": 4},
    ]


def test_evidence_is_kept_by_condition() -> None:
    before = state()
    changes = Changes.of(before)
    answer(before, changes, call("show_evidence", condition=2.0, evidence="mail 1"))
    assert changes.evidence == {"told": "mail 1"}


@pytest.mark.parametrize(
    "wrong",
    [
        call("make_plan"),
        call("make_plan", steps="one"),
        call("make_plan", steps=[1]),
        call("finish_step", evidence=""),
        call("show_evidence", condition=3, evidence="x"),
        call("show_evidence", condition=0, evidence="x"),
        call("show_evidence", condition=True, evidence="x"),
        call("show_evidence", condition=1),
        call("remember", name="x"),
        call("recall", first="a", last=2),
    ],
    ids=lambda one: f"{one.name} {one.arguments}",
)
def test_what_does_not_fit_changes_nothing(wrong: ToolCall) -> None:
    before = state(plan=["a"])
    changes = Changes.of(before)
    with pytest.raises(BadArguments):
        answer(before, changes, wrong)
    assert changes == Changes.of(before)


def test_each_says_what_it_takes() -> None:
    for name, schema in OWN_TOOLS.items():
        assert schema.name == name
        optional = {"receipt", "first", "last", "offset"} & set(schema.parameters["properties"])
        takes = [one for one in schema.parameters["properties"] if one not in optional]
        assert schema.parameters["required"] == takes


# Evidence that is bound to a receipt

MAIL = {"send_mail": {"to": "ann", "text": "hello"}}
OTHER = {"send_mail": {"to": "bob", "text": "hello"}}
READ = {"get_order": {"order_id": 7}}


def claim(**more: Any) -> dict[str, Any]:
    return {"show_evidence": {"condition": 1, "evidence": "I did", **more}}


def results(outcome: Any) -> list[str]:
    transcript = outcome.state.transcript
    return [one.content for message in transcript for one in message.tool_results]


@pytest.mark.parametrize(
    "condition", ["Ann knows [receipt: send_mail]", "Ann knows [receipt:send_mail] "]
)
def test_a_model_cannot_talk_its_way_through_a_condition_that_needs_a_receipt(
    condition: str,
) -> None:
    shop = Workshop(
        [claim(), READ, claim(), "done", claim(receipt="abcdef123456"), MAIL, claim(), "done"]
    )
    outcome = shop.finish(done_when=[condition])
    told = [one for one in results(outcome) if "Noted" in one or "Not noted" in one]
    assert ["there is none in this run" in one for one in told] == [True, True, True, False]
    (receipt_id,) = [one.receipt_id for one in outcome.state.asked]
    evidence = outcome.state.evidence[condition]
    assert evidence == f"I did (receipt {receipt_id[:12]}: send_mail(to='ann', text='hello'))"
    assert outcome.status == "completed"


def test_of_several_receipts_the_model_must_say_which() -> None:
    played: list[Any] = []
    shop = Workshop(lambda request: next(played[0]))
    condition = "Bob knows [receipt: send_mail]"

    def play() -> Any:
        yield [MAIL, OTHER]
        yield claim()
        listed = shop.world.requests[-1].messages[-1].tool_results[0].content
        assert "say which receipt of send_mail" in listed
        line = next(one for one in listed.splitlines() if "'bob'" in one)
        yield claim(receipt=line.partition(":")[0])
        yield "done"

    played.append(play())
    outcome = shop.finish(done_when=[condition])
    assert "send_mail(to='bob'" in outcome.state.evidence[condition]


def test_a_call_that_failed_is_no_receipt() -> None:
    shop = Workshop([MAIL, claim(), MAIL, "done"], budget=nt.Budget(turns=3))
    shop.world.trouble["send_mail"] = [nt.Permanent("no such address")]
    outcome = shop.finish(done_when=["Ann knows [receipt: send_mail]"])
    assert outcome.state.evidence == {}
    assert "there is none in this run" in results(outcome)[1]


def test_a_failed_call_borrows_no_receipt_from_one_of_the_same_id() -> None:
    read = ToolCall("call_0", "get_order", {"order_id": 7})
    paid = ToolCall("call_0", "refund", {"order_id": 7, "cents": 4000})
    shop = Workshop([[read, paid], claim(), [paid, read], claim(), *["not paid"] * 9])
    shop.world.trouble["refund"] = [nt.Permanent("the bank says no")]
    outcome = shop.finish(done_when=["paid back [receipt: refund]"])
    assert outcome.state.evidence == {}
    refused = [text for text in results(outcome) if text.startswith("Not noted")]
    assert len(refused) == 2
    assert all("receipt of refund, and there is none" in text for text in refused)
    assert outcome.status == "waiting"
    assert shop.world.effects == []


def test_a_receipt_is_found_whatever_id_its_call_shares() -> None:
    read = ToolCall("call_0", "get_order", {"order_id": 7})
    paid = ToolCall("call_0", "refund", {"order_id": 7, "cents": 4000})
    shop = Workshop([[paid, read], claim(), "paid"])
    outcome = shop.finish(done_when=["paid back [receipt: refund]"])
    assert outcome.status == "completed"
    assert "refund(order_id=7" in outcome.state.evidence["paid back [receipt: refund]"]


def test_evidence_in_words_may_name_a_receipt_and_then_it_is_checked() -> None:
    shop = Workshop([READ, claim(receipt="feedfeed"), claim(), "done"])
    outcome = shop.finish(done_when=["the order was looked up"])
    assert results(outcome)[1].startswith("Not noted: say which receipt")
    assert outcome.state.evidence == {"the order was looked up": "I did"}


def test_a_receipt_of_a_tool_that_is_not_there_is_not_waited_for() -> None:
    for where in ("agent", "run", "input"):
        condition = ["Ann knows [receipt: send_post]"]
        shop = Workshop(["done"], **({"done_when": condition} if where == "agent" else {}))
        said: dict[str, Any] = {"done_when": condition} if where == "run" else {}
        if where == "input":
            said = {"goal": None, "input": {"goal": "tell Ann", "done_when": condition}}
        with pytest.raises(nt.errors.UsageError, match="has no tool 'send_post'"):
            shop.finish(**said)
        assert shop.host.data.runs == {}
