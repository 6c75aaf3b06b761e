"""Ways in which an effect was once done twice or a result lost, each as the attack it was."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.errors import StoreError
from nottwice.guard.registry import find_tool
from nottwice.model import values
from nottwice.model.call import CallStatus, ResultKind
from nottwice.reviews.recheck import recheck
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryStore
from nottwice.testing import forget_tools
from tests.fakes import Host, MortalStore

AFTER_THE_INTENT, AFTER_THE_EFFECT = 4, 5


def test_an_attempt_that_outlives_the_opening_of_its_run_keeps_the_run(host: Host) -> None:
    may_end = threading.Event()
    paid: list[int] = []

    @nt.tool(
        "unsafe_on_replay",
        verify=lambda call: nt.did_not_happen(),
        settles="1s",
        time_limit="50ms",
    )
    def settle_bill(order: int) -> str:
        may_end.wait(30)
        paid.append(order)
        return "paid"

    may_end.set()
    with host.process(dies_at=AFTER_THE_INTENT) as ledger, ledger.run("r"):
        settle_bill(1)
    may_end.clear()
    with host.process() as ledger:
        with pytest.raises(nt.errors.ReplayUnsafeError, match="still running"), ledger.run("r"):
            raise AssertionError("user code must not run")
        with pytest.raises(nt.RunBusy), ledger.run("r"):
            raise AssertionError("the attempt still runs")
        may_end.set()
        with ledger.run("r", acquire_timeout="10000s"):
            assert settle_bill(1) == "paid"
    assert paid == [1]


def test_a_thread_whose_waiter_was_cancelled_is_not_taken_for_over(host: Host) -> None:
    """Every task is cancelled while a sync tool is tried again in a thread."""
    may_end, begun = threading.Event(), threading.Event()
    paid: list[int] = []

    @nt.tool("unsafe_on_replay", verify=lambda call: nt.did_not_happen(), settles="1s")
    def settle_bill(order: int) -> str:
        begun.set()
        may_end.wait(30)
        paid.append(order)
        return "paid"

    with host.process(dies_at=AFTER_THE_INTENT) as ledger, ledger.run("r"):
        settle_bill(1)

    async def opened_and_cancelled(ledger: nt.Ledger) -> None:
        async def enter() -> None:
            async with ledger.run("r"):
                raise AssertionError("it was cancelled before")

        opening = asyncio.ensure_future(enter())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        with pytest.raises((asyncio.CancelledError, nt.RunBlocked)):
            await opening

    begun.clear()
    with host.process() as ledger:
        threading.Timer(1.0, may_end.set).start()
        asyncio.run(opened_and_cancelled(ledger))
        with ledger.run("r"):
            assert settle_bill(1) == "paid"
    assert paid == [1]


class SometimesFull(MemoryStore):
    """A store on a disk that is full for a while."""

    is_full = False

    def commit(self, commit: Commit) -> None:
        if self.is_full:
            raise StoreError("The disk is full. Nothing was written.")
        super().commit(commit)


def cancel_everything() -> None:
    """What ``asyncio.run`` does with all tasks when its own has ended."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


