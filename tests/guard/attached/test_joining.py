"""Many parts of one process share a run, which is released soon after the last one (P241)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.adapters import declare
from nottwice.guard.attached import joining
from tests.fakes import FakeClock, Host, dying, unwanted

CHARGE = declare("pay/charge", replay="unsafe_on_replay")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def ledger(clock: FakeClock) -> nt.Ledger:
    return nt.Ledger(":memory:", clock=clock)


def is_held(ledger: nt.Ledger, run_id: str = "r") -> bool:
    run = ledger.store.load_run(run_id)
    assert run is not None
    return run.holder_id is not None


def in_threads(number: int, work: Callable[[int], Any]) -> list[Any]:
    """What each thread returned; all of them are at work at the same time."""
    together = threading.Barrier(number)
    found: list[Any] = [None] * number

    def one(index: int) -> None:
        together.wait()
        try:
            found[index] = work(index)
        except BaseException as error:
            found[index] = error

    threads = [threading.Thread(target=one, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_threads_share_one_claim_of_a_run(ledger: nt.Ledger) -> None:
    def work(index: int) -> Any:
        with ledger.attach("r") as handle:
            return handle.call(CHARGE, {"number": index}, lambda a: a["number"]).value

    assert in_threads(12, work) == list(range(12))
    assert ledger.run_record("r").opened == 1


def test_threads_that_ask_for_the_same_effect_make_it_once(ledger: nt.Ledger) -> None:
    made: list[int] = []

    def work(index: int) -> Any:
        with ledger.attach("r") as handle:
            return handle.call(CHARGE, {}, lambda _: made.append(index)).receipt_id

    assert len(set(in_threads(12, work))) == 1
    assert len(made) == 1


def test_tasks_share_one_claim_of_a_run(ledger: nt.Ledger) -> None:
    async def work(index: int) -> Any:
        async with ledger.attach("r") as handle:
            return (await handle.acall(CHARGE, {"number": index}, lambda a: a["number"])).value

    async def main() -> list[Any]:
        return await asyncio.gather(*map(work, range(12)))

    assert asyncio.run(main()) == list(range(12))
    assert ledger.run_record("r").opened == 1


def test_threads_and_two_event_loops_share_a_run(ledger: nt.Ledger) -> None:
    async def in_loop(index: int) -> Any:
        async with ledger.attach("r") as handle:
            return (await handle.acall(CHARGE, {"number": index}, lambda a: a["number"])).value

    def work(index: int) -> Any:
        if index % 2:
            return asyncio.run(in_loop(index))
        with ledger.attach("r") as handle:
            return handle.call(CHARGE, {"number": index}, lambda a: a["number"]).value

    assert in_threads(4, work) == list(range(4))
    assert ledger.run_record("r").opened == 1


def test_a_run_is_released_a_little_after_the_last_part_has_left(
    ledger: nt.Ledger, clock: FakeClock
) -> None:
    with ledger.attach("r"):
        with ledger.attach("r"):
            pass
        clock.make_due()
        assert is_held(ledger)
    assert is_held(ledger)
    clock.make_due(joining.LINGER_SECONDS / 2)
    assert is_held(ledger)
    clock.make_due()
    assert not is_held(ledger)


def test_a_run_between_two_turns_is_idle_and_not_completed(
    ledger: nt.Ledger, clock: FakeClock
) -> None:
    for turn in range(2):
        with ledger.attach("r") as handle:
            assert handle.call(CHARGE, {}, lambda _: 1).replayed is bool(turn)
            assert ledger.run_record("r").status == "running"
        clock.make_due()
        assert ledger.run_record("r").status == "idle"
    assert [run.id for run in ledger.runs(status="idle")] == ["r"]
    assert not list(ledger.runs(status="completed"))


def test_a_run_that_waits_for_a_person_is_not_idle(ledger: nt.Ledger, clock: FakeClock) -> None:
    spec = declare("pay/refund", replay="unsafe_on_replay", approve=True)
    with ledger.attach("r") as handle, pytest.raises(nt.errors.ApprovalNeeded):
        handle.call(spec, {}, unwanted)
    clock.make_due()
    assert ledger.run_record("r").status == "waiting"


def test_a_block_that_leaves_an_attached_call_in_doubt_does_not_complete_the_run() -> None:
    """A completed run has no call in doubt: lists of doubts rely on it."""
    host = Host()
    with host.process() as ledger, ledger.attach("r") as handle:
        handle.call(CHARGE, {}, dying(ledger))
    with host.process() as ledger:
        with ledger.run("r"):
            pass
        assert ledger.run_record("r").status == "idle"
        assert [call.tool for call in ledger.in_doubt()] == ["pay/charge"]


def test_an_idle_run_is_removed_when_its_time_has_come(ledger: nt.Ledger, clock: FakeClock) -> None:
    with ledger.attach("r") as handle:
        handle.call(CHARGE, {}, lambda _: 1)
    clock.make_due()
    assert nt.remove_expired(ledger).runs == 0
    clock.advance(10 * 365 * 86400)
    assert nt.remove_expired(ledger, unknown_tools=True).runs == 1
    with pytest.raises(nt.errors.RunRemoved):
        ledger.attach("r").__enter__()


def test_a_part_that_attaches_in_time_keeps_the_run(ledger: nt.Ledger, clock: FakeClock) -> None:
    with ledger.attach("r"):
        pass
    with ledger.attach("r"):
        clock.make_due()
        assert is_held(ledger)
    assert ledger.run_record("r").opened == 1
    clock.make_due()
    assert not is_held(ledger)
    with ledger.attach("r"):
        assert ledger.run_record("r").opened == 2


def test_an_early_release_that_was_planned_does_not_end_a_later_visit(
    ledger: nt.Ledger, clock: FakeClock
) -> None:
    with ledger.attach("r"):
        pass
    clock.advance(joining.LINGER_SECONDS / 2)
    with ledger.attach("r"):
        pass
    clock.make_due(joining.LINGER_SECONDS / 2)
    assert is_held(ledger)


def test_closing_the_ledger_releases_its_runs(tmp_path: Any, clock: FakeClock) -> None:
    ledger = nt.Ledger(tmp_path / "agent.db", clock=clock)
    with ledger.attach("r"):
        pass
    ledger.close()
    with nt.Ledger(tmp_path / "agent.db") as other:
        assert not is_held(other)


def test_a_run_of_another_process_is_busy_for_every_part(ledger: nt.Ledger) -> None:
    with ledger.run("r"):
        # Another thread has the run and not the context, as another process would.
        found = in_threads(3, lambda index: ledger.attach("r", acquire_timeout=None).__enter__())
    assert [type(one) for one in found] == [nt.RunBusy] * 3
    with ledger.attach("r") as handle:
        assert handle.run_id == "r"


def test_a_part_that_is_cancelled_while_it_waits_takes_the_run_from_no_other(
    ledger: nt.Ledger, clock: FakeClock
) -> None:
    async def main() -> None:
        first = asyncio.ensure_future(ledger.attach("r").__aenter__())
        second = asyncio.ensure_future(ledger.attach("r").__aenter__())
        await asyncio.sleep(0)
        first.cancel()
        handle = await second
        assert first.cancelled() or first.done()
        assert (await handle.acall(CHARGE, {}, lambda _: 1)).value == 1
        handle.detach()

    asyncio.run(main())
    clock.make_due()
    assert not is_held(ledger)


def test_a_sync_attach_does_not_block_the_loop_that_opens_the_run() -> None:
    ledger = nt.Ledger(":memory:")

    async def main(left: Callable[[], object]) -> None:
        opening = asyncio.ensure_future(ledger.attach("r", acquire_timeout="60s").__aenter__())
        await asyncio.sleep(0)
        # The run is held elsewhere, so it is still being opened.
        with pytest.raises(nt.RunBusy, match="async with"):
            ledger.attach("r").__enter__()
        left()
        (await opening).detach()

    busy = ledger.run("r")
    elsewhere = contextvars.copy_context()
    elsewhere.run(busy.__enter__)
    asyncio.run(main(lambda: elsewhere.run(busy.__exit__, None, None, None)))


def test_a_run_that_was_taken_over_can_be_attached_to_again(ledger: nt.Ledger) -> None:
    with ledger.attach("r") as handle:
        joined = handle._joined
        assert joined is not None
        joined.drop()
    with ledger.attach("r") as again:
        assert again.call(CHARGE, {}, lambda _: 1).value == 1
    assert ledger.run_record("r").opened == 2


def test_a_run_that_a_policy_stopped_is_asked_about_again_by_the_next_turn(
    clock: FakeClock,
) -> None:
    stop = [True]

    def policy(call: Any) -> Any:
        return nt.policy.stop("closed") if stop[0] else nt.policy.allow()

    ledger = nt.Ledger(":memory:", clock=clock, policy=policy)
    with ledger.attach("r") as handle, pytest.raises(nt.errors.RunStoppedByPolicy):
        handle.call(CHARGE, {}, unwanted)
    stop[0] = False
    with ledger.attach("r") as handle:
        assert handle.call(CHARGE, {}, lambda _: 1).value == 1
