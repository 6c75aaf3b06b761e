"""A bound function finds its run in a thread or task whose context does not know it (P246)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import nottwice as nt


@pytest.fixture
def ledger() -> nt.Ledger:
    return nt.Ledger(":memory:")


@pytest.fixture
def mail() -> Iterator[Callable[[str], str]]:
    @nt.tool("unsafe_on_replay")
    def mail(to: str) -> str:
        return f"sent to {to}"

    yield mail
    nt.testing.forget_tools()


def in_new_thread(function: Callable[[], Any]) -> Any:
    """What a function returns in a thread that knows nothing of this context."""
    found: list[Any] = []
    thread = threading.Thread(
        target=contextvars.Context().run, args=(lambda: found.append(function()),)
    )
    thread.start()
    thread.join()
    return found[0]


def test_a_bound_function_finds_the_run_in_a_new_thread(
    ledger: nt.Ledger, mail: Callable[[str], str]
) -> None:
    with ledger.attach("r") as handle:
        assert in_new_thread(handle.bind(lambda: mail("ann"))) == "sent to ann"
    with ledger.run("s") as run:
        assert in_new_thread(run.bind(lambda: mail("bob"))) == "sent to bob"
    assert [call.args for call in ledger.calls("s")] == [{"to": "bob"}]


def test_a_bound_async_generator_keeps_its_run_whichever_task_drives_it(
    ledger: nt.Ledger, mail: Callable[[str], str]
) -> None:
    async def stream() -> AsyncIterator[str]:
        yield mail("ann")
        yield mail("bob")

    async def driven(given: AsyncIterator[str]) -> list[str]:
        # Each value in a task of its own, as a web framework does it.
        async def one() -> str:
            return await anext(given)

        first = await asyncio.create_task(one(), context=contextvars.Context())
        second = await asyncio.create_task(one(), context=contextvars.Context())
        with pytest.raises(StopAsyncIteration):
            await anext(given)
        return [first, second]

    async def main() -> None:
        with pytest.raises(nt.errors.NotInRun):
            await anext(stream())
        async with ledger.attach("r") as handle:
            assert await driven(handle.bind(stream)()) == ["sent to ann", "sent to bob"]

    asyncio.run(main())


def test_a_bound_coroutine_function_is_in_the_run(
    ledger: nt.Ledger, mail: Callable[[str], str]
) -> None:
    async def work(to: str) -> str:
        await asyncio.sleep(0)
        return mail(to)

    async def main() -> None:
        async with ledger.attach("r") as handle:
            task = asyncio.create_task(handle.bind(work)("ann"), context=contextvars.Context())
            assert await task == "sent to ann"

    asyncio.run(main())


def test_what_was_bound_runs_only_while_its_block_is_open(ledger: nt.Ledger) -> None:
    with ledger.attach("r") as handle, ledger.run("s") as run:
        bound = [handle.bind(lambda: 1), run.bind(lambda: 1)]
        assert [each() for each in bound] == [1, 1]
    for each in bound:
        with pytest.raises(nt.errors.NotInRun):
            each()
