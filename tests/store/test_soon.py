"""Is every caller that waits for a commit told, and an event loop once for all its callers?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

import pytest

from nottwice.errors import OwnershipLost
from nottwice.store.soon import Soon, awaitable, wake

SECONDS = 30


def in_thread(action: Callable[[], None]) -> None:
    thread = threading.Thread(target=action)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive()


def tell_all(told: list[Soon], error: BaseException | None = None) -> None:
    """What a leader does, in a thread that is not the loop's."""

    def tell() -> None:
        for soon in told:
            soon.tell(error)
        wake(told)

    in_thread(tell)


def test_a_thread_hears_without_any_loop() -> None:
    fine, refused = Soon(), Soon()
    tell_all([fine])
    tell_all([refused], OwnershipLost("no"))
    assert fine.result(SECONDS) is None
    assert isinstance(refused.exception(SECONDS), OwnershipLost)


@pytest.mark.parametrize("told_first", [True, False])
def test_it_is_a_future_like_any_other_whenever_a_thread_first_asks(told_first: bool) -> None:
    fine, refused = Soon(), Soon()
    heard: list[Future[None]] = []

    def tell() -> None:
        fine.tell(None)
        refused.tell(OwnershipLost("no"))

    if told_first:
        tell()
    assert not fine.cancel()
    assert fine.done() is told_first
    for one in (fine, refused):
        one.add_done_callback(heard.append)
    if not told_first:
        assert not heard
        in_thread(tell)
    assert wait([fine, refused], SECONDS).done == {fine, refused} == set(heard)
    assert fine.exception(SECONDS) is None
    with pytest.raises(OwnershipLost, match="no"):
        refused.result(SECONDS)


def test_a_loop_is_woken_once_for_all_who_wait_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    wakes = 0

    async def main() -> list[None]:
        loop = asyncio.get_running_loop()
        call = loop.call_soon_threadsafe

        def counted(*args: Any, **more: Any) -> asyncio.Handle:
            nonlocal wakes
            wakes += 1
            return call(*args, **more)

        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        told = [Soon() for _ in range(20)]
        waiters = [asyncio.ensure_future(awaitable(soon)) for soon in told]
        await asyncio.sleep(0)
        tell_all(told)
        assert not any(waiter.done() for waiter in waiters)
        return await asyncio.gather(*waiters)

    assert asyncio.run(asyncio.wait_for(main(), SECONDS)) == [None] * 20
    # Once, and once more in reserve: an interrupt can lose what the loop is about to call.
    assert wakes == 2


def test_a_task_gets_the_error_of_its_own_commit() -> None:
    async def main() -> None:
        fine, refused = Soon(), Soon()
        tell_all([fine])
        tell_all([refused], OwnershipLost("no"))
        await awaitable(fine)
        with pytest.raises(OwnershipLost, match="no"):
            await awaitable(refused)

    asyncio.run(asyncio.wait_for(main(), SECONDS))


def test_a_cancelled_waiter_harms_neither_the_commit_nor_other_waiters() -> None:
    async def main() -> None:
        left, kept = Soon(), Soon()
        leaver = asyncio.ensure_future(awaitable(left))
        stayer = asyncio.ensure_future(awaitable(kept))
        await asyncio.sleep(0)
        leaver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        assert not left.cancel()
        tell_all([left, kept])
        await stayer
        assert left.result(SECONDS) is None

    asyncio.run(asyncio.wait_for(main(), SECONDS))


def test_a_loop_that_was_closed_is_no_obstacle_for_the_others() -> None:
    async def ask() -> Soon:
        return Soon()

    async def main(orphan: Soon) -> None:
        mine = Soon()
        tell_all([orphan, mine])
        await awaitable(mine)

    orphan = asyncio.run(ask())
    asyncio.run(asyncio.wait_for(main(orphan), SECONDS))
    assert orphan.result(SECONDS) is None


def test_any_other_future_can_be_awaited_too() -> None:
    async def main() -> None:
        future: Future[None] = Future()
        future.set_exception(OwnershipLost("no"))
        with pytest.raises(OwnershipLost, match="no"):
            await awaitable(future)

    asyncio.run(asyncio.wait_for(main(), SECONDS))
