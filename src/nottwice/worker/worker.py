"""The worker: take up what can go on, advance it, begin again; until somebody says stop (A6, M1).

It knows nothing but the ledger: new runs, due timers, decisions, events, children that ended and
runs of dead workers are all found by looking there, five times a second while nothing happens and
at once when a run of its own has come as far as it goes. Told to stop, it takes nothing new, lets
every run finish the node that is under way, and hands it back: nothing is left in doubt. Killed, it
leaves what any killed process leaves, and the next worker takes its runs at once. Promises kept
here: P64, P65, P66.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import queue
from dataclasses import field, replace

from nottwice.engine import said
from nottwice.engine.drivers import drive
from nottwice.engine.said import Said
from nottwice.errors import LedgerCorrupt, RunBusy, SchemaTooNew, StoreError, UsageError
from nottwice.graphs.app import App
from nottwice.graphs.readiness import is_ready
from nottwice.graphs.undeployed import parking
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger
from nottwice.model.records import frozen_record
from nottwice.model.review import ReviewKind, ReviewStatus
from nottwice.model.run import RunRecord, RunStatus
from nottwice.model.tool import Duration, parse_duration
from nottwice.worker.choice import Choice, Task
from nottwice.worker.crew import Crew, Report

POLL_SECONDS = 0.2
MOST_STORE_SECONDS = 5.0
STRANGERS_SECONDS = 30.0
MOST_CONCURRENCY = 10_000

log = logging.getLogger("nottwice")


@frozen_record(frozen=True, slots=True)
class Tally:
    """What a worker has done so far, in runs."""

    taken: int = 0
    completed: int = 0
    waiting: int = 0
    """Came to wait for something."""
    failed: int = 0
    aborted: int = 0
    handed_back: int = 0
    """Given up between two nodes, because the worker was told to stop."""
    put_off: int = 0
    """Could not be advanced, and will be tried again later, here or elsewhere."""
    at_work: tuple[str, ...] = field(default=())
    """Under way: when a worker has returned, what did not end in the time for draining."""


class Worker:
    """Advances the runs of an app, many at once: ``nt.Worker(app, concurrency=64).run()``.

    ``drain``: how long a worker that was told to stop waits for nodes that are under way.
    ``undeployable_after``: how long a run that no version here can take is left to other workers
    before people are told.
    """

    def __init__(
        self,
        app: App,
        *,
        concurrency: int = 8,
        drain: Duration = "60s",
        undeployable_after: Duration = "10m",
    ) -> None:
        if not isinstance(app, App):
            raise UsageError(f"A worker needs an nt.App, and {app!r} is none. Nothing was started.")
        whole = isinstance(concurrency, int) and not isinstance(concurrency, bool)
        if not whole or not 1 <= concurrency <= MOST_CONCURRENCY:
            raise UsageError(
                f"concurrency={concurrency!r} is not a number from 1 to {MOST_CONCURRENCY}. "
                "Nothing was started."
            )
        self.app = app
        self.tally = Tally()
        self._concurrency = concurrency
        self._drain_seconds = parse_duration(drain, what="drain")
        self._undeployable_seconds = parse_duration(undeployable_after, what="undeployable_after")
        self._heard: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._stopping = False

    def run(self, *, until_idle: bool = False) -> Tally:
        """Work until ``stop()`` is called, or, with ``until_idle``, until nothing can go on now.

        Returns what was done. A node's own exception is the failure of its run, and no reason to
        stop.
        """
        check_not_importing("A worker is started")
        return self._run(None, until_idle=until_idle)

    async def arun(self, *, until_idle: bool = False) -> Tally:
        """The same beside other tasks: graphs with async nodes run in this very event loop."""
        check_not_importing("A worker is started")
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(None, lambda: self._run(loop, until_idle=until_idle))
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                # Whoever cancels gets its way once the runs are handed back.
                self.stop()
                await asyncio.wait([work])
                raise
        return work.result()

    def stop(self) -> None:
        """Take nothing new, finish the nodes that are under way, hand the runs back, return.

        May be called from any thread, and from a signal handler.
        """
        self._stopping = True
        self._heard.put(None)

    def _run(self, loop: asyncio.AbstractEventLoop | None, *, until_idle: bool) -> Tally:
        ledger = self.app.ledger
        shift = _Shift(self, ledger, loop)
        shift.choice.check_graphs()
        names = ", ".join(sorted(graph.id for graph in self.app.graphs))
        log.info("worker started: %s at once, %s, in %s", self._concurrency, names, ledger.location)
        try:
            shift.work(until_idle=until_idle)
        except BaseException:
            # Also Ctrl-C: whoever cannot wait for an end in order presses it again.
            self.stop()
            shift.drain()
            raise
        finally:
            shift.crew.close()
        done = dataclasses.asdict(self.tally)
        log.info("worker stopped: %s", " ".join(f"{name}={done[name]!r}" for name in done))
        return self.tally


class _Shift:
    """One call of ``Worker.run``."""

    def __init__(
        self, worker: Worker, ledger: Ledger, loop: asyncio.AbstractEventLoop | None
    ) -> None:
        self.worker = worker
        self.ledger = ledger
        self.choice = Choice(ledger, worker.app)
        self.crew = Crew(
            ledger,
            worker._concurrency,
            report=worker._heard.put,
            told_to_stop=lambda: worker._stopping,
            loop=loop,
        )
        self._store_failures = 0
        self._strangers: dict[str, float] = {}
        """Since when runs are seen that nobody takes."""
        self._looked_for_strangers = ledger.clock.now()

    def work(self, *, until_idle: bool) -> None:
        while not self.worker._stopping:
            started = self._take_up()
            if until_idle and not started and not self.crew.busy and not self._store_failures:
                return
            self._hear(self._pause_seconds())
        self.drain()

    def _take_up(self) -> int:
        """Start what can go on, as much as there is room for; return how much that was."""
        try:
            if self.crew.free <= 0:
                return 0
            self._look_after_strangers()
            tasks = self.choice.next_tasks(self.crew.free, busy=self.crew.busy)
        except (LedgerCorrupt, SchemaTooNew):
            raise
        except StoreError as error:
            self._store_failures += 1
            log.warning("the worker cannot look for runs now, and tries again: %s", error)
            return 0
        self._store_failures = 0
        for task in tasks:
            _say(
                self.ledger,
                task,
                "take up the run",
                f"graph={task.run.graph_id!r} because={task.why!r}",
            )
            self.crew.start(task)
        self._count(taken=len(tasks))
        return len(tasks)

    def _pause_seconds(self) -> float:
        if self._store_failures:
            return min(POLL_SECONDS * 2.0**self._store_failures, MOST_STORE_SECONDS)
        return POLL_SECONDS

    def _hear(self, seconds: float) -> None:
        """Wait for reports, and take note of all that are there."""
        try:
            report = self.worker._heard.get(timeout=seconds)
            while True:
                if report is not None:
                    self._note(report)
                report = self.worker._heard.get_nowait()
        except queue.Empty:
            return

    def drain(self) -> None:
        """Wait until every run has finished its node, or until the time for that is over."""
        clock, limit = self.ledger.clock, self.worker._drain_seconds
        log.info("worker drains: %s runs, at most %g s", len(self.crew.busy), limit)
        until = clock.now() + limit
        while self.crew.busy and clock.now() < until:
            self._hear(min(POLL_SECONDS, limit))
        if self.crew.busy:
            names = ", ".join(map(repr, sorted(self.crew.busy)))
            log.warning("worker gives up on runs whose node did not end in %g s: %s", limit, names)

    def _note(self, report: Report) -> None:
        self.crew.done(report)
        task, left = report.task, report.left
        if left is None:
            self._note_error(task, report.error)
        elif left.waits and left.waits == task.run.waits and self._is_ready(task.run_id):
            # What has come was not used, so it will not be used by trying at once again.
            self._put_off(task, "it waits for the same as before")
        else:
            self.choice.patience.forget(task.run_id)
            handed_back = left.status is RunStatus.RUNNING
            self._count(**{"handed_back" if handed_back else left.status.value: 1})

    def _note_error(self, task: Task, error: BaseException | None) -> None:
        if isinstance(error, RunBusy):
            self._put_off(task, "somebody else drives it", longer=False)
            return
        left, kind = self._load(task.run_id), type(error).__name__
        if left is not None and left.status is RunStatus.FAILED:
            self._count(failed=1)
            log.warning("run=%r failed: %s: %r", task.run_id, kind, str(error))
            return
        log.warning("run=%r cannot go on here: %s: %r", task.run_id, kind, str(error))
        self.choice.suspect(task.run_id)
        self._put_off(task, kind)

    def _put_off(self, task: Task, why: str, *, longer: bool = True) -> None:
        now = self.ledger.clock.now()
        seconds = self.choice.patience.put_off(task.run_id, now=now, longer=longer)
        self._count(put_off=1)
        _say(self.ledger, task, "put the run off", f"seconds={seconds:g} because={why!r}")

    def _is_ready(self, run_id: str) -> bool:
        try:
            return is_ready(self.ledger.store, run_id, now=self.ledger.clock.now())
        except StoreError:
            return False

    def _load(self, run_id: str) -> RunRecord | None:
        try:
            return self.ledger.store.load_run(run_id)
        except StoreError:
            return None

    def _count(self, **more: int) -> None:
        tally = self.worker.tally
        sums = {name: getattr(tally, name) + number for name, number in more.items()}
        self.worker.tally = replace(tally, **sums, at_work=tuple(self.crew.busy))

    # Runs that this worker cannot take

    def _look_after_strangers(self) -> None:
        """Now and then: advance the parents of some, and tell people of those nobody takes."""
        now = self.ledger.clock.now()
        every = min(STRANGERS_SECONDS, self.worker._undeployable_seconds)
        if 0 <= now - self._looked_for_strangers < every:
            return
        self._looked_for_strangers = now
        seen: dict[str, float] = {}
        names = {graph.name for graph in self.choice.app.graphs}
        for run in self.choice.strangers():
            parent = self.choice.task_of_parent(run)
            if parent is not None:
                if self.crew.free > 0 and parent.run_id not in self.crew.busy:
                    self.crew.start(parent)
            elif (run.graph_id or "").rpartition("@")[0] in names:
                since = seen[run.workflow_id] = self._strangers.get(run.workflow_id, now)
                if now - since >= self.worker._undeployable_seconds or self._is_decided(run):
                    deployed = self.choice.app.deployed(run)
                    log.warning("%s", drive(parking(self.ledger, run, deployed), self.ledger))
        self._strangers = seen

    def _is_decided(self, run: RunRecord) -> bool:
        reviews = self.ledger.store.open_reviews(run.workflow_id)
        return any(
            review.kind is ReviewKind.UNDEPLOYABLE and review.status is ReviewStatus.DECIDED
            for review in reviews
        )


def _say(ledger: Ledger, task: Task, decision: str, detail: str) -> None:
    if said.is_heard():
        place = ledger.location
        told = Said(ledger=place, run_id=task.run_id, decision=decision, detail=detail)
        said.say(told, ledger.store)
