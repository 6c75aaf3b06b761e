"""From a call in user code to its identity and key (T2, T4, L5), before anything happens."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.call import CallRow
from tests.fakes import Host

declare: Any = nt.tool
_numbers = itertools.count()


@dataclass
class Upstream:
    """What was sent, and with which key."""

    sent: list[object] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def take(self, thing: object) -> str:
        self.sent.append(thing)
        self.keys.append(nt.current_call().key)
        return f"sent {len(self.sent)}"


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


@pytest.fixture
def ledger() -> nt.Ledger:
    return nt.Ledger(":memory:")


def rows(ledger: nt.Ledger, run_id: str = "r") -> list[CallRow]:
    return ledger.store.calls(run_id)


# Outside a run


def check_ways_out(text: str, tool: str) -> None:
    assert text.startswith(f"Tool {tool!r} was called outside a run. Nothing was sent.")
    assert "with nt.run('ticket-7', store='agent.db')" in text
    assert "contextvars.copy_context().run(function)" in text
    assert f"{tool}.fn(...)" in text


def test_outside_a_run_nothing_is_sent_and_the_error_shows_the_ways_out(
    upstream: Upstream,
) -> None:
    @nt.tool("unsafe_on_replay")
    def request_outside(x: int) -> str:
        return upstream.take(x)

    calls: list[Callable[[], object]] = [
        lambda: request_outside(1),
        lambda: request_outside.receipt(1),
        lambda: request_outside.retry(1),
        lambda: request_outside.again("twice")(1),
    ]
    for call in calls:
        with pytest.raises(nt.errors.NotInRun) as caught:
            call()
        check_ways_out(str(caught.value), "request_outside")
    assert upstream.sent == []


def test_a_thread_is_in_the_run_only_with_its_context(
    ledger: nt.Ledger, upstream: Upstream
) -> None:
    @nt.tool("unsafe_on_replay")
    def request_threaded(x: int) -> str:
        return upstream.take(x)

    found: list[object] = []

    def work(x: int) -> None:
        try:
            found.append(request_threaded(x))
        except nt.errors.NotInRun as error:
            found.append(error)

    with ledger.run("r"):
        for target in (work, lambda x: contextvars.copy_context().run(work, x)):
            thread = threading.Thread(target=target, args=(1,))
            thread.start()
            thread.join()
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(work, 2))
        thread.start()
        thread.join()
    # A copy that is made inside the thread is a copy of nothing.
    assert [type(each) for each in found[:2]] == [nt.errors.NotInRun, nt.errors.NotInRun]
    check_ways_out(str(found[0]), "request_threaded")
    assert found[2] == "sent 1"
    assert upstream.sent == [2]


def test_after_the_block_the_run_is_over_even_for_those_who_kept_its_context(
    ledger: nt.Ledger, upstream: Upstream
) -> None:
    @nt.tool("unsafe_on_replay")
    def request_late(x: int) -> str:
        return upstream.take(x)

    with ledger.run("r"):
        kept = contextvars.copy_context()
    with pytest.raises(nt.errors.NotInRun, match="called outside a run"):
        request_late(1)
    with pytest.raises(nt.errors.NotInRun, match=r"already left run 'r'\. Nothing was sent"):
        kept.run(request_late, 1)
    assert upstream.sent == []
    assert rows(ledger) == []


# When two calls are one (L5)


def test_each_axis_of_the_identity_tells_calls_apart(ledger: nt.Ledger, upstream: Upstream) -> None:
    """Run, step, visit, tool and arguments: two calls that differ in one are two effects."""

    @nt.tool("unsafe_on_replay", name="request axis one")
    def one(x: int) -> str:
        return upstream.take(x)

    @nt.tool("unsafe_on_replay", name="request axis two")
    def two(x: int) -> str:
        return upstream.take(x)

    def calls() -> None:
        one(1)
        one(2)
        two(1)
        for name in ("a", "b"):
            for at in (None, 1, 2):
                with nt.step(name, at=at):
                    one(1)

    for run_id in ("r", "s"):
        for _ in range(2):
            with ledger.run(run_id):
                calls()
                calls()
    assert len(upstream.sent) == 2 * (3 + 6)
    found = rows(ledger, "r") + rows(ledger, "s")
    assert len({row.call_id for row in found}) == len(found) == len(upstream.sent)


def test_a_deliberate_repeat_is_one_effect_for_every_label(
    ledger: nt.Ledger, upstream: Upstream
) -> None:
    @nt.tool("unsafe_on_replay")
    def request_again(x: int) -> str:
        return upstream.take(x)

    with ledger.run("r"):
        for _ in range(2):
            assert request_again(1) == "sent 1"
            assert request_again.again("second parcel")(1) == "sent 2"
            assert request_again.again("third parcel")(x=1) == "sent 3"
    assert [row.label for row in rows(ledger)] == [None, "second parcel", "third parcel"]


@pytest.mark.parametrize("label", ["", "a\nb", "x" * 600, 7, None])
def test_a_label_that_cannot_be_kept_is_refused(
    ledger: nt.Ledger, upstream: Upstream, label: Any
) -> None:
    @nt.tool("unsafe_on_replay")
    def request_label(x: int) -> str:
        return upstream.take(x)

    with (
        ledger.run("r"),
        pytest.raises(nt.errors.InvalidId, match="The label of a deliberate repeat"),
    ):
        request_label.again(label)
    assert (upstream.sent, rows(ledger)) == ([], [])


def test_volatile_arguments_reach_the_tool_and_do_not_count(
    ledger: nt.Ledger, upstream: Upstream
) -> None:
    @nt.tool("unsafe_on_replay", volatile=("note",))
    def request_volatile(x: int, note: object) -> str:
        return upstream.take((x, note))

    with ledger.run("r"):
        client = object()
        assert request_volatile(1, client) == "sent 1"
        assert request_volatile(1, note="other words") == "sent 1"
        assert request_volatile(2, client) == "sent 2"
    assert upstream.sent == [(1, client), (2, client)]


def test_a_model_call_has_one_reply_per_step_whatever_the_prompt() -> None:
    host, prompts = Host(), []

    @nt.tool("pure", volatile="*")
    def request_model(prompt: str, temperature: float = 0.0) -> str:
        prompts.append(prompt)
        return f"reply to {prompt}"

    for prompt in ("one", "two"):
        with host.process() as ledger, ledger.run("r"):
            for turn in (1, 2):
                with nt.step("ask", at=turn):
                    reply = request_model(f"{prompt} {turn}", temperature=len(prompts))
                    assert reply == f"reply to one {turn}"
    assert prompts == ["one 1", "one 2"]


def test_arguments_that_do_not_fit_leave_no_trace(ledger: nt.Ledger, upstream: Upstream) -> None:
    @nt.tool("unsafe_on_replay")
    def request_misfit(order_id: int, cents: int) -> str:
        return upstream.take(order_id)

    wrong: Any = request_misfit
    with ledger.run("r"):
        for args in ((), (1,), (1, 2, 3), ("x", 1), (1, None)):
            with pytest.raises(nt.errors.InvalidArguments, match=r"'request_misfit' was not run"):
                wrong(*args)
    assert (upstream.sent, rows(ledger)) == ([], [])


# Methods


class Account:
    """Two instances may stand for two accounts."""

    sent: list[str]

    def __init__(self, account: object, sent: list[str]) -> None:
        self.account = account
        self.sent = sent

    @nt.tool("unsafe_on_replay", name="account-pay", bound_by=("account",))
    def pay(self, cents: int) -> str:
        self.sent.append(f"{self.account} {cents}")
        return f"paid by {self.account}"

    @nt.tool("unsafe_on_replay", name="account-ping", bound_by=())
    def ping(self, host: str = "default") -> str:
        self.sent.append(host)
        return f"pinged {host}"

    @staticmethod
    @nt.tool("unsafe_on_replay", name="account-shout")
    def shout(word: str, *, sent: list[str]) -> str:
        return word.upper()

    @classmethod
    @nt.tool("pure", name="account-kind", bound_by=("__name__",))
    def kind(cls, x: int) -> str:
        return f"{cls.__name__} {x}"

    @nt.tool("pure", name="account-balance", bound_by=("account",))
    async def balance(self, at: int) -> str:
        return f"{self.account} at {at}"


def test_a_method_must_say_what_tells_its_instances_apart() -> None:
    with pytest.raises(nt.errors.InvalidTool) as caught:

        class Refused:
            @nt.tool("unsafe_on_replay")
            def pay(self, cents: int) -> None: ...

    text = str(caught.value)
    assert "Tool 'pay' is a method and was not declared" in text
    assert "bound_by=('account',), or bound_by=() if none" in text


def test_a_function_has_no_instance_to_be_bound_by() -> None:
    with pytest.raises(nt.errors.InvalidTool, match="bound_by= is only for methods"):
        declare("pure", name="request bound function", bound_by=("account",))(lambda x: x)


def test_two_accounts_are_two_calls_and_one_account_is_one(ledger: nt.Ledger) -> None:
    sent: list[str] = []
    with ledger.run("r"):
        assert Account("ann", sent).pay(5) == "paid by ann"
        assert Account("bob", sent).pay(5) == "paid by bob"
        assert Account("ann", sent).pay(cents=5) == "paid by ann"
    assert sent == ["ann 5", "bob 5"]


def test_without_parts_that_identify_all_instances_are_one(ledger: nt.Ledger) -> None:
    sent: list[str] = []
    with ledger.run("r"):
        assert Account("ann", sent).ping("x") == "pinged x"
        assert Account("bob", sent).ping("x") == "pinged x"
    assert sent == ["x"]


class Notifier:
    @nt.tool("unsafe_on_replay", name="notifier-tell", bound_by=())
    def tell(self, number: int) -> str:
        return type(self).__name__

    @classmethod
    @nt.tool("unsafe_on_replay", name="notifier-announce", bound_by=())
    def announce(cls, number: int) -> str:
        return cls.__name__


class Mail(Notifier): ...


class Phone(Notifier): ...


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Mail().tell, Phone().tell),
        (Notifier().tell, Phone().tell),
        (Mail.announce, Phone.announce),
    ],
)
def test_two_classes_that_inherit_a_tool_do_not_get_receipts_of_each_other(
    ledger: nt.Ledger, first: Callable[[int], str], second: Callable[[int], str]
) -> None:
    with ledger.run("r"):
        said = first(7)
    with ledger.run("r"):
        assert first(7) == said
        with pytest.raises(nt.errors.InvalidArguments, match=r"and Phone inherit it") as caught:
            second(7)
        assert "bound_by=('kind',)" in str(caught.value)
        assert second(8) == "Phone"


def test_an_instance_without_the_part_or_with_an_odd_one_is_refused(ledger: nt.Ledger) -> None:
    sent: list[str] = []
    bare = Account("ann", sent)
    del bare.account
    with ledger.run("r"):
        with pytest.raises(
            nt.errors.InvalidArguments, match="bound by 'account', which its instance"
        ):
            bare.pay(5)
        with pytest.raises(
            nt.errors.NotPlainData, match="'account' that tool 'account-pay' is bound by"
        ):
            Account(object(), sent).pay(5)
    assert (sent, rows(ledger)) == ([], [])


def test_static_class_and_async_methods_are_tools_too(ledger: nt.Ledger) -> None:
    account = Account("ann", [])
    # A type checker cannot tell a static method that is looked up on an instance from a method.
    anyone: Any = account

    async def main() -> None:
        async with ledger.run("r"):
            assert Account.shout("a", sent=[]) == anyone.shout("a", sent=[]) == "A"
            assert Account.kind(1) == account.kind(1) == "Account 1"
            assert await account.balance(7) == "ann at 7"

    asyncio.run(main())
    assert len(rows(ledger)) == 3


@pytest.mark.parametrize("wrapper", [staticmethod, classmethod])
def test_the_tool_goes_under_the_static_method(wrapper: Any) -> None:
    with pytest.raises(nt.errors.InvalidTool):

        class Refused:
            @declare("pure")  # type: ignore[untyped-decorator]
            @wrapper  # type: ignore[untyped-decorator]
            def upside_down(x: int) -> int:
                return x


def test_the_receipt_of_a_method_takes_the_instance_first(ledger: nt.Ledger) -> None:
    account = Account("ann", [])
    with ledger.run("r"):
        assert Account.pay.receipt(account, 5).value == "paid by ann"
        assert Account.pay.again("once more")(account, 5) == "paid by ann"
        assert account.pay(5) == "paid by ann"
    assert account.sent == ["ann 5", "ann 5"]


def test_what_is_not_the_instance_is_never_taken_for_it(ledger: nt.Ledger) -> None:
    """``account.ping.receipt("x")`` hands over no instance, and "x" is none."""
    account: Any = Account("ann", [])
    with ledger.run("r"):
        for call in (
            lambda: account.ping.receipt("x"),
            lambda: account.ping.receipt(),
            lambda: account.ping.again("once more")("x"),
            lambda: Account.ping("x"),
        ):
            with pytest.raises(nt.errors.InvalidArguments) as caught:
                call()
            text = str(caught.value)
            assert "'account-ping' is a method and was called without its instance" in text
            assert "The tool was not run" in str(caught.value)
            assert "Account.ping.receipt(instance, ...)" in str(caught.value)
    assert (account.sent, rows(ledger)) == ([], [])


# Keys


def test_the_key_reaches_the_tool_through_the_current_call(
    ledger: nt.Ledger, upstream: Upstream
) -> None:
    @nt.tool("idempotent_with_key", key="refund-{order_id}", window="24h")
    def request_keyed(order_id: int, cents: int) -> str:
        return upstream.take(order_id)

    @nt.tool("idempotent_with_key", key=lambda order_id: f"fn-{order_id}", window="24h")
    def request_key_function(order_id: int) -> str:
        return upstream.take(order_id)

    with ledger.run("r"):
        request_keyed(order_id=7, cents=1)
        request_key_function(7)
    assert upstream.keys == ["refund-7", "fn-7"]
    assert [row.key for row in rows(ledger)] == ["refund-7", "fn-7"]


def test_a_repeat_on_purpose_has_a_key_of_its_own(ledger: nt.Ledger, upstream: Upstream) -> None:
    @nt.tool("idempotent_with_key", key="refund-{order_id}", window="24h")
    def request_key_again(order_id: int) -> str:
        return upstream.take(order_id)

    with ledger.run("r"):
        request_key_again(7)
        for label in ("second", "third"):
            request_key_again.again(label)(7)
            request_key_again.again(label)(7)
    assert len(upstream.keys) == len(set(upstream.keys)) == 3
    assert all(key is not None and key.startswith("refund-7") for key in upstream.keys)


def test_a_ready_made_key_is_one_for_each_call(ledger: nt.Ledger, upstream: Upstream) -> None:
    @nt.tool("idempotent_with_key", key=nt.key_per_call, window="24h")
    def request_key_ready(x: int) -> str:
        return upstream.take(x)

    def calls() -> None:
        request_key_ready(1)
        request_key_ready(2)
        request_key_ready.again("twice")(1)
        with nt.step("s"):
            request_key_ready(1)

    for run_id in ("r", "r", "other"):
        with ledger.run(run_id):
            calls()
    assert len(upstream.keys) == len(set(upstream.keys)) == 8
    assert [row.key for row in rows(ledger)] == [row.call_id for row in rows(ledger)]
    with pytest.raises(nt.errors.InvalidTool, match="a mark for key="):
        nt.key_per_call(x=1)


def test_one_key_with_two_different_arguments_is_an_error_before_anything_runs(
    ledger: nt.Ledger, upstream: Upstream
) -> None:
    @nt.tool("idempotent_with_key", key="refund-{order_id}", window="24h")
    def request_conflict(order_id: int, cents: int) -> str:
        return upstream.take((order_id, cents))

    with ledger.run("r"):
        request_conflict(7, 100)
    for run_id in ("r", "another"):
        with ledger.run(run_id), pytest.raises(nt.errors.KeyConflict) as caught:
            request_conflict(7, 200)
        text = str(caught.value)
        assert "'request_conflict' was called with the idempotency key 'refund-7'" in text
        assert "run 'r' already used with different arguments. Nothing was sent" in text
        assert ".again('a label')" in text
    assert upstream.sent == [(7, 100)]
    assert len(rows(ledger)) == 1
    assert rows(ledger, "another") == []
    with ledger.run("another"):
        assert request_conflict(7, 100) == "sent 2"
    assert upstream.keys == ["refund-7", "refund-7"]


@pytest.mark.parametrize(
    ("key", "told"),
    [
        (lambda x: f"k{next(_numbers)}", "gave two keys for one call"),
        (lambda x: "k" * 256, "has 256 characters"),
        (lambda x: "", "is empty"),
        (lambda x: None, "is of type NoneType"),
        (lambda x: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_a_key_that_is_not_usable_is_refused_before_anything_runs(
    ledger: nt.Ledger, upstream: Upstream, key: Any, told: str
) -> None:
    @nt.tool("idempotent_with_key", key=key, window="24h")
    def request_bad_key(x: int) -> str:
        return upstream.take(x)

    with ledger.run("r"), pytest.raises(nt.errors.InvalidKey) as caught:
        request_bad_key(1)
    assert "'request_bad_key' was not run" in str(caught.value)
    assert told in str(caught.value)
    assert (upstream.sent, rows(ledger)) == ([], [])


# Traces


def test_the_trace_of_the_caller_is_kept_with_the_row(
    ledger: nt.Ledger, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = SimpleNamespace(is_valid=True, trace_id=0xABC)
    span = SimpleNamespace(get_span_context=lambda: context)
    tracing = SimpleNamespace(get_current_span=lambda: span)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", tracing)

    @nt.tool("unsafe_on_replay")
    def request_traced(x: int) -> str:
        return upstream.take(x)

    with ledger.run("r"):
        request_traced(1)
        context.is_valid = False
        request_traced(2)
    assert [row.trace_id for row in rows(ledger)] == [f"{0xABC:032x}", None]
