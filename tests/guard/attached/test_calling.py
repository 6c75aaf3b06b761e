"""One call that a model asked for: identity, results, looking without calling (P242)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import nottwice as nt
from nottwice.adapters import declare
from nottwice.model.review import Verb
from tests.fakes import Host, dying, unwanted

CHARGE = declare("pay/charge", replay="unsafe_on_replay")
READ = declare("disk/read", replay="pure")
WRITE = declare("disk/write", replay="unsafe_on_replay")


@pytest.fixture
def ledger() -> nt.Ledger:
    return nt.Ledger(":memory:")


@pytest.fixture
def host() -> Host:
    return Host()


def declined(arguments: dict[str, Any]) -> None:
    raise nt.Permanent("declined")


def leave_in_doubt(host: Host, *arguments: dict[str, Any], spec: Any = CHARGE) -> None:
    """A process that died in the body of each of these calls."""
    for one in arguments:
        with host.process() as ledger, ledger.attach("r") as handle:
            handle.call(spec, one, dying(ledger))


def test_an_effect_is_made_once_per_run_wherever_the_conversation_has_got_to(
    ledger: nt.Ledger,
) -> None:
    made: list[str] = []
    for replies in range(3):
        with ledger.attach("r") as handle:
            result = handle.call(CHARGE, {"cents": 4}, lambda _: made.append("r"), replies=replies)
            assert result.replayed is bool(replies)
    with ledger.attach("other") as handle:
        assert not handle.call(CHARGE, {"cents": 4}, lambda _: made.append("other")).replayed
    assert made == ["r", "other"]


def test_a_deliberate_repeat_carries_a_label(ledger: nt.Ledger) -> None:
    with ledger.attach("r") as handle:
        first = handle.call(CHARGE, {}, lambda _: 1)
        second = handle.call(CHARGE, {}, lambda _: 2, label="second parcel")
        again = handle.call(CHARGE, {}, unwanted, label="second parcel")
    assert (first.value, second.value, again.value) == (1, 2, 2)
    assert again.receipt_id == second.receipt_id != first.receipt_id


@pytest.mark.parametrize("counted", [True, False])
def test_read_write_read_returns_the_new_value(ledger: nt.Ledger, counted: bool) -> None:
    disk = ["v0"]

    def write(arguments: dict[str, Any]) -> None:
        disk[0] = arguments["text"]

    seen: list[str] = []
    with ledger.attach("r") as handle:
        for replies, text in enumerate(["v1", "v2"]):
            count = 2 * replies if counted else None
            seen.append(handle.call(READ, {}, lambda _: disk[0], replies=count).value)
            handle.call(WRITE, {"text": text}, write)
        count = 4 if counted else None
        seen.append(handle.call(READ, {}, lambda _: disk[0], replies=count).value)
    assert seen == ["v0", "v1", "v2"]


def test_a_read_with_its_number_of_replies_is_the_same_after_a_restart(ledger: nt.Ledger) -> None:
    with ledger.attach("r") as handle:
        first = handle.call(READ, {}, lambda _: "v0", replies=1)
        again = handle.call(READ, {}, lambda _: "v1", replies=1)
        bare = handle.call(READ, {}, lambda _: "v1")
    assert (first.value, again.value, bare.value) == ("v0", "v0", "v1")
    assert (again.replayed, bare.replayed, bare.receipt_id) == (True, False, None)


@pytest.mark.parametrize("replies", [-1, True, "3", 1.0])
def test_a_number_of_replies_that_is_none_is_refused(ledger: nt.Ledger, replies: Any) -> None:
    with ledger.attach("r") as handle, pytest.raises(nt.errors.UsageError, match="replies="):
        handle.call(READ, {}, unwanted, replies=replies)


def test_policies_are_asked_about_a_read_that_is_not_recorded() -> None:
    ledger = nt.Ledger(":memory:", policy=lambda call: nt.policy.deny("not that disk"))
    with ledger.attach("r") as handle, pytest.raises(nt.errors.DeniedByPolicy):
        handle.call(READ, {}, unwanted)


def test_read_write_read_returns_the_new_value_under_a_policy() -> None:
    """A policy must know of each read, but no read is answered from another one."""
    seen: list[str] = []

    def policy(call: Any) -> Any:
        seen.append(call.tool)
        return nt.policy.allow()

    ledger = nt.Ledger(":memory:", policy=policy)
    disk = iter(range(3))
    with ledger.attach("r") as handle:
        values = [handle.call(READ, {}, lambda _: next(disk)).value for _ in range(3)]
    assert (values, seen) == ([0, 1, 2], ["disk/read"] * 3)


def test_a_protected_async_read_is_awaited(ledger: nt.Ledger) -> None:
    @nt.tool("pure")
    async def fetch(url: str) -> str:
        return f"page {url}"

    async def main() -> None:
        async with ledger.attach("r") as handle:
            assert (await handle.acall(fetch, {"url": "a"})).value == "page a"
            with pytest.raises(nt.errors.UsageError, match="acall"):
                handle.call(fetch, {"url": "a"})

    try:
        asyncio.run(main())
    finally:
        nt.testing.forget_tools()


def test_a_failure_without_effect_is_no_dead_end_for_other_words(ledger: nt.Ledger) -> None:
    spec = declare("mail", replay="unsafe_on_replay", once_per=("to",))
    sent: list[Any] = []
    with ledger.attach("r") as handle:
        with pytest.raises(nt.Permanent):
            handle.call(spec, {"to": "ann", "text": "rude"}, declined)
        made = handle.call(spec, {"to": "ann", "text": "kind"}, lambda a: sent.append(a["text"]))
        again = handle.call(spec, {"to": "ann", "text": "kind"}, unwanted)
        assert handle.look(spec, {"to": "ann", "text": "kind"}).status == "receipt"
    assert (sent, again.receipt_id, again.replayed) == (["kind"], made.receipt_id, True)


def test_the_same_call_in_the_bodies_of_two_calls_is_two_calls(ledger: nt.Ledger) -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay")
    def mail(to: str) -> None:
        sent.append(to)

    try:
        with ledger.attach("r") as handle:
            for number in (1, 2, 1):
                handle.call(CHARGE, {"number": number}, lambda _: mail("ann"))
    finally:
        nt.testing.forget_tools()
    assert sent == ["ann", "ann"]


def test_a_result_says_where_it_comes_from(host: Host) -> None:
    with host.process() as ledger:
        with ledger.attach("r") as handle:
            made = handle.call(CHARGE, {}, lambda _: {"ok": True})
            host.clock.advance(60)
            again = handle.call(CHARGE, {}, unwanted)
    assert (made.value, made.replayed, made.attempts) == ({"ok": True}, False, 1)
    assert (again.value, again.replayed) == ({"ok": True}, True)
    assert made.at == again.at == host.clock.now() - 60
    assert made.receipt_id == again.receipt_id == host.calls[0].call_id
    assert "ok" not in repr(made)


def test_a_call_that_failed_without_effect_is_tried_again_when_it_is_asked_for_again(
    ledger: nt.Ledger,
) -> None:
    with ledger.attach("r") as handle:
        with pytest.raises(nt.Permanent, match="declined"):
            handle.call(CHARGE, {}, declined)
        with pytest.raises(nt.Permanent, match="declined"):
            handle.call(CHARGE, {}, unwanted, retry=False)
        assert handle.call(CHARGE, {}, lambda _: 1).value == 1


def test_a_call_that_a_policy_refused_stays_refused_unless_told_otherwise() -> None:
    answers = [nt.policy.deny("no"), nt.policy.allow()]
    ledger = nt.Ledger(":memory:", policy=lambda call: answers.pop(0))
    with ledger.attach("r") as handle:
        for _ in range(2):
            with pytest.raises(nt.errors.DeniedByPolicy):
                handle.call(CHARGE, {}, unwanted)
        assert handle.call(CHARGE, {}, lambda _: 1, retry=True).value == 1


def test_a_protected_function_keeps_its_own_words(ledger: nt.Ledger) -> None:
    sent: list[str | None] = []

    @nt.tool("idempotent_with_key", key="mail-{to}", window="24h")
    def mail(to: str, text: str = "hello") -> str:
        sent.append(nt.current_call().key)
        return f"{text} {to}"

    try:
        with ledger.attach("r") as handle:
            assert handle.call(mail, {"to": "ann"}).value == "hello ann"
            assert handle.call(mail, {"to": "ann", "text": "hello"}).replayed
            assert handle.look(mail, {"to": "ann"}).status == "receipt"
            with pytest.raises(nt.errors.InvalidTool, match="its own body"):
                handle.call(mail, {"to": "bob"}, unwanted)
            with pytest.raises(nt.errors.InvalidArguments):
                handle.call(mail, {"for": "bob"})
    finally:
        nt.testing.forget_tools()
    assert sent == ["mail-ann"]


def test_a_call_in_doubt_waits_for_its_body_and_is_never_made_without_it(host: Host) -> None:
    """Neither attaching nor opening the run makes it; its caller gets a review (P240)."""
    leave_in_doubt(host, {"cents": 4})
    with host.process() as ledger, ledger.attach("r") as handle:
        state = handle.look(CHARGE, {"cents": 4})
        assert (state.status, state.review_id) == ("in_doubt", None)
    with host.process() as ledger, ledger.run("r"):
        pass
    assert not host.open_reviews
    with host.process() as ledger, ledger.attach("r") as handle:
        with pytest.raises(nt.errors.ReplayUnsafeError) as stopped:
            handle.call(CHARGE, {"cents": 4}, unwanted)
        state = handle.look(CHARGE, {"cents": 4})
    (review,) = host.open_reviews
    assert stopped.value.review_id == state.review_id == review.review_id


def test_a_keyed_call_in_doubt_is_resent_when_its_caller_brings_the_body(host: Host) -> None:
    spec = declare("pay/charge", replay="idempotent_with_key", key="order-{order.id}", window="24h")
    leave_in_doubt(host, {"order": {"id": 7}}, spec=spec)
    with host.process() as ledger, ledger.attach("r") as handle:
        keys: list[str | None] = []
        made = handle.call(spec, {"order": {"id": 7}}, lambda _: keys.append(nt.current_call().key))
    assert (keys, made.replayed, made.attempts) == (["order-7"], False, 2)


def test_each_call_raises_for_its_own_review_and_new_effects_are_made_beside_it(
    host: Host,
) -> None:
    leave_in_doubt(host, {"cents": 1}, {"cents": 2})
    with host.process() as ledger, ledger.attach("r") as handle:
        reviews = []
        for cents in (1, 2, 1):
            with pytest.raises(nt.errors.ReplayUnsafeError) as stopped:
                handle.call(CHARGE, {"cents": cents}, unwanted)
            reviews.append(stopped.value.review_id)
        assert reviews[0] == reviews[2] != reviews[1]
        assert handle.call(CHARGE, {"cents": 3}, lambda _: "new").value == "new"
    with host.process() as ledger, ledger.attach("r") as handle:
        assert handle.call(CHARGE, {"cents": 4}, lambda _: "newer").value == "newer"


def test_a_run_that_a_person_aborted_makes_no_call_at_all(host: Host) -> None:
    leave_in_doubt(host, {"cents": 1})
    with host.process() as ledger, ledger.attach("r") as handle:
        with pytest.raises(nt.errors.ReplayUnsafeError):
            handle.call(CHARGE, {"cents": 1}, unwanted)
        host.decide(Verb.ABORT)
        with pytest.raises(nt.errors.RunAborted):
            handle.call(CHARGE, {"cents": 2}, unwanted)


@pytest.mark.parametrize("cents", [1, 2])
def test_an_aborted_run_stays_aborted_for_those_who_attach_later(host: Host, cents: int) -> None:
    """In the same process, where the run would stay open for a few seconds."""
    leave_in_doubt(host, {"cents": 1})
    with host.process() as ledger:
        with ledger.attach("r") as handle, pytest.raises(nt.errors.ReplayUnsafeError):
            handle.call(CHARGE, {"cents": 1}, unwanted)
        host.decide(Verb.ABORT)
        with ledger.attach("r") as handle, pytest.raises(nt.errors.RunAborted):
            handle.call(CHARGE, {"cents": cents}, unwanted)
        with pytest.raises(nt.errors.RunAborted):
            ledger.attach("r").__enter__()


def test_a_decision_is_used_by_the_call_that_it_is_about(host: Host) -> None:
    leave_in_doubt(host, {"cents": 1})
    with host.process() as ledger, ledger.attach("r") as handle:
        with pytest.raises(nt.errors.ReplayUnsafeError):
            handle.call(CHARGE, {"cents": 1}, unwanted)
    host.decide(Verb.DID_NOT_HAPPEN)
    with host.process() as ledger, ledger.attach("r") as handle:
        assert handle.look(CHARGE, {"cents": 1}).decided == "did-not-happen"
        made = handle.call(CHARGE, {"cents": 1}, lambda _: "sent")
        assert (made.value, made.replayed) == ("sent", False)
        assert handle.call(CHARGE, {"cents": 1}, unwanted).replayed
    assert not host.open_reviews


def test_what_a_person_says_happened_becomes_the_receipt(host: Host) -> None:
    leave_in_doubt(host, {"cents": 1})
    with host.process() as ledger, ledger.attach("r") as handle:
        with pytest.raises(nt.errors.ReplayUnsafeError):
            handle.call(CHARGE, {"cents": 1}, unwanted)
        host.decide(Verb.HAPPENED, result={"id": "ch_1"})
        made = handle.call(CHARGE, {"cents": 1}, unwanted)
    assert (made.value, made.replayed) == ({"id": "ch_1"}, True)
    assert made.settled_by == "decision by ann"


def test_a_look_says_what_a_call_would_do_and_changes_nothing(ledger: nt.Ledger) -> None:
    approved = declare("pay/refund", replay="unsafe_on_replay", approve=True)
    with ledger.attach("r") as handle:
        assert handle.look(CHARGE, {}).status == "new"
        assert handle.look(approved, {}).status == "needs_approval"
        assert handle.look(READ, {}).status == "new"
        assert not list(ledger.calls("r"))
        assert not ledger.store.reviews("r")
        handle.call(CHARGE, {}, lambda _: 7)
        assert (handle.look(CHARGE, {}).status, handle.look(CHARGE, {}).value) == ("receipt", 7)
        assert handle.look(CHARGE, {}, label="again").status == "new"
        states: list[str] = []
        handle.call(CHARGE, {"n": 1}, lambda a: states.append(handle.look(CHARGE, a).status))
        assert states == ["running"]


def test_a_look_knows_what_a_policy_would_ask() -> None:
    def policy(call: Any) -> Any:
        return nt.policy.ask("large") if call.arguments["cents"] > 100 else nt.policy.allow()

    ledger = nt.Ledger(":memory:", policy=policy)
    with ledger.attach("r") as handle:
        assert handle.look(CHARGE, {"cents": 7}).status == "new"
        assert handle.look(CHARGE, {"cents": 700}).status == "needs_approval"
        assert not ledger.store.audit("r")


def test_an_approval_stops_its_own_call_and_no_other(host: Host) -> None:
    spec = declare("pay/refund", replay="unsafe_on_replay", approve=True)
    with host.process() as ledger, ledger.attach("r") as handle:
        with pytest.raises(nt.errors.ApprovalNeeded) as needed:
            handle.call(spec, {"cents": 1}, unwanted)
        assert handle.look(spec, {"cents": 1}).review_id == needed.value.review_id
        assert handle.call(CHARGE, {}, lambda _: 1).value == 1
        host.decide(Verb.APPROVE)
        assert handle.look(spec, {"cents": 1}).status == "new"
        assert handle.call(spec, {"cents": 1}, lambda _: "refunded").value == "refunded"


def test_a_caller_may_have_a_person_approve_one_call(ledger: nt.Ledger) -> None:
    with ledger.attach("r") as handle, pytest.raises(nt.errors.ApprovalNeeded, match="a repeat"):
        handle.call(CHARGE, {}, unwanted, label="twice", ask="a repeat")


def test_async_bodies_run_in_the_loop_and_cancelling_a_caller_cancels_no_effect(
    ledger: nt.Ledger,
) -> None:
    async def main() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        async def body(arguments: dict[str, Any]) -> str:
            begun.set()
            await may_end.wait()
            return "charged"

        async with ledger.attach("r") as handle:
            caller = asyncio.ensure_future(handle.acall(CHARGE, {}, body))
            await begun.wait()
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
            may_end.set()
            made = await handle.acall(CHARGE, {}, body)
            assert (made.value, made.replayed) == ("charged", True)
            assert (await handle.alook(CHARGE, {})).status == "receipt"
            assert (await handle.acall(READ, {}, lambda _: "read")).value == "read"

    asyncio.run(main())


def test_calls_in_the_body_of_a_call_belong_to_the_run(ledger: nt.Ledger) -> None:
    @nt.tool("unsafe_on_replay")
    def mail(to: str) -> str:
        return f"sent to {to}"

    try:
        with ledger.attach("r") as handle:
            assert handle.call(CHARGE, {}, lambda _: mail("ann")).value == "sent to ann"
        assert {call.tool for call in ledger.calls("r")} == {"pay/charge", "mail"}
    finally:
        nt.testing.forget_tools()
