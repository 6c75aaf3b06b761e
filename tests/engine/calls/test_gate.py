"""Policies see every call before its intent, and what they do not allow is not done (L9)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.engine.calls import gate
from nottwice.model.call import CallStatus
from nottwice.model.policy import RulingKind
from nottwice.model.review import AuditEntry, Verb
from nottwice.model.run import RunStatus
from nottwice.store.memory import MemoryStore
from tests.fakes import Host


class Shop:
    """Sends mails and looks things up; what it was asked to do is counted."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.read: list[str] = []
        self.outcomes: list[BaseException] = []

        @nt.tool("unsafe_on_replay", name="send", tags=("mail", "outside"), rate="smtp")
        def send(to: str, text: str = "hello") -> str:
            self._do(to)
            return f"sent to {to}"

        @nt.tool("idempotent_with_key", name="book", key="book-{seat}", window="24h")
        def book(seat: str) -> str:
            self._do(seat)
            return f"booked {seat}"

        @nt.tool("pure", name="look")
        def look(what: str) -> str:
            self.read.append(what)
            return f"seen {what}"

        self.send, self.book, self.look = send, book, look

    def _do(self, what: str) -> None:
        if self.outcomes:
            raise self.outcomes.pop()
        self.sent.append(what)


class BadError(Exception):
    """An error that cannot even be shown."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Guard:
    """A policy that says what it was told to, and keeps what it saw."""

    def __init__(self, *rulings: Any) -> None:
        self.rulings = list(rulings) or [policy.allow()]
        self.seen: list[policy.ProposedCall] = []

    def __call__(self, call: policy.ProposedCall) -> policy.Ruling:
        self.seen.append(call)
        ruling = self.rulings.pop(0) if len(self.rulings) > 1 else self.rulings[0]
        if isinstance(ruling, BaseException):
            raise ruling
        said: policy.Ruling = ruling
        return said

    def __str__(self) -> str:
        return "the guard"


def attempt(host: Host, guard: Any, work: Callable[[], Any], **process: Any) -> Any:
    with host.process(**process) as ledger:
        try:
            with ledger.run("r", policy=guard):
                return work()
        except nt.NottwiceError as error:
            return error


def trail(host: Host) -> list[AuditEntry]:
    return MemoryStore(host.data).audit("r")


def test_a_policy_sees_every_call_before_its_intent(host: Host) -> None:
    shop, rows = Shop(), []

    def watch(call: policy.ProposedCall) -> policy.Ruling:
        rows.append(len(host.calls))
        return guard(call)

    guard = Guard()

    def work() -> None:
        with nt.step("s"):
            shop.send("ann")
            shop.book("4c")
            shop.look("weather")
            shop.send.again("once more")("ann")

    assert attempt(host, watch, work) is None
    mail, booking, look, again = guard.seen
    assert (mail.tool, mail.tags, mail.rate_class) == ("send", ("mail", "outside"), "smtp")
    assert mail.arguments == {"to": "ann", "text": "hello"}
    assert (mail.run_id, mail.step, mail.label, mail.effectful) == ("r", "s", None, True)
    assert (booking.key, booking.replay_class) == ("book-4c", "idempotent_with_key")
    assert (look.tool, look.effectful) == ("look", False)
    assert again.label == "once more"
    assert rows == [0, 1, 2, 2]
    assert [row.call_id for row in host.calls if row.identity.tool_name == "send"] == [
        mail.call_id,
        again.call_id,
    ]


def test_a_denied_call_is_not_sent_and_stays_denied(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.deny("not today"), policy.allow())
    for _ in range(2):
        denied = attempt(host, guard, lambda: shop.send("ann"))
        assert isinstance(denied, nt.errors.DeniedByPolicy)
        assert "policy the guard does not allow it: not today" in str(denied)
    assert (shop.sent, len(guard.seen)) == ([], 1)
    (row,) = host.calls
    assert (row.status, row.attempt) == (CallStatus.FAILED, 1)
    (entry,) = trail(host)
    assert (entry.who, entry.action, entry.why) == ("policy the guard", "deny", "not today")
    assert entry.subject == f"call {row.call_id[:16]} send"
    assert attempt(host, guard, lambda: shop.send.retry("ann")) == "sent to ann"
    assert shop.sent == ["ann"]


@pytest.mark.parametrize("make", [policy.deny, policy.ask])
def test_a_reason_that_cannot_be_stored_or_shown_is_made_plain(
    tmp_path: Path, make: Callable[[str], policy.Ruling]
) -> None:
    shop, why = Shop(), "no\0 \ud800\x1b[31m\u202e\n" + "x" * 10_000
    with nt.Ledger(tmp_path / "agent.db", policy=Guard(make(why))) as ledger:
        with pytest.raises((nt.errors.DeniedByPolicy, nt.errors.ApprovalNeeded)) as refused:
            with ledger.run("r"):
                shop.send("ann")
    assert "no    [31m" in str(refused.value)
    assert len(str(refused.value)) < 2_000
    assert shop.sent == []


def test_an_agent_continues_with_a_denial_as_with_any_result(host: Host) -> None:
    shop = Shop()

    def work() -> str:
        try:
            return shop.send("ann")
        except nt.Permanent as told:
            return f"told: {type(told).__name__}"

    assert attempt(host, Guard(policy.deny("no")), work) == "told: DeniedByPolicy"
    assert host.data.runs["r"].status is RunStatus.COMPLETED


def test_a_call_with_a_receipt_needs_no_permission(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.deny("nothing any more"))
    for work in (lambda: shop.send("ann"), lambda: shop.look("weather")):
        live = attempt(host, None, work)
        assert attempt(host, guard, work) == live
    assert (guard.seen, shop.sent, shop.read) == ([], ["ann"], ["weather"])


def test_a_call_that_was_made_before_is_looked_up_also_among_new_ones(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.allow(), policy.allow(), policy.deny("enough"))

    def work() -> str:
        shop.send("ann")
        shop.send("bob")
        return shop.send("ann")

    assert attempt(host, guard, work) == "sent to ann"
    assert (shop.sent, len(guard.seen)) == (["ann", "bob"], 2)


def test_a_call_in_doubt_is_reissued_because_it_was_allowed(host: Host) -> None:
    shop = Shop()
    with host.process(dies_at=4) as ledger, ledger.run("r"):
        shop.book("4c")
    assert [row.status for row in host.calls] == [CallStatus.PENDING]
    guard = Guard(policy.deny("nothing any more"))
    assert attempt(host, guard, lambda: None) is None
    assert [row.status for row in host.calls] == [CallStatus.DONE]
    assert guard.seen == []


def test_another_attempt_of_an_allowed_call_is_not_asked_about(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.charge("mails", 1), policy.deny("only once"))
    shop.outcomes = [nt.Retryable("busy"), nt.Retryable("busy")]
    assert attempt(host, guard, lambda: shop.send("ann")) == "sent to ann"
    assert len(guard.seen) == 1
    assert MemoryStore(host.data).charged("mails") == 1_000_000


def test_a_person_is_asked_with_the_reason_and_about_this_very_call(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.ask("a stranger"))
    needed = attempt(host, guard, lambda: shop.send("ann"))
    assert isinstance(needed, nt.errors.ApprovalNeeded)
    assert "needs approval (a stranger)" in str(needed)
    assert host.data.runs["r"].status is RunStatus.WAITING
    host.decide(Verb.APPROVE)
    assert isinstance(attempt(host, guard, lambda: shop.send("bob")), nt.errors.ApprovalNeeded)
    assert attempt(host, guard, lambda: shop.send("ann")) == "sent to ann"
    assert attempt(host, guard, lambda: shop.send("ann")) == "sent to ann"
    assert shop.sent == ["ann"]


def test_what_a_person_rejects_is_not_sent(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.ask("a stranger"))
    attempt(host, guard, lambda: shop.send("ann"))
    host.decide(Verb.REJECT, why="I know him")
    assert isinstance(attempt(host, guard, lambda: shop.send("ann")), nt.errors.RejectedByReviewer)
    assert shop.sent == []


def test_a_person_who_was_asked_is_not_overruled_by_a_policy_that_allows(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.ask("a stranger"), policy.allow())
    attempt(host, guard, lambda: shop.send("ann"))
    assert isinstance(attempt(host, guard, lambda: shop.send("ann")), nt.errors.ApprovalNeeded)
    host.decide(Verb.REJECT, why="no")
    assert isinstance(attempt(host, guard, lambda: shop.send("ann")), nt.errors.RejectedByReviewer)


def test_a_denial_closes_what_a_person_was_asked(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.ask("a stranger"), policy.deny("never"))
    attempt(host, guard, lambda: shop.send("ann"))
    host.decide(Verb.APPROVE)
    assert isinstance(attempt(host, guard, lambda: shop.send("ann")), nt.errors.DeniedByPolicy)
    assert (host.open_reviews, shop.sent) == ([], [])


@pytest.mark.parametrize("dies_at", range(1, 12))
def test_an_approval_that_a_policy_asked_for_is_used_with_the_intent(
    host: Host, dies_at: int
) -> None:
    shop, guard = Shop(), Guard(policy.ask("a stranger"))
    attempt(host, guard, lambda: shop.send("ann"))
    host.decide(Verb.APPROVE)
    attempt(host, guard, lambda: shop.send("ann"), dies_at=dies_at)
    used = [review.status.value for review in MemoryStore(host.data).reviews("r")]
    assert (used == ["used"]) == bool(host.calls)
    attempt(host, guard, lambda: shop.send("ann"))
    assert len(shop.sent) <= 1


def test_a_stopped_run_fails_even_if_its_code_swallows_that(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.stop("out of office"), policy.allow())

    def work() -> str:
        for name in ("ann", "bob"):
            with pytest.raises(nt.errors.RunStoppedByPolicy, match="out of office"):
                shop.send(name)
        return "never mind"

    assert attempt(host, guard, work) == "never mind"
    assert (shop.sent, host.calls, len(guard.seen)) == ([], [], 1)
    run = host.data.runs["r"]
    assert run.status is RunStatus.FAILED
    assert run.failure is not None
    assert "out of office" in run.failure.message
    assert [entry.action for entry in trail(host)] == ["stop the run"]
    assert attempt(host, guard, lambda: shop.send("ann")) == "sent to ann"
    assert host.data.runs["r"].status is RunStatus.COMPLETED


def test_no_step_finishes_in_a_run_that_was_stopped(host: Host) -> None:
    shop, guard = Shop(), Guard(policy.stop("out of office"), policy.allow())

    def work() -> None:
        with nt.step("s"), contextlib.suppress(nt.errors.RunStoppedByPolicy):
            shop.send("ann")

    assert isinstance(attempt(host, guard, work), nt.errors.RunStoppedByPolicy)
    assert attempt(host, guard, work) is None
    assert shop.sent == ["ann"]


@pytest.mark.parametrize(
    ("ruling", "said"),
    [
        (ValueError("broken"), "raised ValueError: broken"),
        (True, "returned bool instead of policy.allow()"),
        (None, "returned NoneType instead of"),
        ("allow", "returned str instead of"),
        (policy.allow, "returned function instead of"),
        (policy.Ruling("allow"), "returned Ruling instead of"),  # type: ignore[arg-type]
        (policy.Ruling(RulingKind.ALLOW, charges=(7,)), "returned Ruling"),  # type: ignore[arg-type]
        (BadError(), "raised "),
    ],
)
def test_a_policy_that_gives_no_ruling_lets_nothing_through(
    host: Host, ruling: Any, said: str
) -> None:
    shop, guard = Shop(), Guard(ruling, policy.allow())
    failed = attempt(host, guard, lambda: shop.send("ann"))
    assert isinstance(failed, nt.errors.PolicyFailed)
    assert said in str(failed)
    assert "was not sent" in str(failed)
    assert (shop.sent, host.calls) == ([], [])
    assert said in trail(host)[0].why
    assert host.data.runs["r"].status is RunStatus.FAILED
    assert attempt(host, guard, lambda: shop.send("ann")) == "sent to ann"


def test_a_meter_that_cannot_be_read_lets_nothing_through_and_is_no_fault_of_the_policy(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop()

    def spends(call: policy.ProposedCall) -> policy.Ruling:
        return policy.allow() if call.read_meter("cents", None) == 0 else policy.deny("spent")

    def away(store: MemoryStore, meter: str, **asked: Any) -> int:
        raise nt.errors.StoreError("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(MemoryStore, "charged", away)
        assert isinstance(attempt(host, spends, lambda: shop.send("ann")), nt.errors.StoreError)
    assert (shop.sent, host.calls) == ([], [])
    assert host.data.runs["r"].status is RunStatus.RUNNING
    assert attempt(host, spends, lambda: shop.send("ann")) == "sent to ann"


def test_a_policy_that_hangs_lets_nothing_through(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "LIMIT_SECONDS", 0.05)
    shop, ever = Shop(), threading.Event()

    def hangs(call: policy.ProposedCall) -> policy.Ruling:
        ever.wait(30)
        return policy.allow()

    async def hangs_too(call: policy.ProposedCall) -> policy.Ruling:
        await asyncio.sleep(30)
        return policy.allow()

    for each in (hangs, hangs_too):
        failed = attempt(host, each, lambda: shop.send("ann"))
        assert isinstance(failed, nt.errors.PolicyFailed)
        assert "gave no answer within 0.05 s" in str(failed)
    ever.set()
    assert (shop.sent, host.calls) == ([], [])


def test_a_policy_cannot_change_the_arguments_of_a_call(host: Host) -> None:
    shop = Shop()

    def meddles(call: policy.ProposedCall) -> policy.Ruling:
        call.arguments["to"] = "somebody else"
        return policy.allow()

    assert attempt(host, [meddles, meddles], lambda: shop.send("ann")) == "sent to ann"
    assert shop.sent == ["ann"]


def test_a_policy_is_outside_of_the_run_and_cannot_make_calls_in_it(host: Host) -> None:
    shop = Shop()

    def calls(call: policy.ProposedCall) -> policy.Ruling:
        shop.send("everybody")
        return policy.allow()

    failed = attempt(host, calls, lambda: shop.send("ann"))
    assert isinstance(failed, nt.errors.PolicyFailed)
    assert "NotInRun" in str(failed)
    assert shop.sent == []


def test_of_several_policies_the_strictest_counts(host: Host) -> None:
    shop = Shop()
    asks, denies, never = Guard(policy.ask("hm")), Guard(policy.deny("no")), Guard()
    denied = attempt(host, [Guard(), asks, denies, never], lambda: shop.send("ann"))
    assert isinstance(denied, nt.errors.DeniedByPolicy)
    assert (len(asks.seen), len(denies.seen), never.seen) == (1, 1, [])
    asked = attempt(host, [asks, Guard()], lambda: shop.send("bob"))
    assert isinstance(asked, nt.errors.ApprovalNeeded)


def test_a_pure_call_is_policed_too(host: Host) -> None:
    shop = Shop()
    guard = Guard(policy.deny("no secrets"))
    for _ in range(2):
        assert isinstance(
            attempt(host, guard, lambda: shop.look("secrets")), nt.errors.DeniedByPolicy
        )
    assert (shop.read, len(guard.seen)) == ([], 1)
    asks = Guard(policy.ask("is that so?"))
    assert isinstance(attempt(host, asks, lambda: shop.look("files")), nt.errors.ApprovalNeeded)
    host.decide(Verb.APPROVE)
    assert attempt(host, asks, lambda: shop.look("files")) == "seen files"
    assert attempt(host, asks, lambda: shop.look("files")) == "seen files"
    assert shop.read == ["files"]


def test_what_nottwice_itself_records_is_not_a_call(host: Host) -> None:
    guard = Guard(policy.deny("nothing at all"))
    assert attempt(host, guard, lambda: nt.random(label="dice")) == 1.0
    assert guard.seen == []


def test_policies_may_be_async_and_calls_too(host: Host) -> None:
    @nt.tool("unsafe_on_replay", name="send later")
    async def later(to: str) -> str:
        return to

    async def looks_it_up(call: policy.ProposedCall) -> policy.Ruling:
        await asyncio.sleep(0)
        return policy.deny("no") if call.arguments["to"] == "bob" else policy.allow()

    def at_once(call: policy.ProposedCall) -> policy.Ruling:
        return policy.allow()

    async def work() -> list[str]:
        told = []
        with host.process() as ledger:
            async with ledger.run("r", policy=[looks_it_up, at_once]):
                for name in ("ann", "bob"):
                    try:
                        told.append(await later(to=name))
                    except nt.errors.DeniedByPolicy:
                        told.append("denied")
        return told

    assert asyncio.run(work()) == ["ann", "denied"]
    shop = Shop()
    assert attempt(host, looks_it_up, lambda: shop.send("ann")) == "sent to ann"


def test_a_meter_shows_what_was_charged_so_far(host: Host) -> None:
    shop, shown = Shop(), []

    def counts(call: policy.ProposedCall) -> policy.Ruling:
        shown.append((call.charged("mails"), call.charged("mails", per="1h")))
        return policy.charge("mails", 2.5)

    for name in ("ann", "bob", "eve"):
        attempt(host, counts, partial(shop.send, name))
        host.clock.advance(1800)
    assert shown == [(0, 0), (2.5, 2.5), (5, 2.5)]


@pytest.mark.parametrize("dies_at", range(1, 14))
def test_nothing_is_charged_without_its_intent_whenever_the_process_dies(
    host: Host, dies_at: int
) -> None:
    shop, limit = Shop(), policy.rate(2, per="1h", tool="book")

    def work() -> None:
        for seat in ("1a", "1b", "1c"):
            with contextlib.suppress(nt.errors.DeniedByPolicy):
                shop.book(seat)

    attempt(host, limit, work, dies_at=dies_at)
    store = MemoryStore(host.data)
    made = [row for row in host.calls if row.status is not CallStatus.FAILED]
    assert store.charged("calls tool=book") == len(made) * 1_000_000
    attempt(host, limit, work)
    assert set(shop.sent) <= {"1a", "1b"}
    assert store.charged("calls tool=book") == 2_000_000
    assert [row.status for row in host.calls][-1] is CallStatus.FAILED


def test_a_limit_that_asks_can_be_exceeded_by_a_person(host: Host) -> None:
    shop = Shop()
    limit = policy.rate(1, per="1h", tool="send", otherwise="ask")
    assert attempt(host, limit, lambda: shop.send("ann")) == "sent to ann"
    needed = attempt(host, limit, lambda: shop.send("bob"))
    assert isinstance(needed, nt.errors.ApprovalNeeded)
    assert "1 of 1 in 3600 s are used" in str(needed)
    host.decide(Verb.APPROVE)
    shop.outcomes = [nt.Permanent("no such address")]
    assert isinstance(attempt(host, limit, lambda: shop.send("bob")), nt.Permanent)
    assert attempt(host, limit, lambda: shop.send.retry("bob")) == "sent to bob"
    assert MemoryStore(host.data).charged("calls tool=send") == 2_000_000


def test_a_persons_yes_does_not_lift_a_limit_that_denies(host: Host) -> None:
    """The last place is taken by another run, after this one has looked and before it commits."""
    shop = Shop()
    limit = policy.rate(1, per="1h", tool="send")
    others: list[str] = []

    def ask_meanwhile(call: policy.ProposedCall) -> policy.Ruling:
        while others:
            other = others.pop()
            with host.process() as ledger, ledger.run(other, policy=limit):
                shop.send(other)
        return policy.ask("a person decides")

    guard = [limit, ask_meanwhile]
    assert isinstance(attempt(host, guard, lambda: shop.send("ann")), nt.errors.ApprovalNeeded)
    host.decide(Verb.APPROVE)
    others.append("bob")
    assert isinstance(attempt(host, guard, lambda: shop.send("ann")), nt.errors.DeniedByPolicy)
    assert shop.sent == ["bob"]


@pytest.mark.timeout(30)
def test_a_limit_that_would_allow_what_exceeds_it_denies(host: Host) -> None:
    shop = Shop()

    def lax(call: policy.ProposedCall) -> policy.Ruling:
        return policy.charge("mails", 1, at_most=1, otherwise="allow")

    assert attempt(host, lax, lambda: shop.send("ann")) == "sent to ann"
    assert isinstance(attempt(host, lax, lambda: shop.send("bob")), nt.errors.DeniedByPolicy)
    assert shop.sent == ["ann"]


def test_a_block_inside_cannot_name_a_policy_that_the_run_does_not_ask(host: Host) -> None:
    guard = Guard()
    with host.process() as ledger, ledger.run("r", policy=guard):
        with ledger.run("r", policy=guard):
            pass
        with pytest.raises(nt.errors.UsageError, match="outermost block"):
            with ledger.run("r", policy=Guard()):
                pass


def test_a_policy_that_is_interrupted_interrupts_the_call(host: Host) -> None:
    shop = Shop()
    with pytest.raises(KeyboardInterrupt):
        attempt(host, Guard(KeyboardInterrupt()), lambda: shop.send("ann"))
    assert (shop.sent, host.calls, trail(host)) == ([], [], [])
