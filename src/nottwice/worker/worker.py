"""The worker: take runs that can continue, advance them, repeat until it is stopped (A6, M1).

It relies on the ledger alone. New runs, due timers, decisions, events, finished children and runs
of dead workers are all found by polling it: five times a second while idle, and immediately after a
run has got as far as it can. When asked to stop, it takes no new runs, lets every run finish its
current node, and releases it, so nothing is left in doubt. When killed, it leaves what any killed
process leaves, and the next worker takes over its runs immediately.
Promises kept here: P64, P65, P66.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import queue
from collections.abc import Iterator
from dataclasses import field, replace

from nottwice.engine import hiding, said
from nottwice.engine.drivers import drive
from nottwice.engine.said import Said
from nottwice.errors import LedgerCorrupt, RunBusy, SchemaTooNew, StoreError, UsageError
from nottwice.graphs.app import App
from nottwice.graphs.readiness import is_ready
from nottwice.graphs.undeployed import parking
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.review import ReviewKind, ReviewStatus
from nottwice.model.run import RunRecord, RunStatus, Wait, WaitKind
from nottwice.model.runs.limits import Meter, meters_of_run
from nottwice.model.tool import Duration, parse_duration
from nottwice.worker.choice import MOST_LIMIT_SECONDS, RunTask, TaskChoice
from nottwice.worker.crew import Crew, TaskReport
from nottwice.worker.presence import Presence

POLL_SECONDS = 0.2
GATHER_SECONDS = 0.01
MOST_STORE_SECONDS = 5.0
STRANGERS_SECONDS = 30.0
MORE_STRANGERS = 100
"""How many more runs are watched after each look, while there are more."""
MOST_STRANGERS = 1_000
"""How many runs without a review are watched at the same time."""
MOST_PARKED = 100
"""How many reviews are opened at once. Meanwhile the worker takes no runs."""
MOST_CONCURRENCY = 10_000

log = logging.getLogger("nottwice")


@frozen_record(frozen=True, slots=True)
class WorkerStats:
    """What a worker has done so far, counted in runs."""

    taken: int = 0
    completed: int = 0
    waiting: int = 0
    """Now waits for something."""
    failed: int = 0
    aborted: int = 0
    handed_back: int = 0
    """Released between two nodes, because the worker was asked to stop."""
    put_off: int = 0
    """Could not be advanced and will be tried again later, here or elsewhere."""
    at_work: tuple[str, ...] = field(default=())
    """Being advanced now. After the worker has returned: not finished within the drain timeout."""


class Worker:
    """Advances the runs of an app, many at a time: ``nt.Worker(app, concurrency=64).run()``.

    ``drain`` is how long a stopping worker waits for the current nodes. ``undeployable_after`` is
    how long a run that no deployed version can resume is left to other workers before a review is
    opened.
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
            raise UsageError(
                f"A worker needs an nt.App, and {app!r} is not an app. Nothing was started."
            )
        whole = isinstance(concurrency, int) and not isinstance(concurrency, bool)
        if not whole or not 1 <= concurrency <= MOST_CONCURRENCY:
            raise UsageError(
                f"concurrency={concurrency!r} is not a number from 1 to {MOST_CONCURRENCY}. "
                "Nothing was started."
            )
        self.app = app
        self.tally = WorkerStats()
        self._concurrency = concurrency
        self._drain_seconds = parse_duration(drain, what="drain")
        self._undeployable_seconds = parse_duration(undeployable_after, what="undeployable_after")
        self._heard: queue.SimpleQueue[TaskReport | None] = queue.SimpleQueue()
        self._stopping = False

    def __repr__(self) -> str:
        return f"<Worker of {self.app!r}: {self.tally!r}>"

    def run(self, *, until_idle: bool = False) -> WorkerStats:
        """Work until ``stop()`` is called or, with ``until_idle``, until no run can continue.

        Runs that only a limit holds back can continue, if they are tried again within five seconds.
        Returns what was done. An exception of a node is the failure of its run and does not stop
        the worker.
        """
        check_not_importing("A worker is started")
        return self._run(None, until_idle=until_idle)

    async def arun(self, *, until_idle: bool = False) -> WorkerStats:
        """Like ``run``, beside other tasks: async nodes run in the current event loop."""
        check_not_importing("A worker is started")
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(None, lambda: self._run(loop, until_idle=until_idle))
        while not work.done():
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                # Cancellation takes effect after the runs are released.
                self.stop()
                await asyncio.wait([work])
                raise
        return work.result()

    def stop(self) -> None:
        """Take no new runs, finish the current nodes, release the runs, and return.

        It may be called from any thread and from a signal handler.
        """
        self._stopping = True
        self._heard.put(None)

    def _run(self, loop: asyncio.AbstractEventLoop | None, *, until_idle: bool) -> WorkerStats:
        ledger = self.app.ledger
        shift = _Shift(self, ledger, loop)
        shift.choice.check_graphs()
        names = ", ".join(sorted(graph.id for graph in self.app.graphs))
        log.info("worker started: %s runs, %s, %s", self._concurrency, names, ledger.location)
        try:
            shift.work(until_idle=until_idle)
        except BaseException:
            # Includes Ctrl-C. Pressing it again ends the worker without draining.
            self.stop()
            shift.drain()
            raise
        finally:
            shift.crew.close()
            shift.presence.leave()
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
        self.choice = TaskChoice(ledger, worker.app)
        self.crew = Crew(
            ledger,
            worker._concurrency,
            report=worker._heard.put,
            told_to_stop=lambda: worker._stopping,
            loop=loop,
        )
        graphs = [graph.id for graph in self.choice.app.graphs]
        self.presence = Presence(ledger, graphs, concurrency=worker._concurrency)
        self._store_failures = 0
        self._strangers: dict[str, float] = {}
        """When each run that no worker takes was first seen."""
        self._told: set[str] = set()
        """Of these, the runs that were logged."""
        self._looked_for_strangers = ledger.clock.now()

    def work(self, *, until_idle: bool) -> None:
        while not self.worker._stopping:
            started = self._take_up()
            is_idle = not started and not self.crew.busy and not self._store_failures
            if until_idle and is_idle and not self.choice.holds_back():
                return
            self.presence.renew()
            self._hear(self._pause_seconds())
        self.drain()

    def _take_up(self) -> int:
        """Start as many runs as there is room for. Return how many were started."""
        try:
            if self.crew.free <= 0:
                return 0
            self._look_after_strangers()
            tasks = self.choice.next_tasks(self.crew.free, busy=self.crew.busy)
        except (LedgerCorrupt, SchemaTooNew):
            raise
        except StoreError as error:
            self._store_failures += 1
            log.warning("the worker cannot look for runs and will try again: %s", error)
            return 0
        self._store_failures = 0
        for task in tasks:
            _say(
                self.ledger,
                task,
                "advance the run",
                f"graph={task.run.graph_id!r} because={task.why!r}",
            )
            self.crew.start(task)
        self._count(taken=len(tasks), failed=self.choice.poisoned)
        self.choice.poisoned = 0
        return len(tasks)

    def _pause_seconds(self) -> float:
        if self._store_failures:
            return min(POLL_SECONDS * 2.0**self._store_failures, MOST_STORE_SECONDS)
        return POLL_SECONDS

    def _hear(self, seconds: float) -> None:
        """Wait for a report, and handle all that arrive within a moment.

        A worker that looked for runs after every report would look far more often than needed.
        """
        clock, enough = self.ledger.clock, max(1, self.worker._concurrency // 4)
        until = None
        try:
            report = self.worker._heard.get(timeout=seconds)
            while True:
                if report is not None:
                    self._note(report)
                until = clock.now() + GATHER_SECONDS if until is None else until
                left = until - clock.now()
                wait = self.crew.free < enough and 0 < left <= GATHER_SECONDS
                report = self.worker._heard.get(timeout=left if wait else 0)
        except queue.Empty:
            return

    def drain(self) -> None:
        """Wait until every run has finished its node, or until the drain timeout has passed."""
        clock, limit = self.ledger.clock, self.worker._drain_seconds
        log.info("worker is draining %s runs, at most %g s", len(self.crew.busy), limit)
        until = clock.now() + limit
        while self.crew.busy and clock.now() < until:
            self.presence.renew()
            self._hear(min(POLL_SECONDS, limit))
        if self.crew.busy:
            names = ", ".join(map(repr, sorted(self.crew.busy)))
            log.warning("worker abandons runs whose node did not end in %g s: %s", limit, names)

    def _note(self, report: TaskReport) -> None:
        self.crew.done(report)
        task, left = report.task, report.left
        if left is None:
            self._note_error(task, report.error)
        elif left.waits and left.waits == task.run.waits and self._is_ready(task.run_id):
            # What arrived was not used, so trying again immediately would not use it either.
            self._put_off(task, "it still waits for the same")
        else:
            self.choice.patience.forget(task.run_id)
            self._note_limit(task, left.waits)
            handed_back = left.status is RunStatus.RUNNING
            self._count(**{"handed_back" if handed_back else left.status.value: 1})

    def _note_limit(self, task: RunTask, waits: tuple[Wait, ...]) -> None:
        """If a run met a limit, note it; if that of its graph, leave the others in the queue for a
        while."""
        graph_id = task.run.graph_id or ""
        full = [meter.limit.text for meter in self._of_graph(graph_id)]
        now = self.ledger.clock.now()
        for wait in waits:
            if wait.subject in full and wait.until is not None:
                self.choice.note_limit(graph_id, min(wait.until, now + MOST_LIMIT_SECONDS))
        for until in self._limited_until(waits):
            if until <= now + MOST_LIMIT_SECONDS:
                self.choice.note_wait(until)

    def _limited_until(self, waits: tuple[Wait, ...]) -> Iterator[float]:
        """Yield when a run that met a limit is tried again, or each of its child runs that did."""
        texts = {limit.text for limit in self.ledger.host.limits}
        for wait in waits if texts else ():
            if wait.subject in texts and wait.until is not None:
                yield wait.until
            elif wait.kind is WaitKind.CHILD:
                child = self._load(wait.subject)
                yield from () if child is None else self._limited_until(child.waits)

    def _of_graph(self, graph_id: str) -> list[Meter]:
        limits = self.ledger.host.limits
        return meters_of_run(limits, split_graph_id(graph_id)[0], ()) if limits else []

    def _note_error(self, task: RunTask, error: BaseException | None) -> None:
        if isinstance(error, RunBusy):
            self._put_off(task, "another process drives it", longer=False)
            return
        left, kind, text = self._load(task.run_id), type(error).__name__, self._text(error)
        if left is not None and left.status is RunStatus.FAILED:
            self._count(failed=1)
            log.warning("run=%r failed: %s: %r", task.run_id, kind, text)
            return
        log.warning("run=%r cannot continue here: %s: %r", task.run_id, kind, text)
        self.choice.suspect(task.run_id)
        self._put_off(task, kind)

    def _text(self, error: BaseException | None) -> str:
        """The message of an error, even if reading it raises."""
        if error is None:
            return ""
        return hiding.classify(error, effectful=False, now=self.ledger.clock.now()).message

    def _put_off(self, task: RunTask, why: str, *, longer: bool = True) -> None:
        now = self.ledger.clock.now()
        seconds = self.choice.patience.put_off(task.run_id, now=now, longer=longer)
        self._count(put_off=1)
        _say(self.ledger, task, "postpone the run", f"seconds={seconds:g} because={why!r}")

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
        """Now and then, advance their parents, or open reviews if no worker takes them."""
        now = self.ledger.clock.now()
        every = min(STRANGERS_SECONDS, self.worker._undeployable_seconds)
        if 0 <= now - self._looked_for_strangers < every:
            return
        self._looked_for_strangers = now
        seen: dict[str, float] = {}
        names, left = {graph.name for graph in self.choice.app.graphs}, MOST_PARKED
        reviewed = self._reviewed()
        most = min(len(self._strangers) + MORE_STRANGERS, MOST_STRANGERS + len(reviewed))
        for run in self.choice.strangers(most):
            parent = self.choice.task_of_parent(run)
            if parent is not None:
                if self.crew.free > 0 and parent.run_id not in self.crew.busy:
                    self.crew.start(parent)
            elif (run.graph_id or "").rpartition("@")[0] in names:
                run_id = run.workflow_id
                since = seen[run_id] = self._strangers.get(run_id, now)
                is_due = now - since >= self.worker._undeployable_seconds
                is_new = run_id not in reviewed or run_id not in self._told
                is_decided = reviewed.get(run_id) is ReviewStatus.DECIDED
                if left > 0 and (is_decided or (is_due and is_new)):
                    left -= 1
                    self._park(run)
        self._strangers = seen
        self._told &= seen.keys()

    def _park(self, run: RunRecord) -> None:
        told = drive(
            parking(self.ledger.host, run, self.choice.app.deployed(run)), self.ledger.host
        )
        if run.workflow_id not in self._told:
            log.warning("%s", told)
        self._told.add(run.workflow_id)

    def _reviewed(self) -> dict[str, ReviewStatus]:
        """The runs that have a review because no deployed version can resume them."""
        return {
            review.identity.workflow_id: review.status
            for review in self.ledger.store.open_reviews()
            if review.kind is ReviewKind.UNDEPLOYABLE
        }


def _say(ledger: Ledger, task: RunTask, decision: str, detail: str) -> None:
    if said.is_heard():
        place = ledger.location
        told = Said(ledger=place, run_id=task.run_id, decision=decision, detail=detail)
        said.say(told, ledger.store)
