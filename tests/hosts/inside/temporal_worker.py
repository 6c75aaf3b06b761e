"""A Temporal worker that a test kills: ``python temporal_worker.py ADDRESS QUEUE FOLDER [bare]``.

With ``bare`` it has the same activities without nottwice, as the control.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import (
    ActivityInboundInterceptor,
    ExecuteActivityInput,
    Interceptor,
    Worker,
)

with workflow.unsafe.imports_passed_through():
    from tests.hosts.inside.effects import die_if_planned, take_effect
    from tests.hosts.inside.tools import functions, store_of

import nottwice as nt

FOLDER = Path(sys.argv[3]) if len(sys.argv) > 3 else Path()
BARE = sys.argv[4:] == ["bare"]
WAITS = ("ponder", "brood")
QUICKLY = RetryPolicy(
    initial_interval=timedelta(milliseconds=200), maximum_interval=timedelta(seconds=1)
)


@workflow.defn(sandboxed=True)
class Task:
    """Start activities as its plan says: one after another, or several in parallel."""

    @workflow.run
    async def run(self, plan: list[list[list[str]]], seconds: float, generations: int) -> list[Any]:
        done: list[Any] = []
        for together in plan:
            started = [
                workflow.execute_activity(
                    name,
                    f"{line}-{generations}",
                    start_to_close_timeout=timedelta(seconds=seconds),
                    retry_policy=QUICKLY,
                    heartbeat_timeout=timedelta(seconds=4) if name in WAITS else None,
                    cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
                )
                for name, line in together
            ]
            done += await asyncio.gather(*started)
        if generations:
            workflow.continue_as_new(args=[plan, seconds, generations - 1])
        return done


class Shop:
    """Activities that are methods, and send heartbeats."""

    def __init__(self, name: str) -> None:
        self.name = name

    @activity.defn
    @nt.tool("unsafe_on_replay", bound_by=("name",))
    def refund(self, line: str) -> dict[str, str]:
        activity.heartbeat(line)
        return {**take_effect(FOLDER, line), "shop": self.name}

    @activity.defn
    @nt.tool("unsafe_on_replay", bound_by=("name",))
    async def arefund(self, line: str) -> dict[str, str]:
        activity.heartbeat(line)
        return {**take_effect(FOLDER, line), "shop": self.name}

    @activity.defn
    @nt.tool("pure", bound_by=("name",))
    def read(self, line: str) -> dict[str, str]:
        activity.heartbeat(line)
        return {"read": line, "shop": self.name}


class Dying(Interceptor):
    """Kills the worker after an activity has returned, before Temporal hears of it."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Dying(next)


class _Dying(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        result = await super().execute_activity(input)
        die_if_planned(FOLDER, "acknowledge")
        return result


async def main(address: str, queue: str) -> None:
    # Not in the module, which Temporal imports once more for each workflow.
    activities = [activity.defn(each) for each in functions(FOLDER, bare=BARE).values()]
    shop = Shop("main")
    activities += [shop.refund, shop.arefund, shop.read]
    plugin = nt.temporal.Plugin(store_of(FOLDER), look_again="500ms")
    client = await Client.connect(address, plugins=[] if BARE else [plugin])
    with ThreadPoolExecutor(8) as pool:
        worker = Worker(
            client,
            task_queue=queue,
            workflows=[Task],
            activities=activities,
            activity_executor=pool,
            interceptors=[Dying()],
            # How long Temporal waits for a worker that has died, before another one may continue.
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        )
        told_to_stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told_to_stop.set)
        async with worker:
            (FOLDER / "ready").touch()
            await told_to_stop.wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
