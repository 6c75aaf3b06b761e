"""Temporal's own server and SDK, real workers, real SIGKILLs. Runs inside `.venv-hosts`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    ResetWorkflowExecutionRequest,
)
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError
from temporalio.service import RPCError

import nottwice as nt
from tests.hosts.inside.effects import lines, looks, plan_death, wait_for
from tests.hosts.inside.servers import database, free_port, is_listening
from tests.hosts.inside.temporal_worker import Task
from tests.hosts.inside.tools import apart, place_ledger, store_of

__all__ = ["database"]

WORKER = Path(__file__).with_name("temporal_worker.py")
SERVER = Path(sys.executable).parent / "temporal"
SEND = [[["send", "a"]]]
ADDRESS: list[str] = []
CONTROL = pytest.mark.parametrize("words", [["bare"], []], ids=["bare", "protected"])


class Stage:
    """One test: its folder, its queue, and a client."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.queue = uuid.uuid4().hex

    @contextmanager
    def worker(self, *words: str, before: Sequence[str] = ()) -> Iterator[subprocess.Popen[bytes]]:
        """A worker. ``before``: what to put before its command."""
        process = self._start(*words, before=before)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def _start(self, *words: str, before: Sequence[str]) -> subprocess.Popen[bytes]:
        address = self.client.service_client.config.target_host
        program = [*before, sys.executable, str(WORKER)]
        command = [*program, address, self.queue, str(self.folder), *words]
        (self.folder / "ready").unlink(missing_ok=True)
        log = (self.folder / "log").open("ab")
        process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
        wait_for(lambda: (self.folder / "ready").exists() or process.poll() is not None)
        return process

    async def start(
        self, plan: Any, *, seconds: float = 60.0, generations: int = 0
    ) -> WorkflowHandle[Any, Any]:
        return await self.client.start_workflow(
            Task.run,
            args=[plan, seconds, generations],
            id=f"task-{self.queue}",
            task_queue=self.queue,
        )

    async def killed(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until a worker is dead."""
        await asyncio.to_thread(process.wait, 60)
        assert process.returncode == -9, (self.folder / "log").read_text()[-3000:]

    @property
    def ledger(self) -> nt.Ledger:
        return nt.Ledger(store_of(self.folder), create=False)

    @property
    def done(self) -> list[str]:
        return sorted(lines(self.folder))


@pytest.fixture(scope="session", autouse=True)
def server() -> Iterator[str]:
    """Temporal's server for development, in memory; its address."""
    port = free_port()
    command = [str(SERVER), "server", "start-dev", "--headless", "--port", str(port)]
    process = subprocess.Popen([*command, "--log-level", "never"], stdout=subprocess.DEVNULL)
    try:
        wait_for(lambda: is_listening(port), seconds=60)
        ADDRESS.append(f"127.0.0.1:{port}")
        yield ADDRESS[0]
    finally:
        process.kill()
        process.wait()


def play(scene: Callable[[Stage], Awaitable[None]], folder: Path) -> None:
    async def work() -> None:
        client = await _connected()
        await asyncio.wait_for(scene(Stage(client, folder)), 200)

    asyncio.run(work())


async def _connected() -> Client:
    for _ in range(100):
        try:
            client = await Client.connect(ADDRESS[0])
            request = DescribeNamespaceRequest(namespace="default")
            await client.workflow_service.describe_namespace(request)
        except (RuntimeError, RPCError):
            # The port is open before the server is ready.
            await asyncio.sleep(0.2)
        else:
            return client
    raise AssertionError("The server did not become ready.")


@CONTROL
def test_a_worker_killed_after_the_effect(tmp_path: Path, words: list[str]) -> None:
    """P306. Two effects without nottwice, one with it."""

    async def scene(stage: Stage) -> None:
        plan_death(stage.folder, "after")
        with stage.worker(*words) as first:
            handle = await stage.start(SEND, seconds=3)
            await stage.killed(first)
        with stage.worker(*words):
            assert await handle.result() == [{"did": "a-0"}]
        assert len(stage.done) == (2 if words else 1)

    play(scene, tmp_path)


@pytest.mark.parametrize("at", ["before", "acknowledge"])
@pytest.mark.parametrize("how", ["bare", "send", "asend"])
def test_a_worker_killed_before_the_effect_or_after_the_receipt(
    tmp_path: Path, at: str, how: str
) -> None:
    """P306. A kill before the effect repeats nothing in the control either."""
    words, name = (["bare"], "send") if how == "bare" else ([], how)

    async def scene(stage: Stage) -> None:
        plan_death(stage.folder, at)
        with stage.worker(*words) as first:
            handle = await stage.start([[[name, "a"]]], seconds=3)
            await stage.killed(first)
        with stage.worker(*words):
            assert await handle.result() == [{"did": "a-0"}]
        assert len(stage.done) == (2 if words and at == "acknowledge" else 1)

    play(scene, tmp_path)


@CONTROL
def test_a_worker_that_is_told_to_stop_leaves_no_async_tool_in_doubt(
    tmp_path: Path, words: list[str]
) -> None:
    """P304. Temporal cancels its activity. The worker ends when the outcome is recorded."""

    async def scene(stage: Stage) -> None:
        (stage.folder / "slow").touch()
        with stage.worker(*words) as first:
            handle = await stage.start([[["apost", "a"]]])
            await asyncio.to_thread(wait_for, (stage.folder / "slowed").exists)
            first.terminate()
            await _until_attempt(handle, 2)
            # Without nottwice, the event loop has ended by now, and with it the call.
            await asyncio.sleep(1)
            (stage.folder / "go").touch()
            assert await asyncio.to_thread(first.wait, 60) == 0
        with stage.worker(*words):
            assert await handle.result() == [{"did": "a-0"}]
        assert stage.done == (["a-0", "a-0"] if words else ["a-0"])

    play(scene, tmp_path)


@CONTROL
def test_an_effect_that_outlives_its_timeout_on_two_workers(
    tmp_path: Path, words: list[str]
) -> None:
    """P306. The second worker waits for the first instead of doing it again."""

    async def scene(stage: Stage) -> None:
        (stage.folder / "slow").touch()
        with stage.worker(*words), stage.worker(*words):
            handle = await stage.start(SEND, seconds=2)
            await asyncio.to_thread(wait_for, (stage.folder / "slowed").exists)
            # The first attempt hangs. Temporal has given it up and has begun another one.
            await _until_attempt(handle, 3)
            (stage.folder / "go").touch()
            assert await handle.result() == [{"did": "a-0"}]
        assert (len(stage.done) > 1) == bool(words)

    play(scene, tmp_path)


@CONTROL
def test_a_slow_activity_in_another_pid_namespace_is_waited_for(
    tmp_path: Path, words: list[str]
) -> None:
    """P306. Its process is alive, although its number means another process here."""

    async def scene(stage: Stage) -> None:
        (stage.folder / "slow").touch()
        with stage.worker(*words, before=apart()):
            handle = await stage.start(SEND, seconds=2)
            await asyncio.to_thread(wait_for, (stage.folder / "slowed").exists)
            with stage.worker(*words):
                await _until_attempt(handle, 4)
                (stage.folder / "go").touch()
                assert await handle.result() == [{"did": "a-0"}]
        assert (len(stage.done) > 1) == bool(words)

    play(scene, tmp_path)


@CONTROL
def test_the_database_is_restarted_under_an_activity(
    tmp_path: Path, database: Any, words: list[str]
) -> None:
    """P290. A receipt waits for the database. The control keeps its own receipts, and loses one."""

    async def scene(stage: Stage) -> None:
        (stage.folder / "slow").touch()
        with stage.worker(*words):
            handle = await stage.start([[["send", "a"]], [["send", "b"]]])
            await asyncio.to_thread(wait_for, (stage.folder / "slowed").exists)
            await asyncio.to_thread(database.restart)
            (stage.folder / "go").touch()
            assert await handle.result() == [{"did": "a-0"}, {"did": "b-0"}]
        assert stage.done == (["a-0", "a-0", "b-0"] if words else ["a-0", "b-0"])

    place_ledger(tmp_path, database.url)
    play(scene, tmp_path)


async def _until_attempt(handle: WorkflowHandle[Any, Any], number: int) -> None:
    while True:
        described = await handle.describe()
        pending = described.raw_description.pending_activities
        if not pending or pending[0].attempt >= number:
            return
        await asyncio.sleep(0.1)


@CONTROL
def test_parallel_activities_of_one_workflow_are_made_once_each(
    tmp_path: Path, words: list[str]
) -> None:
    async def scene(stage: Stage) -> None:
        plan = [[["send", f"{n}"] for n in range(6)], [["send", "last"]]]
        plan_death(stage.folder, "after")
        with stage.worker(*words) as first:
            handle = await stage.start(plan, seconds=3)
            await stage.killed(first)
        with stage.worker(*words):
            assert len(await handle.result()) == 7
        assert sorted(set(stage.done)) == [*(f"{n}-0" for n in range(6)), "last-0"]
        assert (len(stage.done) > 7) == bool(words)

    play(scene, tmp_path)


@CONTROL
def test_a_reset_gets_the_receipts(tmp_path: Path, words: list[str]) -> None:
    """P306. An operator resets the workflow to its beginning."""

    async def scene(stage: Stage) -> None:
        with stage.worker(*words):
            handle = await stage.start([[["send", "a"]], [["send", "b"]]])
            await handle.result()
            execution = WorkflowExecution(
                workflow_id=handle.id, run_id=handle.first_execution_run_id
            )
            request = ResetWorkflowExecutionRequest(
                namespace="default",
                workflow_execution=execution,
                reason="a test",
                workflow_task_finish_event_id=4,
                request_id=uuid.uuid4().hex,
            )
            reset = await stage.client.workflow_service.reset_workflow_execution(request)
            again = stage.client.get_workflow_handle(handle.id, run_id=reset.run_id)
            assert await again.result() == [{"did": "a-0"}, {"did": "b-0"}]
        assert stage.done == sorted(["a-0", "b-0"] * (2 if words else 1))

    play(scene, tmp_path)


def test_continue_as_new_is_a_new_task(tmp_path: Path) -> None:
    """P306. The same activities again, with other run ids, take effect again, once each. So a
    control would count the same."""

    async def scene(stage: Stage) -> None:
        with stage.worker():
            handle = await stage.start(SEND, generations=2)
            await handle.result()
        assert stage.done == ["a-0", "a-1", "a-2"]
        with stage.ledger as ledger:
            groups = {run.group for run in ledger.runs()}
            assert len(groups) == 3
            assert all(run.id == f"{run.group}/send.1" for run in ledger.runs())

    play(scene, tmp_path)


def test_a_doubt_is_a_pending_activity_until_a_person_has_decided(tmp_path: Path) -> None:
    """P306. Nothing fails, the history does not grow, and the decision is used.

    Temporal alone asks nobody: its control is the worker killed after the effect.
    """

    async def scene(stage: Stage) -> None:
        plan_death(stage.folder, "after")
        with stage.worker() as first:
            handle = await stage.start([[["post", "a"]], [["post", "b"]]], seconds=3)
            await stage.killed(first)
        with stage.worker():
            await _until_attempt(handle, 4)
            history = await handle.fetch_history()
            described = await handle.describe()
            (pending,) = described.raw_description.pending_activities
            failure = pending.last_failure
            assert failure.application_failure_info.type == "nottwice.ReplayUnsafeError"
            assert len(history.events) == 5
            with nt.Reviews(store_of(stage.folder)) as reviews:
                (review,) = reviews.open()
                review_id = review.review.review_id
                assert review_id in failure.message
                said: dict[str, Any] = {"result": {"did": "seen"}, "by": "ann", "why": "looked"}
                reviews.decide(review_id, "happened", **said)
            assert await handle.result() == [{"did": "seen"}, {"did": "b-0"}]
        assert stage.done == ["a-0", "b-0"]

    play(scene, tmp_path)


def test_a_tool_that_fails_permanently_fails_its_activity(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        with stage.worker():
            handle = await stage.start([[["refuse", "a"]]])
            with pytest.raises(WorkflowFailureError) as caught:
                await handle.result()
            cause: Any = caught.value.cause
            assert cause.cause.type == "nottwice.Permanent"
            assert cause.cause.non_retryable

    play(scene, tmp_path)


def test_a_method_of_an_instance_is_an_activity_and_sends_heartbeats(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        with stage.worker():
            handle = await stage.start([[["refund", "a"], ["arefund", "b"], ["read", "c"]]])
            assert await handle.result() == [
                {"did": "a-0", "shop": "main"},
                {"did": "b-0", "shop": "main"},
                {"read": "c-0", "shop": "main"},
            ]
        assert stage.done == ["a-0", "b-0"]

    play(scene, tmp_path)


def test_a_wait_for_verify_sends_heartbeats_and_hears_of_a_cancellation(tmp_path: Path) -> None:
    """P304. One attempt waits for longer than its heartbeat timeout. When it is cancelled, it
    asks no person."""

    async def scene(stage: Stage) -> None:
        plan_death(stage.folder, "after")
        with stage.worker() as first:
            handle = await stage.start([[["ponder", "a"]]])
            await stage.killed(first)
        with stage.worker():
            # The waits between six looks add up to twelve seconds.
            await asyncio.to_thread(wait_for, lambda: looks(stage.folder) >= 6)
            described = await handle.describe()
            (pending,) = described.raw_description.pending_activities
            assert pending.attempt == 2
            await handle.cancel()
            with pytest.raises(WorkflowFailureError) as caught:
                await handle.result()
            assert isinstance(caught.value.cause, CancelledError)
            with nt.Reviews(store_of(stage.folder)) as reviews:
                assert reviews.open() == []
        assert stage.done == ["a-0"]

    play(scene, tmp_path)


@pytest.mark.parametrize("ends", ["answers", "is cancelled"])
def test_a_verify_longer_than_the_heartbeat_timeout(tmp_path: Path, ends: str) -> None:
    """P304. Temporal hears of the activity while verify runs, and the activity of Temporal."""

    async def scene(stage: Stage) -> None:
        plan_death(stage.folder, "after")
        with stage.worker() as first:
            handle = await stage.start([[["brood", "a"]]], seconds=120)
            await stage.killed(first)
        with stage.worker():
            await asyncio.to_thread(wait_for, lambda: looks(stage.folder) == 1)
            # Twice as long as the heartbeat timeout. A second attempt would ask once more.
            await asyncio.sleep(8)
            described = await handle.describe()
            (pending,) = described.raw_description.pending_activities
            assert (pending.attempt, looks(stage.folder)) == (2, 1)
            if ends == "answers":
                (stage.folder / "answer").touch()
                assert await handle.result() == [{"did": "a-0"}]
            else:
                await handle.cancel()
                with pytest.raises(WorkflowFailureError) as caught:
                    await asyncio.wait_for(handle.result(), 30)
                assert isinstance(caught.value.cause, CancelledError)
            with nt.Reviews(store_of(stage.folder)) as reviews:
                assert reviews.open() == []
        assert stage.done == ["a-0"]

    play(scene, tmp_path)
