"""Sync and async do the same; waiters come and go, effects stay."""

from __future__ import annotations

import asyncio
import threading

import pytest

import nottwice as nt
from nottwice.engine.asks import Apart, Doing, Pause
from nottwice.engine.drivers import drive_async
from nottwice.model.call import CallStatus
from nottwice.model.review import ReviewStatus
from nottwice.model.run import RunStatus
from tests.fakes import Host


def test_an_attempt_past_its_time_limit_is_in_doubt_and_keeps_the_run(host: Host) -> None:
    may_end, ended = threading.Event(), threading.Event()

    @nt.tool("unsafe_on_replay", time_limit="50ms")
    def slow(to: str) -> str:
        may_end.wait(30)
        return "late"

    with host.process() as ledger:
        with ledger.run("r"):
            with pytest.raises(nt.errors.ReplayUnsafeError, match="still running"):
                slow("a")
            (row,) = host.calls
            assert row.status is CallStatus.PENDING
            (review,) = host.open_reviews
            may_end.set()
            assert slow("a") == "late"
            ended.set()
        assert ended.is_set()
        (row,) = host.calls
        assert row.status is CallStatus.DONE
        assert host.data.reviews[review.review_id].status is ReviewStatus.CLOSED
        assert host.data.runs["r"].status is RunStatus.COMPLETED


def test_leaving_the_block_waits_for_an_attempt_that_still_runs(host: Host) -> None:
    may_end = threading.Event()

    @nt.tool("unsafe_on_replay", time_limit="50ms")
    def slow(to: str) -> str:
        may_end.wait(30)
        return "late"

    with host.process() as ledger:
        block = ledger.run("r")
        block.__enter__()
        with pytest.raises(nt.errors.ReplayUnsafeError):
            slow("a")
        threading.Timer(0.1, may_end.set).start()
        block.__exit__(None, None, None)
        (row,) = host.calls
        assert row.status is CallStatus.DONE
        assert host.data.runs["r"].holder_id is None


def test_a_cancelled_waiter_does_not_cancel_the_effect(host: Host) -> None:
    async def main() -> None:
        begun, may_end = asyncio.Event(), asyncio.Event()

        @nt.tool("unsafe_on_replay")
        async def send(to: str) -> str:
            begun.set()
            await may_end.wait()
            return "sent"

        with host.process() as ledger:
            async with ledger.run("r"):
                waiter = asyncio.ensure_future(send("a"))
                await begun.wait()
                waiter.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiter
                assert [row.status for row in host.calls] == [CallStatus.PENDING]
                asyncio.get_running_loop().call_later(0.05, may_end.set)
            assert [row.status for row in host.calls] == [CallStatus.DONE]
            assert host.data.runs["r"].holder_id is None

    asyncio.run(main())


def test_a_waiter_cancelled_before_the_intent_leaves_nothing(host: Host) -> None:
    async def main() -> None:
        sent: list[str] = []

        @nt.tool("unsafe_on_replay")
        async def send(to: str) -> str:
            sent.append(to)
            return "sent"

        with host.process() as ledger:
            async with ledger.run("r"):
                waiter = asyncio.ensure_future(send("a"))
                waiter.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiter
        assert (sent, host.calls) == ([], [])

    asyncio.run(main())


def test_an_async_tool_past_its_time_limit_is_in_doubt(host: Host) -> None:
    async def main() -> None:
        @nt.tool("unsafe_on_replay", time_limit="20ms")
        async def slow(to: str) -> str:
            await asyncio.sleep(30)
            return "never"

        with host.process() as ledger:
            async with ledger.run("r"):
                with pytest.raises(nt.errors.ReplayUnsafeError):
                    await slow("a")
        assert [row.status for row in host.calls] == [CallStatus.UNKNOWN]

    asyncio.run(main())


def test_a_hanging_verify_ends_in_a_review(host: Host) -> None:
    may_end = threading.Event()

    def verify(call: nt.Call) -> nt.Verification:
        may_end.wait(30)
        return nt.cannot_tell()

    @nt.tool("unsafe_on_replay", verify=verify, verify_limit="50ms")
    def send(to: str) -> str:
        raise TimeoutError

    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.ReplayUnsafeError, match="took longer than"):
            send("a")
    may_end.set()