@pytest.mark.parametrize("translates", [False, True], ids=["cancelled", "raises its own error"])
@pytest.mark.parametrize("record", ["written", "lost"])
def test_a_thread_that_a_cancelled_async_tool_started_is_not_taken_for_over(
    host: Host, translates: bool, record: str
) -> None:
    """The task of the call is cancelled; the thread that its body awaited applies it later.

    The error that left the body may be the author's own, and the ledger may be away just then.
    """
    may_end, begun = threading.Event(), threading.Event()
    paid: list[int] = []

    def pay(order: int) -> str:
        begun.set()
        may_end.wait(30)
        paid.append(order)
        return "paid"

    def look(call: nt.Call) -> nt.Verification:
        return nt.happened("paid") if paid else nt.did_not_happen()

    @nt.tool("unsafe_on_replay", verify=look, settles="1s")
    async def settle_bill(order: int) -> str:
        try:
            return await asyncio.to_thread(pay, order)
        except asyncio.CancelledError:
            if translates:
                raise OSError("connection closed") from None
            raise

    store = SometimesFull(host.data, now=host.clock.now())
    ledger = nt.Ledger(store, clock=host.clock)

    async def cancelled_while_it_pays() -> None:
        async with ledger.run("r"):
            call = asyncio.ensure_future(settle_bill(1))
            while not begun.is_set():
                await asyncio.sleep(0.01)
            store.is_full = record == "lost"
            cancel_everything()
            await call

    async def main() -> None:
        with pytest.raises((asyncio.CancelledError, nt.RunBlocked, StoreError)):
            await cancelled_while_it_pays()
        store.is_full = False
        host.clock.advance(3600)
        begun.clear()
        with pytest.raises(nt.errors.ReplayUnsafeError):
            async with ledger.run("r"):
                await settle_bill(1)
        assert not begun.is_set()
        may_end.set()

    asyncio.run(main())
    assert paid == [1]
    with ledger.run("r"):
        pass
    assert [row.status for row in host.calls] == [CallStatus.DONE]


def test_calls_inside_a_reissued_tool_belong_to_where_it_was_called(host: Host) -> None:
    mailed: list[str] = []

    @nt.tool("unsafe_on_replay")
    def mail(to: str) -> str:
        mailed.append(to)
        return "mailed"

    @nt.tool("idempotent_with_key", key="close-{order}", window="24h")
    def close(order: int) -> str:
        mail(f"customer {order}")
        return "closed"

    # The inner intent and result are points 5 to 8; the outer result begins at 9.
    with host.process(dies_at=9) as ledger, ledger.run("r"), nt.step("work"):
        close(7)
    assert mailed == ["customer 7"]
    with host.process() as ledger, ledger.run("outer"), ledger.run("r"):
        with nt.step("work"):
            assert close(7) == "closed"
    assert mailed == ["customer 7"]
    assert {row.identity.workflow_id for row in host.calls} == {"r"}
    assert {row.identity.node_id for row in host.calls} == {"work"}


def test_items_that_changed_places_are_noticed_before_the_second_effect(host: Host) -> None:
    paid: list[str] = []

    @nt.tool("unsafe_on_replay")
    def settle_bill(who: str) -> str:
        paid.append(who)
        return who

    def body(items: list[str], crash: bool) -> None:
        with nt.step("all"):
            nt.map(settle_bill, items, threads=1)
            if crash:
                raise RuntimeError

    with host.process() as ledger, pytest.raises(RuntimeError), ledger.run("r"):
        body(["ann", "bob"], crash=True)
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayDriftError):
        body(["bob", "ann"], crash=False)
    assert paid == ["ann", "bob"]


def test_what_verify_found_but_cannot_be_kept_is_no_receipt_of_a_note(host: Host) -> None:
    answers = [nt.cannot_tell(), nt.happened({"when": object()})]

    @nt.tool("unsafe_on_replay", verify=lambda call: answers.pop(0))
    def refund(order: int) -> dict[str, object]:
        raise TimeoutError

    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayUnsafeError):
        refund(7)
    (found,) = recheck(nt.Ledger(MemoryStore(host.data), clock=host.clock).host, find_tool)
    assert found.resolved
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ResultNotKept):
        refund(7)
    (row,) = host.calls
    assert row.result is not None
    assert row.result.kind is ResultKind.NOT_KEPT


def test_a_pending_pure_row_never_refuses_the_receipt_of_an_effect(host: Host) -> None:
    """The pure result cannot be kept, so it is computed again while an older one is on its way."""

    @nt.tool("pure")
    def look(x: int) -> object:
        return object()

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        look(1)
        return to

    with host.process() as ledger, ledger.run("r"):
        whole = ledger.store.commit

        def slow(commit: Commit) -> None:
            if any(write.row.identity.tool_name == "look" for write in commit.calls):
                ledger.store.commit = whole  # type: ignore[method-assign]
                look(1)
            whole(commit)

        look(1)
        ledger.store.commit = slow  # type: ignore[method-assign]
        for number in range(5):
            assert send(str(number)) == str(number)


