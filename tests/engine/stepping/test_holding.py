"""A new effect waits until other tasks have asked for what is outstanding, and no longer (P137)."""

from __future__ import annotations

import asyncio
import contextvars
import random
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.stepping import holding
from nottwice.model.run import RunStatus
from nottwice.store.memory import MemoryData, MemoryStore
from tests.fakes import Host

SECONDS = 30.0
"""Nothing here takes so long unless it hangs."""


class Stopped(Exception):
    """Ends every task of a program before its next effect, as if its process were killed there."""


class World:
    """Effects that are remembered, in processes that come and go, by the real clock."""

    def __init__(self) -> None:
        self.data = MemoryData()
        self.effects: list[str] = []
        self.begun: set[str] = set()
        self.most = 1_000
        """With this many effects each task stops before its next new one."""
        self._guard = threading.Lock()
        world = self

        @nt.tool("unsafe_on_replay")
        def act(what: str) -> str:
            world.effects.append(what)
            return what

        self._act = act

    def act(self, what: str) -> str:
        with self._guard:
            if what not in self.begun and len(self.begun) >= self.most:
                raise Stopped
            self.begun.add(what)
        return self._act(what)

    async def aact(self, what: str) -> str:
        return await asyncio.to_thread(self.act, what)

    def ledger(self) -> nt.Ledger:
        return nt.Ledger(MemoryStore(self.data, now=time.time()))

    def run_async(self, body: Callable[[], Awaitable[Any]]) -> None:
        async def process() -> None:
            async with self.ledger().run("r"):
                await body()

        asyncio.run(asyncio.wait_for(process(), SECONDS))

    def stopped_after(self, effects: int, body: Callable[[], Awaitable[Any]]) -> None:
        self.most = len(self.begun) + effects
        with pytest.raises(Stopped):
            self.run_async(body)
        self.most = 1_000

    @property
    def status(self) -> RunStatus:
        return self.data.runs["r"].status


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "QUIET_SECONDS", 0.3)


async def all_of(*awaitables: Awaitable[Any]) -> None:
    """``asyncio.gather`` in which every task ends before the first error is raised."""
    found = await asyncio.gather(*awaitables, return_exceptions=True)
    for error in found:
        if isinstance(error, BaseException):
            raise error


def test_a_fast_task_waits_for_the_receipts_of_a_slow_one(world: World) -> None:
    slow = [0.0]

    async def first() -> None:
        await world.aact("a1")
        while "b1" not in world.begun:
            await asyncio.sleep(0.001)
        await world.aact("a2")

    async def second() -> None:
        await asyncio.sleep(slow[0])
        await world.aact("b1")

    async def body() -> None:
        async with nt.step("all"):
            await all_of(second(), first())

    world.stopped_after(2, body)
    assert sorted(world.effects) == ["a1", "b1"]
    slow[0] = 0.2
    world.run_async(body)
    assert sorted(world.effects) == ["a1", "a2", "b1"]


@pytest.mark.parametrize("seed", range(25))
def test_an_unchanged_program_of_tasks_never_drifts_in_whatever_order(
    world: World, seed: int
) -> None:
    chance = random.Random(seed)

    async def task(number: int) -> None:
        for part in range(3):
            await asyncio.sleep(chance.choice([0, 0, 0.001, 0.004]))
            await world.aact(f"{number}.{part}")

    async def body() -> None:
        async with nt.step("all"):
            await all_of(*(task(number) for number in range(5)))

    for _ in range(2):
        world.stopped_after(chance.randrange(1, 8), body)
    world.run_async(body)
    assert sorted(world.effects) == [f"{n}.{part}" for n in range(5) for part in range(3)]
    assert world.status is RunStatus.COMPLETED


@pytest.mark.parametrize("seed", range(25))
def test_an_unchanged_program_of_threads_never_drifts_in_whatever_order(
    world: World, seed: int
) -> None:
    chance = random.Random(seed)

    def task(number: int) -> None:
        for part in range(3):
            time.sleep(chance.choice([0, 0, 0.001, 0.004]))
            world.act(f"{number}.{part}")

    def process() -> None:
        with world.ledger().run("r"), nt.step("all"), ThreadPoolExecutor(5) as pool:
            done = [pool.submit(contextvars.copy_context().run, task, n) for n in range(5)]
            errors = [one.exception() for one in done]
            for error in errors:
                if error is not None:
                    raise error

    for _ in range(2):
        world.most = len(world.begun) + chance.randrange(1, 8)
        with pytest.raises(Stopped):
            process()
    world.most = 1_000
    process()
    assert sorted(world.effects) == [f"{n}.{part}" for n in range(5) for part in range(3)]
    assert world.status is RunStatus.COMPLETED


@pytest.mark.parametrize("seed", range(15))
def test_steps_that_are_open_at_the_same_time_wait_for_each_other(world: World, seed: int) -> None:
    """Each task has a visit of its own, and all of them notify the same address."""
    chance = random.Random(seed)

    async def task(number: int) -> None:
        await asyncio.sleep(chance.choice([0, 0, 0.001, 0.004]))
        async with nt.step("item", at=number):
            await world.aact("notify ops")
            await asyncio.sleep(chance.choice([0, 0.001, 0.004]))
            async with nt.step(f"handle {number}"):
                await world.aact(f"handle {number}")
                await world.aact(f"close {number}")

    async def body() -> None:
        await all_of(*(task(number) for number in range(4)))

    world.stopped_after(chance.randrange(1, 9), body)
    world.run_async(body)
    expected = ["notify ops"] * 4 + [f"{w} {n}" for w in ("handle", "close") for n in range(4)]
    assert sorted(world.effects) == sorted(expected)


