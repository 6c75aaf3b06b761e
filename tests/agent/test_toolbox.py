"""Is a call that a model repeats made again? Only if the model says so explicitly."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel

import nottwice as nt
from nottwice.agent.messages import ToolResult
from nottwice.agent.toolbox import Toolbox, result_text
from nottwice.model.asking.asked import WantedCall, shown_in
from tests.agent.workshop import Workshop

MAIL = {"send_mail": {"to": "ann", "text": "hello"}}


def repeated(label: str) -> dict[str, Any]:
    return {"send_mail": {"to": "ann", "text": "hello", "repeat": label}}


def results(shop: Workshop) -> list[ToolResult]:
    transcript = shop.finish().state.transcript
    return [result for message in transcript for result in message.tool_results]


def test_an_effect_asked_for_in_a_later_turn_is_answered_by_its_receipt() -> None:
    shop = Workshop([MAIL, MAIL, "done"])
    first, again = results(shop)
    assert shop.world.effects == [("mail", "ann", "hello")]
    assert first.content == "mail 1"
    assert again.content.startswith("mail 1")
    assert "turn 1 already" in again.content
    assert "repeat='a new label'" in again.content
    assert first.receipt_id == again.receipt_id


def test_a_repetition_on_purpose_is_done_once_for_each_label() -> None:
    shop = Workshop([MAIL, repeated("second parcel"), repeated("second parcel"), "done"])
    found = results(shop)
    assert len(shop.world.effects) == 2
    assert found[1].content == "mail 2"
    assert "turn 2 already" in found[2].content


@pytest.mark.parametrize("label", ["a\x1b[31m", "x" * 1000])
def test_a_label_that_cannot_be_read_is_reported_to_the_model(label: str) -> None:
    shop = Workshop([MAIL, repeated(label), "done"])
    _, second = results(shop)
    assert second.is_error
    assert "Use a short label of plain words." in second.content
    assert len(shop.world.effects) == 1


@pytest.mark.parametrize("label", ["", "  ", None, True, 7, ["again"]])
def test_what_is_no_label_repeats_nothing(label: Any) -> None:
    shop = Workshop([MAIL, repeated(label), "done"])
    shop.finish()
    assert len(shop.world.effects) == 1


def test_a_label_on_the_first_time_means_nothing() -> None:
    """Else the same mail without it, asked for later, would be a second one."""
    shop = Workshop([repeated("once"), MAIL, "done"])
    found = results(shop)
    assert len(shop.world.effects) == 1
    assert "turn 1 already" in found[1].content


@pytest.mark.parametrize("script", [[repeated("a"), "done"], [MAIL, repeated("a"), "done"]])
def test_whether_a_label_counts_is_the_same_after_a_crash(script: list[Any]) -> None:
    expected = Workshop(script)
    expected.finish()
    for dies_at in range(1, expected.host.points + 1):
        shop = Workshop(script)
        shop.run(dies_at=dies_at)
        while shop.host.open_reviews:
            happened = len(shop.world.effects) > len(
                [row for row in shop.host.calls if row.result and row.replay_class.effectful]
            )
            number = len(shop.world.effects)
            if happened:
                shop.host.decide(nt_verb("happened"), result=f"mail {number}")
            else:
                shop.host.decide(nt_verb("did-not-happen"))
            shop.finish()
        outcome = shop.finish()
        if outcome.status == "waiting":
            number = len(shop.world.effects)
            row = next(row for row in shop.host.calls if row.status.in_doubt)
            done = [one for one in shop.host.calls if one.result and one.replay_class.effectful]
            verb = "happened" if number > len(done) else "did-not-happen"
            assert row.identity.tool_name == "send_mail"
            result = f"mail {number}" if verb == "happened" else None
            shop.host.decide(nt_verb(verb), result=result)
            outcome = shop.finish()
        assert outcome.status == "completed"
        assert shop.world.effects == expected.world.effects


def nt_verb(word: str) -> Any:
    from nottwice.model.review import Verb

    return Verb(word)


def test_the_same_effect_twice_in_one_reply_is_done_once() -> None:
    shop = Workshop([[MAIL, MAIL], "done"])
    first, second = results(shop)
    assert shop.world.effects == [("mail", "ann", "hello")]
    assert first.content == "mail 1"
    assert "twice in one reply" in second.content


def test_reads_are_made_again_in_every_turn() -> None:
    order = {"get_order": {"order_id": 7}}
    shop = Workshop([order, order, "done"])
    shop.finish()
    assert shop.world.reads == 2


def test_a_permanent_failure_is_told_again_and_not_tried_again() -> None:
    shop = Workshop([MAIL, MAIL, "done"])
    shop.world.trouble["send_mail"] = [nt.Permanent("no such address")]
    first, again = results(shop)
    assert shop.world.effects == []
    assert "no such address" in first.content
    assert "how it failed then" in again.content


def test_what_was_not_to_be_had_is_tried_again_when_the_model_asks_again() -> None:
    shop = Workshop([MAIL, MAIL, MAIL, "done"])
    shop.world.trouble["send_mail"] = [nt.Retryable("busy")] * 4
    first, second, third = results(shop)
    assert first.is_error
    assert second.content == "mail 1"
    assert "turn 2 already" in third.content
    assert shop.world.effects == [("mail", "ann", "hello")]


def test_a_label_on_what_was_not_to_be_had_is_no_repeat() -> None:
    """Else it would be done under the label, and once more when it is asked for without."""
    shop = Workshop([MAIL, repeated("try again"), MAIL, "done"])
    shop.world.trouble["send_mail"] = [nt.Retryable("busy")] * 4
    _, second, third = results(shop)
    assert second.content == "mail 1"
    assert "turn 2 already" in third.content
    assert shop.world.effects == [("mail", "ann", "hello")]


def test_one_key_with_other_arguments_is_told_to_the_model() -> None:
    sent: list[str] = []

    @nt.tool("idempotent_with_key", name="pay", key="pay-{order_id}", window="24h")
    def pay(order_id: int, cents: int) -> str:
        sent.append(nt.current_call().key or "")
        return "paid"

    calls = [{"pay": {"order_id": 7, "cents": cents}} for cents in (1, 2)]
    shop = Workshop([*calls, "done"], tools=[pay])
    _, second = results(shop)
    assert sent == ["pay-7"]
    assert second.is_error
    assert "for the same thing and with other arguments" in second.content


def test_a_key_for_each_call_is_the_id_of_the_receipt() -> None:
    calls: list[nt.Call] = []

    @nt.tool("idempotent_with_key", name="note", key=nt.key_per_call, window="24h")
    def note(text: str) -> str:
        calls.append(nt.current_call())
        return "noted"

    shop = Workshop([{"note": {"text": "x"}}, {"note": {"text": "x"}}, "done"], tools=[note])
    first, again = results(shop)
    (call,) = calls
    assert call.key == call.id == first.receipt_id == again.receipt_id


def test_a_label_makes_another_key() -> None:
    keys: list[str | None] = []

    @nt.tool("idempotent_with_key", name="pay", key="pay-{order_id}", window="24h", repeat="free")
    def pay(order_id: int) -> str:
        keys.append(nt.current_call().key)
        return "paid"

    script = [{"pay": {"order_id": 7}}, {"pay": {"order_id": 7, "repeat": "again"}}, "done"]
    Workshop(script, tools=[pay]).finish()
    assert len(set(keys)) == 2


class Order(BaseModel):
    number: int


def test_the_model_is_told_the_schema_and_can_add_nothing_but_a_label() -> None:
    @nt.tool("unsafe_on_replay", name="ship")
    def ship(order: list[Order], repeat: bool = False) -> str:
        """Ship an order."""
        return "shipped"

    @nt.tool("pure", name="look")
    def look(order: Order) -> str:
        return "there"

    box = Toolbox("a", [ship, look])
    described, looked = box.schemas[:2]
    assert described.description == "Ship an order."
    assert set(described.parameters["properties"]) == {"order", "repeat", "repeat_"}
    assert described.parameters["required"] == ["order"]
    reference = described.parameters["properties"]["order"]["items"]["$ref"]
    reference = reference.removeprefix("#/$defs/")
    assert described.parameters["$defs"][reference]["properties"].keys() == {"number"}
    assert "repeat" not in looked.parameters["properties"]


def test_what_cannot_be_offered_is_refused_when_the_agent_is_declared() -> None:
    @nt.tool("pure", name="recall")
    def recall() -> str:
        return ""

    @nt.tool("pure", name="twin")
    def twin() -> str:
        return ""

    with pytest.raises(nt.errors.UnclassifiedTool, match="has no replay class"):
        Toolbox("a", [len])
    with pytest.raises(nt.errors.InvalidTool, match="the harness has one"):
        Toolbox("a", [recall])
    with pytest.raises(nt.errors.InvalidTool, match="it has one of that name"):
        Toolbox("a", [twin, twin])


def test_an_approval_holds_back_no_call_that_has_no_order() -> None:
    rung: list[int] = []

    @nt.tool("unsafe_on_replay", name="pay", approve=True)
    def pay(cents: int) -> str:
        rung.append(cents)
        return "paid"

    @nt.tool("unsafe_on_replay", name="ring", parallel=True)
    def ring(times: int) -> str:
        rung.append(times)
        return "rang"

    reply = [{"pay": {"cents": 5}}, {"ring": {"times": 1}}, {"ring": {"times": 2}}]
    shop = Workshop([reply, "done"], tools=[pay, ring])
    assert shop.finish().status == "waiting"
    assert sorted(rung) == [1, 2]
    shop.host.decide(nt_verb("approve"))
    assert shop.finish().status == "completed"
    assert sorted(rung) == [1, 2, 5]


def test_a_rejected_call_is_told_to_the_model() -> None:
    @nt.tool("unsafe_on_replay", name="pay", approve=True)
    def pay(cents: int) -> str:
        return "paid"

    shop = Workshop([{"pay": {"cents": 5}}, "all right"], tools=[pay])
    assert shop.finish().status == "waiting"
    shop.host.decide(nt_verb("reject"), why="too much")
    (result,) = results(shop)
    assert result.is_error
    assert "too much" in result.content


def test_a_migrated_run_does_not_do_again_what_its_model_had_asked_for() -> None:
    """Killed after the mail was sent and before the model was told."""

    @nt.tool("unsafe_on_replay", name="pay", approve=True)
    def pay(cents: int) -> str:
        return "paid"

    reply = [MAIL, {"pay": {"cents": 5}}]
    shop = Workshop([reply, "done"])
    kept = [*shop.kept, pay]
    shop.agent = shop.make([reply, MAIL, "done"], tools=kept)
    assert shop.finish().status == "waiting"
    assert shop.world.effects == [("mail", "ann", "hello")]
    old, later = shop.agent, nt.tool("pure", name="later")(lambda: "later")
    new = nt.Agent("triage", version="2.0.0", provider=old.provider, tools=[*kept, later])
    with shop.host.process() as ledger:
        app = nt.App(graphs=[old, new], store=ledger, admins=["ann"])
        nt.versions.migrate(
            app,
            "ticket-7",
            to="triage@2.0.0",
            mapping={"act": "act"},
            by="ann",
            why="a new tool",
            restart_steps=True,
        )
    shop.agent = new
    assert shop.finish(goal=None).status == "waiting"
    shop.host.decide(nt_verb("approve"))
    assert shop.finish(goal=None).status == "completed"
    assert shop.world.effects == [("mail", "ann", "hello")]


def test_a_tool_that_takes_a_secret_is_not_offered_to_a_model() -> None:
    @nt.tool("unsafe_on_replay", name="toolbox_charge")
    def charge(order: int, card: Annotated[str, nt.Secret]) -> None: ...

    with pytest.raises(nt.errors.InvalidTool, match="'card' is secret"):
        Toolbox("clerk", [charge]).schemas  # noqa: B018


def test_a_secret_result_is_not_in_the_transcript() -> None:
    @nt.tool("pure", name="toolbox_token")
    def token() -> Annotated[str, nt.Secret]:
        return "token-of-the-vault"

    offered = Toolbox("clerk", [token]).offered["toolbox_token"]
    assert offered.tool is not None
    assert "token-of" not in result_text(offered.tool, "token-of-the-vault")


REFUND = {"refund": {"order_id": 7, "cents": 4000}}


def refunded_again(label: str) -> dict[str, Any]:
    return {"refund": {"order_id": 7, "cents": 4000, "repeat": label}}


class Bank:
    """A refund, declared as a test wants it."""

    def __init__(self, *, keyed: bool = False, **declared: Any) -> None:
        self.paid: list[str] = []
        """The id of each call that was made."""
        if keyed:
            declared |= {"key": "refund-{order_id}", "window": "24h"}
        kind: Any = "idempotent_with_key" if keyed else "unsafe_on_replay"

        @nt.tool(kind, name="refund", **declared)
        def refund(order_id: int, cents: int) -> str:
            """Refund an order."""
            self.paid.append(nt.current_call().id)
            return f"refund {len(self.paid)}"

        self.tool = refund


@pytest.mark.parametrize("keyed", [False, True], ids=["unsafe", "keyed"])
def test_a_repeat_waits_for_a_person_who_is_told_of_the_earlier_receipt(keyed: bool) -> None:
    bank = Bank(keyed=keyed)
    shop = Workshop([REFUND, refunded_again("goodwill"), "done"], tools=[bank.tool])
    outcome = shop.finish()
    assert (outcome.status, len(bank.paid)) == ("waiting", 1)
    (review,) = outcome.reviews
    first = outcome.state.asked[0].receipt_id
    assert review.kind.value == "approval"
    for told in (first[:16], "'goodwill'", "in turn 1", "order_id=7, cents=4000"):
        assert told in review.summary
    shown = shown_in(review)
    assert isinstance(shown, WantedCall)
    assert shown.args == {"order_id": 7, "cents": 4000}
    shop.host.decide(nt_verb("approve"))
    assert shop.finish().status == "completed"
    assert len(set(bank.paid)) == len(bank.paid) == 2


def test_every_repeat_is_asked_about_and_a_rejected_one_is_told_to_the_model() -> None:
    bank = Bank()
    script = [REFUND, *(refunded_again(f"again {n}") for n in range(4)), "done"]
    shop = Workshop(script, tools=[bank.tool])
    for number in range(4):
        assert shop.finish().status == "waiting"
        verb = "approve" if number == 1 else "reject"
        shop.host.decide(nt_verb(verb), why="once is enough")
    found = results(shop)
    assert [one.is_error for one in found] == [False, True, False, True, True]
    assert "once is enough" in found[1].content
    assert len(set(bank.paid)) == len(bank.paid) == 2


def test_an_approved_repeat_that_is_asked_for_once_more_is_answered_by_its_receipt() -> None:
    bank = Bank()
    script = [REFUND, refunded_again("x"), refunded_again("x"), "done"]
    shop = Workshop(script, tools=[bank.tool])
    assert shop.finish().status == "waiting"
    shop.host.decide(nt_verb("approve"))
    *_, third = results(shop)
    assert len(set(bank.paid)) == len(bank.paid) == 2
    assert "turn 2 already" in third.content


def test_an_approved_repeat_happens_once_wherever_the_process_dies() -> None:
    def verified() -> tuple[Bank, Workshop]:
        def look(call: nt.Call) -> nt.Verification:
            found = call.id in bank.paid
            return nt.happened("refund 2") if found else nt.did_not_happen()

        nt.testing.forget_tools()
        bank = Bank(verify=look, settles="1ms")
        return bank, Workshop([REFUND, refunded_again("x"), "done"], tools=[bank.tool])

    _, expected = verified()
    expected.finish()
    expected.host.decide(nt_verb("approve"))
    expected.finish()
    for dies_at in range(1, expected.host.points + 1):
        bank, shop = verified()
        assert shop.finish().status == "waiting"
        shop.host.decide(nt_verb("approve"))
        shop.run(dies_at=dies_at)
        assert shop.finish().status == "completed"
        assert len(set(bank.paid)) == len(bank.paid) == 2


def test_a_tool_that_says_free_is_repeated_without_a_person() -> None:
    bank = Bank(repeat="free")
    shop = Workshop([REFUND, REFUND, refunded_again("x"), "done"], tools=[bank.tool])
    _, told, _ = results(shop)
    assert len(set(bank.paid)) == len(bank.paid) == 2
    assert "add repeat='a new label'." in told.content


def test_a_tool_that_says_never_is_not_repeated_and_its_model_is_told_so() -> None:
    bank = Bank(repeat="never")
    shop = Workshop([REFUND, REFUND, refunded_again("x"), "done"], tools=[bank.tool])
    assert "repeat" not in shop.agent.toolbox.schemas[0].parameters["properties"]
    _, told, refused = results(shop)
    assert "It cannot be done a second time." in told.content
    assert refused.is_error
    assert len(bank.paid) == 1


def test_a_model_is_told_beforehand_that_a_person_is_asked() -> None:
    bank = Bank()
    shop = Workshop([REFUND, REFUND, "done"], tools=[bank.tool])
    parameters = shop.agent.toolbox.schemas[0].parameters["properties"]
    assert "A person is asked before it is done." in parameters["repeat"]["description"]
    assert "a person is asked first" in results(shop)[1].content


def test_a_repeat_that_code_asks_for_needs_no_person() -> None:
    bank = Bank()
    shop = Workshop(["done"], tools=[bank.tool])
    with shop.host.process() as ledger, ledger.run("by-hand"):
        bank.tool(order_id=7, cents=1)
        bank.tool.again("second parcel")(order_id=7, cents=1)
    assert len(set(bank.paid)) == len(bank.paid) == 2


@pytest.mark.parametrize("given", ["often", "", "ASK", True, 3, ["ask"]])
def test_a_repeat_that_means_nothing_is_refused_when_the_tool_is_declared(given: Any) -> None:
    with pytest.raises(nt.errors.InvalidTool, match="is not one of 'ask', 'free', 'never'"):
        Bank(repeat=given)


def test_a_pure_tool_has_nothing_to_say_about_repeats() -> None:
    with pytest.raises(nt.errors.InvalidTool, match="as often as it likes"):
        nt.tool("pure", name="look", repeat="ask")(lambda: None)  # type: ignore[call-overload]
