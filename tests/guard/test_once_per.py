"""Are other words another effect? Not where the tool says what it is done once for (P202, P213)."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.messages import ToolResult
from nottwice.model import values
from nottwice.model.graphs.bump import Part, what_bump
from nottwice.model.graphs.fingerprint import Fingerprint
from nottwice.model.review import Verb
from nottwice.testing import forget_tools
from tests.agent.workshop import Workshop
from tests.fakes import Host


class Outbox:
    """A tool that sends mails, declared as a test wants it."""

    def __init__(self, **declared: Any) -> None:
        self.sent: list[tuple[str, int, str]] = []
        self.trouble: list[BaseException] = []
        self.longest = 1_000
        declared = {"once_per": ("to", "order_id"), **declared}

        @nt.tool("unsafe_on_replay", name="send_mail", **declared)
        def send_mail(to: str, order_id: int, text: str = "") -> str:
            """Send a mail about an order."""
            if self.trouble:
                raise self.trouble.pop(0)
            if len(text) > self.longest:
                raise nt.Permanent(f"the text is longer than {self.longest} characters")
            self.sent.append((to, order_id, text))
            return f"mail {len(self.sent)}"

        self.tool = send_mail


def mail(text: str, *, order_id: int = 7, **more: Any) -> dict[str, Any]:
    return {"send_mail": {"to": "ann", "order_id": order_id, "text": text, **more}}


def results(shop: Workshop) -> list[ToolResult]:
    transcript = shop.finish().state.transcript
    return [result for message in transcript for result in message.tool_results]


WORDS = ["Hello Ann,", "Dear Ann,", "Hi Ann!", "Good morning, Ann."]


def test_a_model_that_finds_other_words_sends_one_mail_and_is_told_whose_words_it_was() -> None:
    outbox = Outbox()
    shop = Workshop([*map(mail, WORDS), mail("About 8.", order_id=8), "done"], tools=[outbox.tool])
    first, second, *_, other = results(shop)
    assert outbox.sent == [("ann", 7, WORDS[0]), ("ann", 8, "About 8.")]
    assert first.content == "mail 1"
    assert other.content == "mail 2"
    assert second.content.startswith("mail 1")
    assert "in turn 1 already, with another text" in second.content
    assert "done once for each to and order_id" in second.content
    assert "your new text went nowhere" in second.content
    assert "a person is asked first" in second.content
    assert first.receipt_id == second.receipt_id


def test_the_very_same_words_are_not_called_other_words() -> None:
    outbox = Outbox()
    shop = Workshop([mail("Hello"), mail("Hello"), "done"], tools=[outbox.tool])
    _, again = results(shop)
    assert "You asked for this in turn 1 already" in again.content
    assert "another" not in again.content


def test_two_wordings_in_one_reply_are_one_mail_in_the_first_words() -> None:
    outbox = Outbox()
    shop = Workshop([[mail("Hello"), mail("Dear Ann")], "done"], tools=[outbox.tool])
    _, second = results(shop)
    assert outbox.sent == [("ann", 7, "Hello")]
    assert "twice in one reply, with another text" in second.content
    assert "as you asked for it first" in second.content


def test_killed_at_any_commit_other_words_are_still_one_mail() -> None:
    def look(call: nt.Call) -> nt.Verification:
        found = any(one[:2] == (call.args["to"], call.args["order_id"]) for one in outbox.sent)
        return nt.happened("mail 1") if found else nt.did_not_happen()

    def make() -> tuple[Outbox, Workshop]:
        forget_tools()
        made = Outbox(verify=look, settles="1ms")
        return made, Workshop([*map(mail, WORDS[:2]), "done"], tools=[made.tool])

    outbox, expected = make()
    outcome = expected.finish()
    for dies_at in range(1, expected.host.points + 1):
        outbox, shop = make()
        assert shop.run(dies_at=dies_at) is None
        assert shop.finish().state == outcome.state
        assert outbox.sent == [("ann", 7, WORDS[0])]


def test_a_second_mail_on_purpose_shows_a_person_both_wordings() -> None:
    outbox = Outbox()
    again = mail("It is on its way.", repeat="shipped")
    shop = Workshop([mail("Hello"), again, "done"], tools=[outbox.tool])
    outcome = shop.finish()
    (review,) = outcome.reviews
    assert "text='It is on its way.'" in review.summary
    assert "text='Hello'" in review.summary
    shop.host.decide(Verb.APPROVE)
    assert shop.finish().status == "completed"
    assert [text for *_, text in outbox.sent] == ["Hello", "It is on its way."]


TOO_LONG = nt.Permanent("the text is longer than 20 characters")


@pytest.mark.parametrize("trouble", [[TOO_LONG], [nt.Retryable("busy")] * 4])
@pytest.mark.parametrize("declared", [{}, {"once_per": None, "volatile": ("text",)}])
def test_what_failed_without_effect_is_tried_again_in_the_words_of_now(
    trouble: list[BaseException], declared: dict[str, Any]
) -> None:
    outbox = Outbox(**declared)
    outbox.trouble = list(trouble)
    script = [mail("A long text"), mail("Short"), mail("Shorter"), mail("A long text"), "done"]
    shop = Workshop(script, tools=[outbox.tool])
    first, second, third, fourth = results(shop)
    assert first.is_error
    assert outbox.sent == [("ann", 7, "Short")]
    assert second.content == "mail 1"
    for later in (third, fourth):
        assert "You did this in turn 2 already, with another text" in later.content
        assert later.receipt_id == second.receipt_id
    with shop.host.process() as ledger:
        effects = shop.agent.effects("ticket-7", store=ledger)
    assert [(one.args["text"], one.status) for one in effects] == [
        ("A long text", "failed"),
        ("Short", "done"),
    ]


def test_words_that_failed_are_not_tried_again_and_each_new_wording_is() -> None:
    outbox = Outbox()
    outbox.trouble = [TOO_LONG, TOO_LONG]
    script = [mail("1"), mail("1"), [mail("2"), mail("3")], mail("3"), "done"]
    shop = Workshop(script, tools=[outbox.tool])
    _, again, second, twin, third = results(shop)
    assert "You asked for this in turn 1 already. This is how it failed" in again.content
    assert second.is_error
    assert "It was tried once, as you asked for it first" in twin.content
    assert third.content == "mail 1"
    assert outbox.sent == [("ann", 7, "3")]


def test_new_words_after_a_failure_keep_the_key_of_the_effect() -> None:
    keys: list[str | None] = []

    @nt.tool(
        "idempotent_with_key", name="pay", key="pay-{order}", window="24h", once_per=("order",)
    )
    def pay(order: int, reason: str) -> str:
        """Pay."""
        keys.append(nt.current_call().key)
        if len(reason) > 3:
            raise nt.Permanent("the reason is too long")
        return "paid"

    script = [{"pay": {"order": 7, "reason": "broken"}}, {"pay": {"order": 7, "reason": "bad"}}]
    shop = Workshop([*script, "done"], tools=[pay])
    assert results(shop)[1].content == "paid"
    assert keys == ["pay-7", "pay-7"]


def test_killed_at_any_commit_new_words_after_a_failure_are_one_mail() -> None:
    def look(call: nt.Call) -> nt.Verification:
        found = any(one == tuple(call.args.values()) for one in outbox.sent)
        return nt.happened("mail 1") if found else nt.did_not_happen()

    def make() -> tuple[Outbox, Workshop]:
        forget_tools()
        made = Outbox(verify=look, settles="1ms")
        made.longest = 20
        return made, Workshop([mail("x" * 30), mail("Hello"), "done"], tools=[made.tool])

    outbox, expected = make()
    expected.finish()
    assert outbox.sent == [("ann", 7, "Hello")]
    for dies_at in range(1, expected.host.points + 1):
        outbox, shop = make()
        assert shop.run(dies_at=dies_at) is None
        assert shop.finish().status == "completed"
        assert outbox.sent == [("ann", 7, "Hello")]


def test_an_approval_does_not_cover_the_new_words_after_a_failure() -> None:
    outbox = Outbox(approve=True)
    outbox.trouble = [TOO_LONG]
    shop = Workshop([mail("Hello"), mail("You owe us 1,000,000."), "done"], tools=[outbox.tool])
    shop.finish()
    shop.host.decide(Verb.APPROVE)
    outcome = shop.finish()
    (review,) = outcome.reviews
    assert "1,000,000" in review.summary
    assert outbox.sent == []


def test_what_a_person_rejected_is_not_asked_for_again_in_other_words() -> None:
    outbox = Outbox(approve=True)
    shop = Workshop([mail("Hello"), mail("Dear Ann"), "done"], tools=[outbox.tool])
    shop.finish()
    shop.host.decide(Verb.REJECT)
    outcome = shop.finish()
    assert outcome.status == "completed"
    assert outbox.sent == []
    assert [one.outcome for one in outcome.state.asked] == ["refused"]


def test_in_a_plain_run_other_words_get_the_recorded_failure_unless_the_code_says_again() -> None:
    outbox = Outbox()
    outbox.trouble = [TOO_LONG]
    host = Host()
    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            for text in ("A long text", "Short"):
                with pytest.raises(nt.Permanent):
                    outbox.tool("ann", 7, text)
            outbox.tool.again("shorter")("ann", 7, "Short")
    assert outbox.sent == [("ann", 7, "Short")]


def test_in_a_plain_run_the_second_wording_gets_the_first_receipt() -> None:
    outbox = Outbox()
    with Host().process() as ledger, ledger.run("r"):
        outbox.tool("ann", 7, "Hello")
        again = outbox.tool.receipt(to="ann", order_id=7, text="Dear Ann")
        outbox.tool("bob", 7, "Hello")
    assert again.replayed
    assert [one[:2] for one in outbox.sent] == [("ann", 7), ("bob", 7)]


def test_an_async_tool_in_a_plain_run_is_done_once_for_what_it_says() -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay", name="ring", once_per=("whom",))
    async def ring(whom: str, text: str) -> str:
        sent.append(text)
        return "rang"

    async def main() -> None:
        with Host().process() as ledger:
            async with ledger.run("r"):
                await asyncio.gather(*(ring("ann", word) for word in WORDS))

    asyncio.run(main())
    assert len(sent) == 1


def test_a_node_that_is_killed_and_visited_again_sends_no_second_wording() -> None:
    """An unrecorded reply of a model is another one after the crash."""

    def make() -> tuple[Outbox, nt.Graph[Any]]:
        forget_tools()
        outbox, words = Outbox(), iter(WORDS)
        flow = nt.Graph("mailing", version="1.0.0")

        @flow.node
        def write(state: dict[str, Any]) -> dict[str, Any]:
            outbox.tool("ann", 7, next(words))
            return {}

        return outbox, flow

    host, (_, flow) = Host(), make()
    with host.process() as ledger:
        flow.run("r", {}, store=ledger)
    for dies_at in range(1, host.points + 1):
        mortal, (outbox, flow) = Host(), make()
        with mortal.process(dies_at=dies_at) as ledger:
            flow.run("r", {}, store=ledger)
        status = "running"
        while status != "completed":
            with mortal.process() as ledger:
                status = flow.run("r", {}, store=ledger).status
            if status == "waiting" and outbox.sent:
                mortal.decide(Verb.HAPPENED, result="mail 1")
            elif status == "waiting":
                mortal.decide(Verb.DID_NOT_HAPPEN)
        assert len(outbox.sent) == 1


def test_an_approval_is_for_the_words_that_a_person_saw() -> None:
    outbox = Outbox(approve=True)
    host = Host()

    def attempt(text: str) -> None:
        with host.process() as ledger, ledger.run("r"):
            outbox.tool("ann", 7, text)

    with pytest.raises(nt.errors.ApprovalNeeded):
        attempt("Hello")
    host.decide(Verb.APPROVE)
    with pytest.raises(nt.errors.ApprovalNeeded, match="was for other words"):
        attempt("You owe us 1,000,000.")
    assert outbox.sent == []
    host.decide(Verb.APPROVE)
    attempt("You owe us 1,000,000.")
    attempt("Hello")
    assert outbox.sent == [("ann", 7, "You owe us 1,000,000.")]


def test_one_key_for_the_same_effect_in_other_words_is_no_conflict() -> None:
    keys: list[str | None] = []

    @nt.tool(
        "idempotent_with_key", name="pay", key="pay-{order}", window="24h", once_per=("order",)
    )
    def pay(order: int, reason: str) -> str:
        keys.append(nt.current_call().key)
        return "paid"

    with Host().process() as ledger, ledger.run("r"):
        pay(7, "broken")
        pay(7, "it was broken")
    assert keys == ["pay-7"]


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"once_per": "to"}, r"write once_per=\('to',\)"),
        ({"once_per": ()}, "would make all its calls one effect"),
        (
            {"once_per": ("to", "whom")},
            r"once_per names 'whom', which is not one of its parameters",
        ),
        ({"once_per": ("to",), "volatile": ("text",)}, "Leave one of them out"),
        ({"once_per": ("to", 7)}, "must hold names, not 7"),
        ({"once_per": 7}, "must hold names, not 7"),
    ],
)
def test_what_once_per_cannot_mean_is_refused_when_the_tool_is_declared(
    declared: dict[str, Any], why: str
) -> None:
    with pytest.raises(nt.errors.InvalidTool, match=why):
        Outbox(**declared)


def test_a_pure_tool_has_no_effect_to_count() -> None:
    with pytest.raises(nt.errors.InvalidTool, match="no effect that could happen twice"):
        nt.tool("pure", name="look", once_per=("what",))(lambda what: what)  # type: ignore[call-overload]


def test_a_key_cannot_use_what_does_not_count() -> None:
    with pytest.raises(nt.errors.InvalidTool, match="not in once_per"):
        nt.tool(
            "idempotent_with_key", name="pay", key="{reason}", window="1h", once_per=("order",)
        )(lambda order, reason: None)


def fingerprint_of(**declared: Any) -> Fingerprint:
    forget_tools()
    agent = nt.Agent(
        "mailer",
        version="1.0.0",
        provider=nt.providers.scripted(["done"]),
        tools=[Outbox(**declared).tool],
    )
    printed = agent.fingerprint()
    assert Fingerprint.from_plain(printed.to_plain()).structure == printed.structure
    return printed


def test_another_answer_to_which_call_it_is_needs_a_new_major_version() -> None:
    """An open run would take the recorded mail for another one, and send it again."""
    plain = fingerprint_of(once_per=None)
    once = fingerprint_of()
    wider = fingerprint_of(once_per=("to", "order_id", "text"))
    assert what_bump(plain, once).part is Part.MAJOR
    assert "no longer counts" in what_bump(plain, once).text
    assert "counts now" in what_bump(once, plain).text
    assert what_bump(plain, once).of_bound().part is Part.MAJOR
    assert what_bump(plain, wider).part is Part.NONE
    assert what_bump(fingerprint_of(once_per=None, volatile=("text",)), once).part is Part.NONE


def test_the_same_declaration_with_another_once_per_is_another_tool() -> None:
    def send(to: str, text: str) -> str:
        return to

    first = nt.tool("unsafe_on_replay", name="send_once", once_per=("to",))(send)
    with pytest.raises(nt.errors.InvalidTool, match="send_once"):
        nt.tool("unsafe_on_replay", name="send_once", once_per=("text",))(send)
    assert first.tool.volatile == ("text",)


def test_wherever_a_run_dies_the_words_on_record_are_the_words_that_were_sent() -> None:
    for dies_at in range(1, 12):
        forget_tools()
        host, sent = Host(), list[str]()
        errors: list[Exception] = [nt.Retryable("busy")]

        @nt.tool("unsafe_on_replay", once_per=("to",), retry=nt.RetryPolicy(3))
        def dying_mail(to: str, text: str) -> str:
            if errors:  # noqa: B023
                raise errors.pop()  # noqa: B023
            sent.append(text)  # noqa: B023
            return "sent"

        for text, dies in (("first", dies_at), ("second", None)):
            with (
                contextlib.suppress(nt.RunBlocked),
                host.process(dies_at=dies) as ledger,
                ledger.run("r"),
            ):
                dying_mail("ann", text)
        (row,) = host.calls
        assert len(sent) <= 1
        if sent:
            assert values.decode_object(row.args_json)["text"] == sent[0]
