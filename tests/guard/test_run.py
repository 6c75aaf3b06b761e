"""A run as a block: entering starts or resumes it, and leaving always releases it (D5)."""

from __future__ import annotations

import asyncio
import contextvars
import json
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.session import current_scope
from nottwice.guard import run as run_module
from nottwice.model.call import CallStatus
from nottwice.model.run import RunStatus, StepStatus
from tests.fakes import Host
from tests.nursery import starting


@pytest.fixture
def ledger() -> nt.Ledger:
    return nt.Ledger(":memory:")


def status(ledger: nt.Ledger, run_id: str = "r") -> tuple[RunStatus, bool]:
    """Its status, and whether a process holds it."""
    run = ledger.store.load_run(run_id)
    assert run is not None
    return run.status, run.holder_id is not None


def current_run_id() -> str | None:
    """The id of the run that this code is in."""
    scope = current_scope.get()
    return scope.session.run_id if scope is not None else None


def in_thread(function: Callable[[], object]) -> object:
    """What the function returned or raised in a thread of its own, in this context."""
    found: list[object] = []

    def work() -> None:
        try:
            found.append(function())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,))
    thread.start()
    thread.join()
    return found[0]


def enter(run: nt.types.Run) -> str:
    with run:
        return "entered"


def test_the_block_names_its_run_and_code_in_it_can_ask(ledger: nt.Ledger) -> None:
    assert current_run_id() is None
    with ledger.run("r") as run:
        assert (run.id, current_run_id()) == ("r", "r")
        assert status(ledger) == (RunStatus.RUNNING, True)
    assert current_run_id() is None
    assert status(ledger) == (RunStatus.COMPLETED, False)


@pytest.mark.parametrize("error", [ValueError("no"), nt.Permanent("no")])
def test_a_block_that_raises_releases_the_run_and_says_why(
    ledger: nt.Ledger, error: BaseException
) -> None:
    with pytest.raises(type(error)) as caught, ledger.run("r"):
        raise error
    assert caught.value is error
    assert status(ledger) == (RunStatus.FAILED, False)
    run = ledger.store.load_run("r")
    assert run is not None
    assert run.failure is not None
    assert type(error).__name__ in run.failure.error_type