def test_an_async_tool_in_doubt_is_reconciled_by_a_sync_block(host: Host) -> None:
    """Without a running loop the sync driver brings one along."""
    effects: list[str] = []

    @nt.tool("idempotent_with_key", key="k-{to}", window="1h")
    async def send(to: str) -> str:
        effects.append(to)
        return "sent"

    async def main(dies_at: int | None) -> None:
        with host.process(dies_at=dies_at) as ledger:
            async with ledger.run("r"):
                await send("a")

    asyncio.run(main(5))
    with host.process() as ledger, ledger.run("r"):
        assert effects == ["a", "a"]
        assert [row.status for row in host.calls] == [CallStatus.DONE]


def test_an_async_tool_in_doubt_waits_for_its_caller_in_a_running_loop(host: Host) -> None:
    effects: list[str] = []

    @nt.tool("idempotent_with_key", key="k-{to}", window="1h")
    async def send(to: str) -> str:
        effects.append(to)
        return "sent"

    async def main(dies_at: int | None) -> None:
        with host.process(dies_at=dies_at) as ledger, ledger.run("r"):
            await send("a")

    asyncio.run(main(5))
    asyncio.run(main(None))
    assert effects == ["a", "a"]
    assert [row.status for row in host.calls] == [CallStatus.DONE]


def test_two_threads_that_ask_for_one_call_share_one_attempt(host: Host) -> None:
    import contextvars

    begun, may_end = threading.Event(), threading.Event()
    effects: list[str] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        effects.append(to)
        begun.set()
        may_end.wait(30)
        return "sent"

    receipts: list[nt.types.Receipt[str]] = []
    with host.process() as ledger, ledger.run("r"):
        threads = [
            threading.Thread(
                target=contextvars.copy_context().run,
                args=(lambda: receipts.append(send.receipt("a")),),
            )
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        begun.wait(30)
        may_end.set()
        for thread in threads:
            thread.join()
    assert effects == ["a"]
    assert sorted(receipt.replayed for receipt in receipts) == [False, True, True]


def test_a_pure_tool_past_its_time_limit_has_failed_and_may_be_tried_again(host: Host) -> None:
    may_end = threading.Event()
    tries: list[int] = []

    @nt.tool("pure", time_limit="30ms", retry=nt.RetryPolicy(attempts=2))
    def slow(x: int) -> str:
        tries.append(x)
        may_end.wait(30)
        return "late"

    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.Retryable, match="time limit"):
            slow(1)
    may_end.set()
    assert tries == [1, 1]
    assert host.open_reviews == []


def test_what_ends_a_loop_is_not_raised_again_while_the_loop_ends_its_tasks(host: Host) -> None:
    """asyncio raises an interrupt or an exit once, and then lets all tasks end. Raised by a task
    that waits for the one that was interrupted, it would cut short how the others end."""

    def interrupted() -> Doing[None]:
        yield Pause(0.0)
        raise SystemExit

    def waits() -> Doing[None]:
        yield Apart(interrupted())

    runner = asyncio.Runner()
    with host.process() as ledger:
        with pytest.raises(SystemExit):
            runner.run(drive_async(waits(), ledger.host))
        runner.close()


@pytest.mark.parametrize("limit", [None, "10s"])
def test_a_coroutine_from_an_effectful_sync_tool_leaves_the_call_in_doubt(
    host: Host, limit: str | None
) -> None:
    sent: list[str] = []

    async def rest() -> str:
        return "never"

    @nt.tool("unsafe_on_replay", time_limit=limit)
    def send(to: str) -> object:
        sent.append(to)
        return rest()

    with host.process() as ledger, ledger.run("r"):
        for act in (send, send.retry):
            with pytest.raises(nt.errors.ReplayUnsafeError, match="declare the tool with async"):
                act("a")
    assert sent == ["a"]
    assert [row.status for row in host.calls] == [CallStatus.UNKNOWN]


def test_a_coroutine_from_a_pure_sync_tool_is_a_failure(host: Host) -> None:
    async def rest() -> str:
        return "never"

    @nt.tool("pure")
    def look(at: str) -> object:
        return rest()

    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.Permanent, match="declare the tool with async def"):
            look("a")