def test_a_changed_program_of_tasks_still_drifts(world: World, impatient: None) -> None:
    async def program(*names: str) -> None:
        async with nt.step("all"):
            await all_of(*(world.aact(name) for name in names))
            await world.aact("last")

    world.stopped_after(2, lambda: program("ann", "bob"))
    with pytest.raises(nt.errors.ReplayDriftError, match="bob@home"):
        world.run_async(lambda: program("ann", "bob@home"))
    assert sorted(world.effects) == ["ann", "bob"]


def test_a_changed_program_of_threads_still_drifts(world: World, impatient: None) -> None:
    def process(*names: str) -> None:
        with world.ledger().run("r"), nt.step("all"):
            with ThreadPoolExecutor(2) as pool:
                contexts = [contextvars.copy_context() for _ in names]
                done = [
                    pool.submit(context.run, world.act, name)
                    for context, name in zip(contexts, names, strict=True)
                ]
            for one in done:
                one.result()
            world.act("last")

    world.most = 2
    with pytest.raises(Stopped):
        process("ann", "bob")
    world.most = 1_000
    with pytest.raises(nt.errors.ReplayDriftError, match="bob@home"):
        process("ann", "bob@home")
    assert sorted(world.effects) == ["ann", "bob"]


def test_tools_whose_bodies_are_held_do_not_wait_for_each_other(
    world: World, impatient: None
) -> None:
    @nt.tool("unsafe_on_replay")
    async def outer(what: str) -> str:
        return await world.aact(f"inside {what}")

    async def before() -> None:
        async with nt.step("all"):
            await world.aact("old")
            raise Stopped

    async def after() -> None:
        async with nt.step("all"):
            await all_of(outer("one"), outer("two"))

    world.stopped_after(9, before)
    with pytest.raises(nt.errors.ReplayDriftError):
        world.run_async(after)
    assert world.effects == ["old"]


def test_while_a_tool_of_another_task_runs_patience_does_not_end(
    world: World, impatient: None
) -> None:
    computes = [0.0]

    @nt.tool("pure")
    async def compute(what: str) -> str:
        await asyncio.sleep(computes[0])
        return what

    async def slow() -> None:
        await world.aact(await compute("b1"))

    async def fast() -> None:
        await world.aact("a1")
        await world.aact("a2")

    async def body() -> None:
        async with nt.step("all"):
            await all_of(slow(), fast())

    world.stopped_after(2, body)
    for identity in [key for key in world.data.calls if key.tool_name == "compute"]:
        # A pure result is a pending write, and may be lost with its process.
        del world.data.calls[identity]
    computes[0] = 1.0
    world.run_async(body)
    assert sorted(world.effects) == ["a1", "a2", "b1"]


def test_a_run_that_is_left_meanwhile_sends_nothing_that_was_held(world: World) -> None:
    def before() -> None:
        with world.ledger().run("r"), nt.step("all"):
            world.act("old")
            raise Stopped

    with pytest.raises(Stopped):
        before()
    found: list[BaseException] = []

    def late() -> None:
        try:
            world.act("new")
        except BaseException as error:
            found.append(error)

    with pytest.raises(Stopped), world.ledger().run("r"), nt.step("all"):
        thread = threading.Thread(target=contextvars.copy_context().run, args=(late,))
        thread.start()
        raise Stopped
    thread.join(SECONDS)
    assert world.effects == ["old"]
    assert [type(error) for error in found] == [nt.errors.NotInRun]


ALONE = """
import nottwice as nt
from nottwice.engine.clock import SystemClock
from tests.fakes import Host

host = Host()
# The thread that writes down what waits for a commit is nottwice's own, and asks for nothing.
SystemClock().later(60, lambda: None)

@nt.tool("unsafe_on_replay")
def act(what: str) -> str:
    return what

try:
    with host.process() as ledger, ledger.run("r"), nt.step("all"):
        act("old")
        raise KeyError
except KeyError:
    pass
try:
    with host.process() as ledger, ledger.run("r"), nt.step("all"):
        act("new")
except nt.errors.ReplayDriftError:
    print("drift", host.clock.pauses)
"""


def test_a_program_without_other_tasks_is_not_held_at_all() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert done.stdout.strip() == "drift []"


def test_a_single_task_that_waits_for_its_own_new_effect_is_drift(host: Host) -> None:
    """It would make the old call afterwards, and there is no way to know that."""

    @nt.tool("unsafe_on_replay")
    async def act(what: str) -> str:
        return what

    async def process(ledger: nt.Ledger, *names: str) -> None:
        async with ledger.run("r"), nt.step("all"):
            for name in names:
                await act(name)
            raise Stopped

    with host.process() as ledger, pytest.raises(Stopped):
        asyncio.run(process(ledger, "old"))
    with host.process() as ledger, pytest.raises(nt.errors.ReplayDriftError):
        asyncio.run(process(ledger, "new", "old"))
