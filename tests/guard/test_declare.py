"""The decorator: what it refuses (T1), and that it leaves the function what it was (E1)."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import subprocess
import sys
import threading
import typing
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import nottwice as nt
from nottwice.engine.session import current_scope
from nottwice.guard import declare as declare_module
from nottwice.guard import registry
from nottwice.model.call import CallIdentity, CallStatus
from nottwice.model.replay_class import ReplayClass
from tests.fakes import Host

declare: Any = nt.tool


# What is refused


def check_refusal(text: str, said: str) -> None:
    assert text.startswith(f"Tool 'send' {said} and was not declared.")
    for choice in ("'pure'", "'idempotent_with_key'", "'unsafe_on_replay'"):
        assert choice in text
    assert "Example: @nt.tool('unsafe_on_replay')" in text
    assert registry.find_tool("send") is None


def test_a_tool_without_a_class_is_refused_even_without_brackets() -> None:
    def send(to: str) -> str:
        return to

    attempts: list[Callable[[], object]] = [
        lambda: declare(send),
        lambda: declare()(send),
        lambda: declare(None)(send),
    ]
    for attempt in attempts:
        with pytest.raises(nt.errors.UnclassifiedTool) as caught:
            attempt()
        check_refusal(str(caught.value), "has no replay class")


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Pure", "pure"),
        ("unsafe", None),
        ("unsafe_on_reply", "unsafe_on_replay"),
        ("idempotent_with_keys", "idempotent_with_key"),
        ("idempotent-with-key", "idempotent_with_key"),
        ("", None),
        (7, None),
        (["a list"], None),
        (True, None),
    ],
)
def test_an_unknown_class_is_refused_with_the_one_that_was_meant(
    given: object, meant: str | None
) -> None:
    def send(to: str) -> str:
        return to

    with pytest.raises(nt.errors.UnclassifiedTool) as caught:
        declare(given)(send)
    check_refusal(str(caught.value), f"has the unknown replay class {given!r}")
    assert ("Did you mean" in str(caught.value)) == (meant is not None)
    assert meant is None or f"Did you mean {meant!r}?" in str(caught.value)


@pytest.mark.parametrize("thing", [7, "send", None, classmethod(print)])
def test_only_functions_can_be_protected(thing: object) -> None:
    with pytest.raises(nt.errors.InvalidTool, match="protects functions"):
        declare("pure", name="declare thing")(thing)


def test_a_tool_that_yields_is_refused_because_it_works_after_its_receipt() -> None:
    def stream(to: str) -> Any:
        yield to

    async def stream_async(to: str) -> Any:
        yield to

    for each in (stream, stream_async):
        with pytest.raises(nt.errors.InvalidTool, match="it yields"):
            declare("unsafe_on_replay")(each)


def test_what_yields_behind_a_wrapper_or_an_object_is_refused_too() -> None:
    def stream(to: str) -> Any:
        yield to

    @wraps(stream)
    def wrapped(*args: Any) -> Any:
        return stream(*args)

    class Streams:
        def __call__(self, to: str) -> Any:
            yield to

    class StreamsAsync:
        async def __call__(self, to: str) -> Any:
            yield to

    for each in (wrapped, partial(stream), Streams(), StreamsAsync(), partial(Streams())):
        with pytest.raises(nt.errors.InvalidTool, match="it yields"):
            declare("unsafe_on_replay", name="declare stream")(each)


def test_an_async_function_around_a_generator_may_return_what_it_collected() -> None:
    async def stream(to: str) -> Any:
        yield to

    @wraps(stream)
    async def declare_collected(to: str) -> Any:
        return [each async for each in stream(to)]

    assert declare("pure")(declare_collected).tool.is_async


def test_a_tool_is_protected_once() -> None:
    @nt.tool("unsafe_on_replay")
    def declared_once(to: str) -> str:
        return to

    with pytest.raises(nt.errors.InvalidTool, match="is already declared"):
        declare("pure")(declared_once)


@pytest.mark.parametrize("name", ["", " \n", "a\x1bb", "x" * 1_000_000, 7])
def test_a_name_that_cannot_be_kept_is_refused(name: object) -> None:
    with pytest.raises(nt.errors.InvalidId, match="The tool's name"):
        declare("pure", name=name)(lambda: None)


# What stays as it was


def is_real_function(value: object) -> bool:
    return inspect.isfunction(value)


def test_a_protected_function_is_a_real_function() -> None:
    def refund(order_id: int, cents: int = 5, *, note: str | None = None) -> dict[str, int]:
        """Give money back."""
        return {"cents": cents}

    protected = declare("unsafe_on_replay")(refund)
    assert is_real_function(protected)
    assert inspect.signature(protected) == inspect.signature(refund)
    assert get_type_hints(protected) == get_type_hints(refund)
    assert inspect.getdoc(protected) == "Give money back."
    assert (protected.__name__, protected.__module__) == ("refund", __name__)
    assert protected.__qualname__ == refund.__qualname__
    assert inspect.unwrap(protected) is refund
    assert protected.fn is refund
    assert not inspect.iscoroutinefunction(protected)


def test_sync_stays_sync_and_async_stays_async() -> None:
    @nt.tool("pure")
    async def declare_async(x: int) -> int:
        return x

    assert is_real_function(declare_async)
    assert inspect.iscoroutinefunction(declare_async)
    assert inspect.iscoroutinefunction(declare_async.again("once more"))
    assert asyncio.run(declare_async.fn(3)) == 3
    assert declare_async.tool.is_async


def test_an_object_with_an_async_call_is_an_async_tool() -> None:
    host = Host()

    class Send:
        async def __call__(self, to: str) -> str:
            return to

    plain = declare("unsafe_on_replay", name="declare send")(Send())
    bound = declare("unsafe_on_replay", name="declare send a")(partial(Send(), "a"))

    async def work() -> list[str]:
        with host.process() as ledger:
            async with ledger.run("r"):
                return [await plain("b"), await bound()]

    assert asyncio.run(work()) == ["b", "a"]


def test_the_class_may_be_given_as_a_member() -> None:
    made = declare(ReplayClass.PURE, name="declare member")(lambda: None)
    assert made.tool.replay_class is ReplayClass.PURE


def test_the_bare_function_needs_no_run() -> None:
    @nt.tool("unsafe_on_replay")
    def declare_bare(x: int) -> int:
        return x + 1

    assert declare_bare.fn(1) == 2


# Calling it


def test_a_receipt_says_what_happened_and_whether_it_was_now() -> None:
    host = Host()

    @nt.tool("unsafe_on_replay")
    def declare_receipt(x: int) -> str:
        return f"done {nt.current_call().id}"

    with host.process() as ledger, ledger.run("r"):
        first, again = declare_receipt.receipt(1), declare_receipt.receipt(x=1)
    with host.process() as ledger, ledger.run("r"):
        later = declare_receipt.receipt(1)
    assert (first.replayed, again.replayed, later.replayed) == (False, True, True)
    assert len({(each.id, each.value, each.attempts) for each in (first, again, later)}) == 1
    assert first.value == f"done {first.id}"
    assert (first.tool, first.attempts, first.settled_by) == ("declare_receipt", 1, None)


def test_an_async_tool_gives_receipts_repeats_and_retries_too() -> None:
    fired: list[int] = []

    @nt.tool("unsafe_on_replay")
    async def declare_async_calls(x: int) -> int:
        fired.append(x)
        if x < 0 and len(fired) < 4:
            raise nt.Permanent("not yet")
        return x

    async def main() -> None:
        async with nt.Ledger(":memory:").run("r"):
            assert await declare_async_calls(1) == 1
            assert (await declare_async_calls.receipt(1)).replayed
            assert await declare_async_calls.again("second parcel")(1) == 1
            with pytest.raises(nt.Permanent, match="took no effect: not yet"):
                await declare_async_calls(-1)
            assert await declare_async_calls.retry(-1) == -1

    asyncio.run(main())
    assert fired == [1, 1, -1, -1]


def test_a_failure_keeps_its_cause_when_it_is_live() -> None:
    @nt.tool("pure")
    def declare_cause(x: int) -> int:
        raise ValueError("wrong")

    with nt.Ledger(":memory:").run("r"):
        with pytest.raises(nt.Permanent, match="ValueError: wrong") as caught:
            declare_cause(1)
        assert isinstance(caught.value.__cause__, ValueError)
        with pytest.raises(nt.Permanent, match="ValueError: wrong") as caught:
            declare_cause(1)
        assert caught.value.__cause__ is None


def test_a_run_that_waits_for_a_person_is_no_failure_of_the_pure_tool_around() -> None:
    """Otherwise the outer tool would hand out a failure forever, whatever was decided."""
    host = Host()

    @nt.tool("unsafe_on_replay")
    def declare_inner(x: int) -> int:
        raise TimeoutError

    @nt.tool("pure")
    def declare_outer(x: int) -> int:
        return declare_inner(x)

    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayUnsafeError):
        declare_outer(1)
    assert [row.identity.tool_name for row in host.calls] == ["declare_inner"]


# A waiter that is cancelled


async def start(ledger: nt.Ledger, call: Callable[[], Any], began: asyncio.Event) -> bool:
    """Wait for the call inside a run, and cancel the waiting once the tool has begun."""
    async with ledger.run("r"):
        waiting = asyncio.ensure_future(call())
        await began.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return True


def test_cancelling_the_waiter_does_not_cancel_the_effect() -> None:
    host, ended = Host(), []

    async def main() -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        @nt.tool("unsafe_on_replay")
        async def declare_cancelled(x: int) -> str:
            began.set()
            await go_on.wait()
            ended.append(x)
            return "done"

        with host.process() as ledger:
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            assert await start(ledger, partial(declare_cancelled, 1), began)
            async with ledger.run("r"):
                assert (await declare_cancelled.receipt(1)).replayed

    asyncio.run(main())
    assert ended == [1]
    assert [row.status for row in host.calls] == [CallStatus.DONE]


def test_the_error_of_a_call_without_a_waiter_is_logged_on_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    host = Host()

    async def main() -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        @nt.tool("unsafe_on_replay")
        async def declare_unseen(x: int) -> str:
            began.set()
            await go_on.wait()
            raise nt.Permanent("first line\nsecond line")

        with host.process() as ledger:
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            await start(ledger, partial(declare_unseen, 1), began)

    with caplog.at_level(logging.WARNING, logger="nottwice"):
        asyncio.run(main())
    (line,) = [each for each in caplog.messages if "whose waiter was cancelled" in each]
    assert "first line\\nsecond line" in line
    assert "\n" not in line


# A call that waits for itself (D13)


def in_thread(function: Callable[[], object]) -> list[object]:
    """Run in a thread of its own, in this context; what it returned or raised."""
    found: list[object] = []

    def work() -> None:
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = started(work)
    thread.join(timeout=10)
    assert not thread.is_alive(), "it hangs"
    return found


def test_a_tool_that_calls_itself_with_the_same_arguments_is_refused() -> None:
    @nt.tool("pure")
    def declare_self(x: int) -> int:
        return declare_self(x)

    with nt.Ledger(":memory:").run("r"), pytest.raises(nt.errors.SelfWait) as caught:
        declare_self(1)
    assert "would wait for itself. The inner call was not made." in str(caught.value)
    assert ".again('a label')" in str(caught.value)


def test_recursion_with_other_arguments_is_welcome() -> None:
    @nt.tool("pure")
    def declare_recursive(x: int) -> int:
        return x * declare_recursive(x - 1) if x else 1

    with nt.Ledger(":memory:").run("r"):
        assert declare_recursive(5) == 120


def test_an_effect_that_waits_for_itself_sees_the_refusal_and_may_continue() -> None:
    refused: list[str] = []

    @nt.tool("unsafe_on_replay")
    def declare_selfish(x: int) -> str:
        try:
            return declare_selfish(x)
        except nt.errors.SelfWait as error:
            refused.append(str(error))
            return "alone"

    with nt.Ledger(":memory:").run("r"):
        assert declare_selfish(1) == "alone"
    assert len(refused) == 1


def test_a_call_that_waits_for_itself_through_a_thread_is_refused() -> None:
    found: list[object] = []

    @nt.tool("unsafe_on_replay")
    def declare_threaded(x: int) -> str:
        found.extend(in_thread(lambda: declare_threaded(x)))
        return "done"

    with nt.Ledger(":memory:").run("r"):
        assert declare_threaded(1) == "done"
    assert [type(each) for each in found] == [nt.errors.SelfWait]


def test_a_call_that_waits_for_itself_through_a_task_is_refused() -> None:
    @nt.tool("pure")
    async def declare_task(x: int) -> int:
        return await asyncio.create_task(_as_coroutine(declare_task(x)))

    async def main() -> None:
        async with nt.Ledger(":memory:").run("r"):
            with pytest.raises(nt.errors.SelfWait):
                await asyncio.wait_for(declare_task(1), timeout=10)

    asyncio.run(main())


async def _as_coroutine(awaitable: Any) -> Any:
    return await awaitable


@pytest.mark.parametrize("between", [0, 1, 2])
def test_tools_that_wait_for_each_other_are_refused_however_long_the_circle(between: int) -> None:
    """One tool waits, maybe through tools between, for another that waits for the first."""
    both_run = threading.Barrier(2, timeout=10)
    refused: list[str] = []

    @nt.tool("pure")
    def declare_left(x: int) -> object:
        both_run.wait()
        return unless_refused("left", lambda: declare_between(between))

    @nt.tool("pure")
    def declare_between(n: int) -> object:
        return declare_between(n - 1) if n else declare_right(0)

    @nt.tool("pure")
    def declare_right(x: int) -> object:
        both_run.wait()
        return unless_refused("right", lambda: declare_left(0))

    def unless_refused(who: str, call: Callable[[], object]) -> object:
        try:
            return call()
        except nt.errors.SelfWait:
            refused.append(who)
            return None

    with nt.Ledger(":memory:").run("r"):
        left = started(lambda: declare_left(0))
        in_thread(lambda: declare_right(0))
        left.join(timeout=10)
        assert not left.is_alive(), "it hangs"
    assert len(refused) == 1


def started(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=contextvars.copy_context().run, args=(function,), daemon=True)
    thread.start()
    return thread


def test_two_waits_of_one_call_at_once_are_both_remembered() -> None:
    """A tool waits in two threads; when one wait has ended, the other still makes a circle."""
    with nt.Ledger(":memory:").run("r"):
        scope = current_scope.get()
        assert scope is not None
        session = scope.session
        waits, slow, quick = (
            session.in_flight.enter(CallIdentity("r", "/", "start", name, "0"), None)[0]
            for name in ("waits", "slow", "quick")
        )
        session.in_flight.enter(slow.identity, waits)
        over, _ = session.in_flight.enter(quick.identity, waits)
        session.in_flight.stop_waiting(over)
        with pytest.raises(nt.errors.SelfWait):
            session.in_flight.enter(waits.identity, slow)
        session.in_flight.enter(waits.identity, quick)
        for each in (waits, slow, quick):
            session.in_flight.leave(each)


UNKNOWN_CLASS = "import nottwice as nt\n\n@nt.tool('unsafe')\ndef pay(x: int) -> None: ...\n"
CALLED = "import nottwice as nt\n\n@nt.tool('pure')\ndef pay(x: int) -> None: ...\n\n"


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (UNKNOWN_CLASS, "UnclassifiedTool: Tool 'pay' has the unknown replay class 'unsafe'"),
        (UNKNOWN_CLASS.replace("'unsafe'", "'pure', windw=1"), "InvalidTool: Tool 'pay' was not"),
        (CALLED + "pay(1)\n", "NotInRun: Tool 'pay' was called outside a run"),
        (
            CALLED + "with nt.Ledger(':memory:').run('r'):\n    pay('x')\n",
            "InvalidArguments: Tool 'pay'",
        ),
    ],
)
def test_the_users_line_and_one_of_ours_stand_above_the_sentence_that_helps(
    program: str, says: str, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_text(program)
    words = [sys.executable, "agent.py"]
    ended = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    frames = [line for line in ended.stderr.splitlines() if line.startswith("  File ")]
    assert len(frames) == 2, ended.stderr
    assert "agent.py" in frames[0]
    assert "During handling" not in ended.stderr
    assert says in ended.stderr


def test_help_shows_every_option_with_its_meaning() -> None:
    options = list(inspect.signature(nt.tool).parameters.values())
    assert options[0].name == "replay_class"
    assert all(option.kind is inspect.Parameter.KEYWORD_ONLY for option in options[1:])
    declared = {
        name
        for variant in typing.get_overloads(declare_module.tool)
        for name in inspect.signature(variant).parameters
    }
    assert {option.name for option in options} == declared
    for option in options:
        assert f" {option.name}: " in (nt.tool.__doc__ or "") or option.name == "replay_class"