ENDS_IN_THE_BLOCK = """
import os, signal, sys
import nottwice as nt

@nt.tool("unsafe_on_replay")
def send(to: str) -> str:
    return "sent"

if __name__ == "__main__":
    with nt.run("r", store=sys.argv[1]):
        send("ann")
        {how}
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGINT); signal.pause()", -signal.SIGINT),
        ("sys.exit()", 0),
        ("sys.exit(3)", 3),
    ],
)
def test_a_process_that_is_told_to_end_in_a_block_interrupts_its_run(
    tmp_path: Path, how: str, code: int
) -> None:
    """It can be resumed, and people are told so. No text says that the work has failed."""
    script, store = tmp_path / "agent.py", str(tmp_path / "agent.db")
    script.write_text(ENDS_IN_THE_BLOCK.format(how=how), encoding="utf-8")
    done = subprocess.run([sys.executable, script, store], capture_output=True, timeout=60)
    assert done.returncode == code, done.stderr
    shown = starting.run(
        [sys.executable, "-m", "nottwice", "runs", "--store", store, "--json"],
    )
    (run,) = json.loads(shown.stdout)["runs"]
    assert (run["state"], run["failure"]) == ("interrupted", None)
    ledger = nt.Ledger(store)
    assert status(ledger) == (RunStatus.RUNNING, False)
    with ledger.run("r"):
        assert status(ledger) == (RunStatus.RUNNING, True)
    assert status(ledger) == (RunStatus.COMPLETED, False)


def test_a_block_that_is_cancelled_or_closed_interrupts_its_run(ledger: nt.Ledger) -> None:
    async def cancelled() -> None:
        async with ledger.run("cancelled"):
            await asyncio.sleep(60)

    async def main() -> None:
        task = asyncio.ensure_future(cancelled())
        await asyncio.sleep(0)
        while ledger.store.load_run("cancelled") is None:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    def closed() -> Generator[None, None, None]:
        with ledger.run("closed"):
            yield

    asyncio.run(main())
    generator = closed()
    next(generator)
    generator.close()
    for run_id in ("cancelled", "closed"):
        assert status(ledger, run_id) == (RunStatus.RUNNING, False)


async def raise_in_block(ledger: nt.Ledger) -> None:
    async with ledger.run("r"):
        raise ValueError("no")


def test_an_async_block_that_raises_does_the_same(ledger: nt.Ledger) -> None:
    with pytest.raises(ValueError, match="no"):
        asyncio.run(raise_in_block(ledger))
    assert status(ledger) == (RunStatus.FAILED, False)


def test_one_block_object_is_entered_once_at_a_time(ledger: nt.Ledger) -> None:
    run = ledger.run("r")
    with run:
        with pytest.raises(nt.errors.UsageError, match="entered already"), run:
            raise AssertionError("entered twice")
        assert status(ledger) == (RunStatus.RUNNING, True)
    with run:
        assert status(ledger) == (RunStatus.RUNNING, True)
    assert status(ledger) == (RunStatus.COMPLETED, False)


# Entering again


def test_the_same_context_may_enter_again_and_the_outermost_block_ends_the_run(
    ledger: nt.Ledger,
) -> None:
    fired: list[int] = []

    @nt.tool("unsafe_on_replay")
    def run_reentered(x: int) -> int:
        fired.append(x)
        return x

    with ledger.run("r"):
        run_reentered(1)
        with ledger.run("r"):
            run_reentered(1)
        assert status(ledger) == (RunStatus.RUNNING, True)
        run_reentered(2)
    assert fired == [1, 2]
    assert status(ledger) == (RunStatus.COMPLETED, False)


def test_an_error_in_an_inner_block_that_is_caught_does_not_fail_the_run(
    ledger: nt.Ledger,
) -> None:
    with ledger.run("r"):
        with pytest.raises(ValueError, match="inner"), ledger.run("r"):
            raise ValueError("inner")
        assert status(ledger) == (RunStatus.RUNNING, True)
    assert status(ledger) == (RunStatus.COMPLETED, False)


def test_tasks_of_one_loop_may_enter_again(ledger: nt.Ledger) -> None:
    async def child() -> str | None:
        async with ledger.run("r"):
            await asyncio.sleep(0)
            return current_run_id()

    async def main() -> None:
        async with ledger.run("r"):
            assert list(await asyncio.gather(child(), child())) == ["r", "r"]
            assert status(ledger) == (RunStatus.RUNNING, True)

    asyncio.run(main())
    assert status(ledger) == (RunStatus.COMPLETED, False)


def test_a_child_task_that_outlives_the_outer_block_keeps_the_run(ledger: nt.Ledger) -> None:
    async def child(entered: asyncio.Event, go_on: asyncio.Event) -> None:
        async with ledger.run("r"):
            entered.set()
            await go_on.wait()

    async def main() -> None:
        entered, go_on = asyncio.Event(), asyncio.Event()
        async with ledger.run("r"):
            task = asyncio.create_task(child(entered, go_on))
            await entered.wait()
        assert status(ledger) == (RunStatus.RUNNING, True)
        go_on.set()
        await task

    asyncio.run(main())
    assert status(ledger) == (RunStatus.COMPLETED, False)


def test_another_thread_is_refused_with_or_without_the_context(ledger: nt.Ledger) -> None:
    with ledger.run("r"):
        error = in_thread(lambda: enter(ledger.run("r")))
        assert isinstance(error, nt.RunBusy)
        assert "Run 'r' is driven by this very process, in another thread" in str(error)
        assert "Nothing was done. Wait for it with acquire_timeout=..." in str(error)
        bare: list[object] = []
        thread = threading.Thread(
            target=lambda: bare.append(_error_of(lambda: enter(ledger.run("r"))))
        )
        thread.start()
        thread.join()
        assert isinstance(bare[0], nt.RunBusy)
    assert in_thread(lambda: enter(ledger.run("r"))) == "entered"


def _error_of(function: Callable[[], object]) -> object:
    try:
        return function()
    except nt.NottwiceError as error:
        return error


def test_another_run_inside_is_a_run_of_its_own(ledger: nt.Ledger) -> None:
    @nt.tool("unsafe_on_replay")
    def run_nested(x: int) -> str:
        return nt.current_call().run_id

    with ledger.run("outer"):
        assert run_nested(1) == "outer"
        with nt.step("s"), ledger.run("inner"):
            assert run_nested(1) == "inner"
            assert current_run_id() == "inner"
            with pytest.raises(nt.RunBusy), ledger.run("outer"):
                raise AssertionError("entered")
        assert current_run_id() == "outer"
        assert run_nested(2) == "outer"
    assert {row.identity.node_id for row in ledger.store.calls("inner")} == {"/"}


def test_one_id_in_two_ledgers_is_two_runs(ledger: nt.Ledger) -> None:
    other = nt.Ledger(":memory:")
    fired: list[int] = []

    @nt.tool("unsafe_on_replay")
    def run_elsewhere(x: int) -> int:
        fired.append(x)
        return x

    with ledger.run("r"):
        run_elsewhere(1)
        with other.run("r"):
            run_elsewhere(1)
        run_elsewhere(1)
    assert fired == [1, 1]


# Waiting for a run that is busy


def test_waiting_ends_when_the_run_is_released(ledger: nt.Ledger) -> None:
    held, found = threading.Event(), []

    def hold() -> None:
        with ledger.run("r"):
            held.set()
            waiting.wait(timeout=10)

    waiting = threading.Event()
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(timeout=10)
    threading.Timer(0.1, waiting.set).start()
    found.append(enter(ledger.run("r", acquire_timeout="10s")))
    holder.join()
    assert found == ["entered"]


def test_waiting_is_bounded_by_the_clock() -> None:
    host = Host()
    with host.process() as ledger, ledger.run("r"):
        error = in_thread(lambda: enter(ledger.run("r", acquire_timeout="3s")))
    assert isinstance(error, nt.RunBusy)
    assert sum(host.clock.pauses) == pytest.approx(3)


def test_a_waiter_that_is_cancelled_does_not_keep_the_run(ledger: nt.Ledger) -> None:
    """Its claim is committed, because nothing may stop it half-way, and then released."""

    async def wait_for_it() -> None:
        async with ledger.run("r", acquire_timeout="10s"):
            raise AssertionError("entered")

    async def main() -> None:
        held, let_go = threading.Event(), threading.Event()

        def hold() -> None:
            with ledger.run("r"):
                held.set()
                let_go.wait(timeout=10)

        holder = threading.Thread(target=hold)
        holder.start()
        await asyncio.to_thread(held.wait, 10)
        waiter = asyncio.create_task(wait_for_it())
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        let_go.set()
        holder.join()
        (claim,) = run_module._claims
        await claim
        async with ledger.run("r"):
            assert status(ledger) == (RunStatus.RUNNING, True)

    asyncio.run(main())
    assert status(ledger) == (RunStatus.COMPLETED, False)


# Leaving


def test_leaving_waits_for_calls_that_other_threads_still_make() -> None:
    host, began, go_on = Host(), threading.Event(), threading.Event()

    @nt.tool("unsafe_on_replay")
    def run_straggler(x: int) -> str:
        began.set()
        go_on.wait(timeout=10)
        return "done"

    with host.process() as ledger:
        with ledger.run("r"):
            context = contextvars.copy_context()
            thread = threading.Thread(target=context.run, args=(run_straggler, 1))
            thread.start()
            began.wait(timeout=10)
            threading.Timer(0.05, go_on.set).start()
        assert [row.status for row in host.calls] == [CallStatus.DONE]
        assert status(ledger) == (RunStatus.COMPLETED, False)
        thread.join()


def test_a_sync_block_in_a_loop_is_held_until_its_last_call_has_ended() -> None:
    """It cannot wait: the call needs the loop that leaving the block would stop."""
    host = Host()

    async def main(ledger: nt.Ledger) -> None:
        began, go_on = asyncio.Event(), asyncio.Event()

        @nt.tool("unsafe_on_replay")
        async def run_in_loop(x: int) -> str:
            began.set()
            await go_on.wait()
            return "done"

        with ledger.run("r"):
            task = asyncio.ensure_future(run_in_loop(1))
            await began.wait()
        assert status(ledger) == (RunStatus.RUNNING, True)
        with pytest.raises(nt.RunBusy), ledger.run("r"):
            raise AssertionError("entered")
        go_on.set()
        assert await task == "done"
        assert status(ledger) == (RunStatus.COMPLETED, False)

    with host.process() as ledger:
        asyncio.run(main(ledger))


def test_a_block_that_is_cancelled_while_it_drains_still_releases_the_run(
    ledger: nt.Ledger,
) -> None:
    async def main() -> None:
        began, go_on, leaving = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @nt.tool("unsafe_on_replay")
        async def run_drained(x: int) -> str:
            began.set()
            await go_on.wait()
            return "done"

        async def block() -> None:
            async with ledger.run("r"):
                call = asyncio.ensure_future(run_drained(1))
                await began.wait()
                call.cancel()
                leaving.set()

        task = asyncio.create_task(block())
        await leaving.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        async with ledger.run("r", acquire_timeout="10s"):
            assert [row.status for row in ledger.store.calls("r")] == [CallStatus.DONE]

    asyncio.run(main())
    assert status(ledger) == (RunStatus.COMPLETED, False)


def test_a_block_may_be_left_in_another_context_than_it_was_entered_in(
    ledger: nt.Ledger,
) -> None:
    """A web framework closes an async generator wherever it happens to be."""

    async def scoped() -> AsyncIterator[str | None]:
        async with ledger.run("r"):
            yield current_run_id()

    async def main() -> None:
        generator: Any = scoped()
        assert await asyncio.create_task(anext(generator)) == "r"
        await generator.aclose()

    asyncio.run(main())
    assert status(ledger)[1] is False


@pytest.mark.parametrize("run_id", ["", "a\nb", "x" * 513, 7, None, b"r"])
def test_an_id_that_cannot_be_kept_is_refused_and_nothing_is_created(
    ledger: nt.Ledger, run_id: Any
) -> None:
    with pytest.raises(nt.errors.InvalidId, match="The run id"), ledger.run(run_id):
        raise AssertionError("entered")
    assert ledger.store.runs() == []


def test_a_block_that_the_ledger_interrupts_has_not_failed() -> None:
    host, full = Host(), [True]

    @nt.tool("unsafe_on_replay", name="run under trouble")
    def send() -> str:
        return "sent"

    def work(ledger: nt.Ledger) -> str:
        with ledger.run("r"), nt.step("s"):
            sent = send()
            if full:
                raise nt.errors.StoreError(f"no space left, {full.pop()}")
            return sent

    with host.process() as ledger, pytest.raises(nt.errors.StoreError):
        work(ledger)
    left, (step,) = host.data.runs["r"], host.data.steps.values()
    assert (left.status, left.failure, left.holder_id) == (RunStatus.RUNNING, None, None)
    assert (step.status, step.failure) == (StepStatus.IN_PROGRESS, None)
    with host.process() as ledger:
        assert work(ledger) == "sent"
        assert status(ledger) == (RunStatus.COMPLETED, False)
