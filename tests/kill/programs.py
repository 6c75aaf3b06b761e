"""Which programs do the tests run, kill and run again?

Each is what a user might write around a protected tool; what they say is what the tests compare.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import nottwice as nt
from nottwice.errors import NottwiceError
from nottwice.model.review import Verb
from nottwice.reviews.decide import decide as record_decision
from nottwice.reviews.decide import undo as take_back
from tests.kill.agents import ORDER, Process, Program, carry_out

PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def call(process: Process) -> None:
    """Open the run and make one call."""
    act = process.tool()
    if process.plan.is_async:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_call_async(process, act))
        return
    with process.reporting(), process.open_run(process.open()):
        process.say_receipt(act.receipt(order=ORDER))
        process.reach("after the call")


async def _call_async(process: Process, act: Any) -> None:
    # It is said inside the loop, which ends only when all threads of its tools have ended.
    with process.reporting():
        async with process.open_run(process.open()):
            process.say_receipt(await act.receipt(order=ORDER))
            process.reach("after the call")


@program
def read_then_act(process: Process) -> None:
    """Read something, then act upon it."""
    read, act = process.tool("read", "pure"), process.tool()
    with process.reporting():
        if process.plan.is_async:
            asyncio.run(_read_then_act_async(process, read, act))
            return
        with process.open_run(process.open()):
            process.say_receipt(read.receipt(order=ORDER))
            process.say_receipt(act.receipt(order=ORDER))


async def _read_then_act_async(process: Process, read: Any, act: Any) -> None:
    async with process.open_run(process.open()):
        process.say_receipt(await read.receipt(order=ORDER))
        process.say_receipt(await act.receipt(order=ORDER))


@program
def swallow(process: Process) -> None:
    """User code that catches what it is told, and a model that tries again."""
    asyncio.run(_swallow(process))


async def _swallow(process: Process) -> None:
    act, other = process.tool(), process.tool("other")
    read, earlier = process.tool("read", "pure"), process.tool("earlier")

    async def turn(name: str, function: Any) -> None:
        try:
            answer = function(order=ORDER)
            answer = await answer if process.plan.is_async else answer
            if isinstance(answer, nt.types.Receipt):
                process.say_receipt(answer, turn=name)
            else:
                process.say(value=answer, turn=name)
        except NottwiceError as error:
            process.say_error(error, turn=name)

    # Sync tools in an event loop block it, as everywhere; their run may be opened either way.
    async with process.open_run(process.open()):
        await turn("before", earlier.receipt)
        await turn("the call", act.receipt)
        process.reach("between the turns")
        await turn("the call again", act.receipt)
        await turn("the same again on purpose", act.again("next turn"))
        await turn("another effect", other.receipt)
        await turn("an earlier receipt", earlier.receipt)
        await turn("a pure call", read.receipt)


@program
def decide(process: Process) -> None:
    """Decide one review, as ``nottwice decide`` does."""
    more = process.plan.more
    ledger = process.open()
    if "gate" in more:
        # All processes that will decide wait here, so that all continue at the same time.
        process.world.do("a vote", hold_before=more["gate"])
    with process.reporting():
        if more["verb"] == "undo":
            review = take_back(ledger.store, ledger.clock, more["review"], by="ann", why="a test")
        else:
            review = record_decision(
                ledger.store,
                ledger.clock,
                more["review"],
                Verb(more["verb"]),
                by=more.get("by", "ann"),
                why="a test",
                result=more.get("result"),
                has_result="result" in more,
                holder_stopped=more.get("holder_stopped", False),
            )
        process.say(status=review.status.value)


@program
def desk(process: Process) -> None:
    """Wait for one thing after the other, in a step, and say what came of each."""
    act = process.tool()
    with process.reporting():
        if process.plan.is_async:
            asyncio.run(_desk_async(process, act))
            return
        with process.open_run(process.open()), nt.step("desk"):
            for wait in process.plan.more["waits"]:
                if wait == "act":
                    process.say_receipt(act.receipt(order=ORDER))
                else:
                    _wait_for(process, wait)


async def _desk_async(process: Process, act: Any) -> None:
    async with process.open_run(process.open()), nt.step("desk"):
        for wait in process.plan.more["waits"]:
            if wait == "act":
                process.say_receipt(await act.receipt(order=ORDER))
            else:
                _wait_for(process, wait)


def _wait_for(process: Process, wait: str) -> None:
    match wait:
        case "ask":
            process.say(answer=nt.ask("Go on?", options=["yes", "no"], about={"order": ORDER}))
        case "sleep":
            nt.sleep("1h")
            process.say(slept=True)
        case "receive":
            process.say(event=nt.receive("paid"))
        case "values":
            process.say(now=nt.now().isoformat(), uuid=str(nt.uuid()), random=nt.random())
        case _:
            raise ValueError(wait)


@program
def send(process: Process) -> None:
    """Tell the run of an event, as ``nottwice send`` does."""
    more = process.plan.more
    with process.reporting():
        sent = process.open().send(
            process.plan.run, "paid", more["payload"], event_id=more["event_id"]
        )
        process.say(sent=sent)


@program
def retry(process: Process) -> None:
    """Ask for new attempts at a call whose failure is on record."""
    act = process.tool()
    with process.reporting(), process.open_run(process.open()):
        process.say(value=act.retry(order=ORDER))


@program
def without_tools(process: Process) -> None:
    """Open the run in a process that does not know its tools."""
    with process.reporting(), process.open_run(process.open()):
        process.say(opened=True)


@program
def with_another_signature(process: Process) -> None:
    """The same tool, which has come to need an argument that the record does not have."""

    def act(order: int, currency: str, cents: int = 4000) -> dict[str, str]:
        process.reach("body start")
        result: dict[str, str] = process.request(nt.current_call(), order)
        return result

    replay_class, declared = process.declared(process.plan.kind)
    act = nt.tool(replay_class, **declared)(act)
    with process.reporting(), process.open_run(process.open()):
        process.say(opened=True)


@program
def visits(process: Process) -> None:
    """Make the calls that the plan lists, each in its own run, step and visit."""
    tools = {name: process.tool(name) for name in process.plan.more["tools"]}
    ledger = process.open()
    places = itertools.groupby(process.plan.more["visits"], key=lambda visit: visit[:3])
    for (run, step, at), calls in places:
        with process.reporting(), ledger.run(run), nt.step(step, at=at):
            for *_, tool, order, label in calls:
                if label is None:
                    process.say_receipt(tools[tool].receipt(order=order))
                else:
                    process.say(value=tools[tool].again(label)(order=order))


@program
def same_run_calls(process: Process) -> None:
    """Make the same call twice outside any step, in two steps, in two visits, and on purpose."""
    act = process.tool()
    with process.reporting(), process.open_run(process.open()):
        for _ in range(2):
            process.say_receipt(act.receipt(order=ORDER))
        for name, at in (("pack", None), ("ship", 1), ("ship", 2)):
            with nt.step(name, at=at):
                for _ in range(2):
                    process.say_receipt(act.receipt(order=ORDER))
        for label in ("second parcel", "second parcel", "third parcel"):
            process.say(value=act.again(label)(order=ORDER))


@program
def drift(process: Process) -> None:
    """Act outside any step, if the plan says so, and then upon each order inside one."""
    act = process.tool()
    with process.reporting(), process.open_run(process.open()):
        for order in process.plan.more["outside"]:
            process.say_receipt(act.receipt(order=order))
        with nt.step("pack"):
            for order in process.plan.more["inside"]:
                process.say_receipt(act.receipt(order=order))


@program
def method(process: Process) -> None:
    """Call a tool that is a method, and another tool before or after it."""

    class Account:
        @nt.tool("unsafe_on_replay", bound_by=())
        def act(self, order: int) -> dict[str, str]:
            result: dict[str, str] = process.request(nt.current_call(), order)
            return result

    account, other = Account(), process.tool("other")
    with process.reporting(), process.open_run(process.open()):
        if process.plan.more["other_first"]:
            process.say_receipt(other.receipt(order=ORDER))
        process.say(value=account.act(order=ORDER))
        process.say_receipt(other.receipt(order=ORDER))


@program
def cancel_waiter(process: Process) -> None:
    """An event loop in which a task stops waiting for a call in progress."""
    asyncio.run(_cancel_waiter(process))


async def _cancel_waiter(process: Process) -> None:
    act, gate = process.tool(), process.plan.more["gate"]
    async with process.open_run(process.open()):
        waiter = asyncio.create_task(act(order=ORDER))
        await asyncio.to_thread(process.world.wait_until_held, gate)
        waiter.cancel()
        await asyncio.wait([waiter])
        process.say(cancelled=waiter.cancelled())


@program
def leave_early(process: Process) -> None:
    """An event loop leaves a sync block, which cannot wait there, while a call is under way."""
    asyncio.run(_leave_early(process))


async def _leave_early(process: Process) -> None:
    act, gate = process.tool(), process.plan.more["gate"]
    with process.open_run(process.open()):
        waiter = asyncio.create_task(act(order=ORDER))
        await asyncio.to_thread(process.world.wait_until_held, gate)
    process.say(left=True)
    process.say(value=await waiter)


@program
def cancel_block(process: Process) -> None:
    """A whole block is cancelled, again and again, while its call is under way."""
    asyncio.run(_cancel_block(process))


async def _cancel_block(process: Process) -> None:
    act, gate = process.tool(), process.plan.more["gate"]
    ledger = process.open()

    async def agent() -> None:
        async with process.open_run(ledger):
            await _maybe_await(act(order=ORDER))

    task = asyncio.create_task(agent())
    await asyncio.to_thread(process.world.wait_until_held, gate)
    for _ in range(3):
        task.cancel()
        await asyncio.wait([task], timeout=0.02)
    process.say(cancelled=task.cancelled())
    with process.reporting():
        async with process.open_run(ledger):
            process.say(opened_too_early=True)
    async with ledger.run(process.plan.run, acquire_timeout="60s"):
        process.say_receipt(await _maybe_await(act.receipt(order=ORDER)))


async def _maybe_await(answer: Any) -> Any:
    return await answer if asyncio.iscoroutine(answer) else answer


@program
def cancel_crowd(process: Process) -> None:
    """Of many runs that are opened together, some are cancelled while their claims are written."""
    asyncio.run(_cancel_crowd(process))


async def _cancel_crowd(process: Process) -> None:
    act, ledger = process.tool(), process.open()

    async def agent(number: int) -> None:
        async with ledger.run(f"run-{number}"):
            await act(order=number)

    agents = [asyncio.create_task(agent(number)) for number in range(30)]
    for _ in range(3):
        await asyncio.sleep(0)
    for unlucky in agents[::5]:
        unlucky.cancel()
    done, hanging = await asyncio.wait(agents, timeout=30)
    process.say(hanging=len(hanging), cancelled=sum(one.cancelled() for one in done))
    for number in range(0, 30, 5):
        await asyncio.wait_for(agent(number), timeout=30)
    process.say(reopened=True)


@program
def fork_inside(process: Process) -> None:
    """A run whose holder forks; the child tries everything, and outlives its parent."""
    act, ledger = process.tool(), process.open()
    with process.open_run(ledger):
        if os.fork() == 0:
            with process.reporting():
                act(order=ORDER)
            with process.reporting(), process.open_run(ledger):
                process.say(opened_too_early=True)
            process.say(child=os.getpid())
            process.world.do("a pause", hold_before=process.plan.more["gate"])
            process.plan.faults.clear()
            with process.reporting(), process.open_run(ledger):
                process.say_receipt(act.receipt(order=ORDER))
            process.say(child_done=True)
            os._exit(0)
        act(order=ORDER)


@program
def fork_and_leave(process: Process) -> None:
    """A forked child that leaves the block of its parent in the ordinary way."""
    act, ledger = process.tool(), process.open()
    child = -1
    with process.open_run(ledger):
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            process.say(child_left=True)
            process.say_receipt(act.receipt(order=ORDER))
    if not child:
        os._exit(0)


@program
def two_threads(process: Process) -> None:
    """Two threads of one block make the same call; a third opens the run for itself."""
    act, ledger = process.tool(), process.open()

    def stranger() -> None:
        with process.reporting(), process.open_run(ledger):
            process.say(opened_too_early=True)

    with process.open_run(ledger):
        same = [
            _thread_in_block(lambda: process.say_receipt(act.receipt(order=ORDER)))
            for _ in range(2)
        ]
        third = threading.Thread(target=stranger)
        third.start()
        for thread in (*same, third):
            thread.join()


def _thread_in_block(function: Any) -> threading.Thread:
    thread = threading.Thread(target=contextvars.copy_context().run, args=(function,))
    thread.start()
    return thread


@program
def many_runs(process: Process) -> None:
    """A hundred runs in parallel in one process, each with one call."""
    act, ledger, count = process.tool(), process.open(), process.plan.more["count"]
    if process.plan.is_async:
        asyncio.run(_many_runs_async(process, act, ledger, count))
        return

    def agent(number: int) -> None:
        with ledger.run(f"run-{number}"):
            act(order=number)

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    process.say(ended=True)


async def _many_runs_async(process: Process, act: Any, ledger: nt.Ledger, count: int) -> None:
    # As many parallel requests as there are runs; the usual pool of threads is smaller.
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(count))

    async def agent(number: int) -> None:
        async with ledger.run(f"run-{number}"):
            await act(order=number)

    await asyncio.gather(*map(agent, range(count)))
    process.say(ended=True)


if __name__ == "__main__":
    carry_out(sys.argv[1], 1, PROGRAMS)
