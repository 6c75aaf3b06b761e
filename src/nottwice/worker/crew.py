"""What advances a worker's runs? Threads, and one event loop for graphs with async nodes.

A thread drives a graph of plain functions. A task of the event loop drives a graph with async
nodes, whose plain nodes run in other threads. All threads are daemons. Whatever still runs when the
drain timeout has passed ends with the process, as if it were killed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from nottwice.engine.advance import Advanced
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.opening import Opening
from nottwice.graphs.running import advancing
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.worker.choice import RunTask


@frozen_record(frozen=True, slots=True)
class TaskReport:
    """The result of a task: how its run was left, or what was raised."""

    task: RunTask
    left: Advanced | None = None
    error: BaseException | None = None


class Crew:
    """Advances at most ``size`` runs at a time and reports each when it can get no further."""

    def __init__(
        self,
        ledger: Ledger,
        size: int,
        *,
        report: Callable[[TaskReport], None],
        told_to_stop: Callable[[], bool],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._ledger = ledger
        self._size = size
        self._report = report
        self._told_to_stop = told_to_stop
        self._tasks: SimpleQueue[RunTask | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._loop = loop
        self._own_loop: threading.Thread | None = None
        self.busy: dict[str, RunTask] = {}
        """The runs being advanced, by id."""

    @property
    def free(self) -> int:
        return self._size - len(self.busy)

    def start(self, task: RunTask) -> None:
        """Start to advance a run, without waiting for it."""
        self.busy[task.run_id] = task
        if any(code.is_async for code in task.graph.code.values()):
            asyncio.run_coroutine_threadsafe(self._advance_async(task), self._event_loop())
            return
        if len(self._threads) < len(self.busy):
            thread = threading.Thread(target=self._work, name="nottwice-worker", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._tasks.put(task)

    def done(self, report: TaskReport) -> None:
        """Handle a report: a place becomes free."""
        self.busy.pop(report.task.run_id, None)

    def close(self) -> None:
        """End the threads once they have nothing to do."""
        for _ in self._threads:
            self._tasks.put(None)
        if self._own_loop is not None and self._loop is not None and not self.busy:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._own_loop.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                doing = advancing(task.graph, self._opening(task))
                report = TaskReport(task, drive(doing, self._ledger.host))
            except BaseException as error:
                # Includes sys.exit() and the like: one run must not stop the others.
                report = TaskReport(task, error=error)
            self._report(report)

    async def _advance_async(self, task: RunTask) -> None:
        try:
            doing = advancing(task.graph, self._opening(task))
            report = TaskReport(task, await drive_async(doing, self._ledger.host))
        except BaseException as error:
            report = TaskReport(task, error=error)
        self._report(report)

    def _opening(self, task: RunTask) -> Opening:
        return Opening(
            host=self._ledger.host,
            run_id=task.run_id,
            told_to_stop=self._told_to_stop,
            claimed=task.claimed,
        )

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            # Plain nodes of all runs may run at the same time. The default pool is too small.
            pool = ThreadPoolExecutor(self._size, thread_name_prefix="nottwice-worker-node")
            self._loop.set_default_executor(pool)
            self._own_loop = threading.Thread(
                target=_run_loop, args=(self._loop, pool), name="nottwice-worker-loop", daemon=True
            )
            self._own_loop.start()
        return self._loop


def _run_loop(loop: asyncio.AbstractEventLoop, pool: ThreadPoolExecutor) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        pool.shutdown(wait=True)
        loop.close()