def test_an_outcome_that_could_not_be_written_is_written_on_leaving(host: Host) -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        sent.append(to)
        full.append(True)
        return "sent"

    full: list[bool] = []

    class SometimesFull(MortalStore):
        def commit(self, commit: Commit) -> None:
            if full and full.pop():
                raise StoreError("disk full")
            super().commit(commit)

    store = SometimesFull(host.data)
    with nt.Ledger(store, clock=host.clock) as ledger, pytest.raises(StoreError), ledger.run("r"):
        send("ann")
    with host.process() as ledger, ledger.run("r"):
        assert send("ann") == "sent"
    assert sent == ["ann"]


def test_a_later_attempt_sends_what_the_first_one_recorded(host: Host) -> None:
    seen: list[list[str]] = []

    @nt.tool("unsafe_on_replay")
    def send(to: list[str]) -> str:
        seen.append(list(to))
        to.pop()
        if len(seen) == 1:
            raise nt.Retryable("busy")
        return "sent"

    warned = pytest.warns(RuntimeWarning, match="changed its argument to")
    with host.process() as ledger, ledger.run("r"), warned:
        send(["a", "b"])
    assert seen == [["a", "b"], ["a", "b"]]


def test_an_async_call_sends_what_was_asked_for_not_what_became_of_it(host: Host) -> None:
    seen: list[dict[str, int]] = []

    @nt.tool("unsafe_on_replay")
    async def send(order: dict[str, int]) -> str:
        seen.append(dict(order))
        return "sent"

    async def main() -> None:
        with host.process() as ledger:
            async with ledger.run("r"):
                order = {"cents": 100}
                call = asyncio.ensure_future(send(order))
                await asyncio.sleep(0)
                order["cents"] = 999
                await call

    asyncio.run(main())
    (row,) = host.calls
    assert seen == [values.decode(row.args_json)["order"]]


def test_a_reissue_after_a_changed_default_sends_the_old_one(host: Host) -> None:
    seen: list[int] = []

    def declare(default: int) -> object:
        @nt.tool("idempotent_with_key", key="pay-{order}", window="24h")
        def settle_bill(order: int, cents: int = default) -> str:
            seen.append(cents)
            return "paid"

        return settle_bill

    settle_bill = declare(500)
    with host.process(dies_at=AFTER_THE_EFFECT) as ledger, ledger.run("r"):
        settle_bill(1)  # type: ignore[operator]
    forget_tools()
    settle_bill = declare(9900)
    with host.process() as ledger, ledger.run("r"):
        settle_bill(1)  # type: ignore[operator]
    assert set(seen) == {500}


def test_a_pure_result_that_no_longer_fits_is_computed_again(host: Host) -> None:
    from dataclasses import dataclass

    @dataclass
    class Order:
        cents: int

    @nt.tool("pure", name="get_order")
    def before(order: int) -> Order:
        return Order(1)

    with host.process() as ledger, ledger.run("r"):
        before(1)
    forget_tools()

    @nt.tool("pure", name="get_order")
    def after(order: int) -> int:
        return 7

    with host.process() as ledger, ledger.run("r"):
        assert after(1) == 7


def test_a_ledger_that_was_deleted_in_use_takes_no_more_commits(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    sent: list[str] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        sent.append(to)
        return to

    with pytest.raises(StoreError, match="deleted or replaced"), nt.run("r", store=path):
        send("ann")
        path.unlink()
        send("bob")
    assert sent == ["ann"]


def test_a_file_of_two_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    nt.Ledger(path).close()
    (tmp_path / "other.db").hardlink_to(path)
    with pytest.raises(nt.errors.UnsafeFilesystem, match="hard links"):
        nt.Ledger(path)


def test_arguments_that_are_endless_as_json_are_refused_quickly(host: Host) -> None:
    @nt.tool("unsafe_on_replay")
    def send(what: list[object]) -> str:
        raise AssertionError("nothing may be sent")

    endless: list[object] = ["x"]
    for _ in range(100):
        endless = [endless, endless]
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.NotPlainData, match="more than 1,000,000 items"):
            send(endless)
    assert host.calls == []
