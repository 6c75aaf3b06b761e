"""What do the processes of a fleet do? Workers advance runs; other processes enqueue and decide.

The graph waits for everything that a run can wait for: time, a person, an event, a child run that
waits itself; so no run ends unless workers find each of these when it has come.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
from typing import Any

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.model.review import ReviewStatus
from nottwice.model.run import RunRecord, RunStatus
from tests.kill.agents import Process
from tests.kill.programs import program
from tests.kill.soak import EFFECTS, Work, decide
from tests.kill.stores import KillingStore

FLEET_EFFECTS = (*EFFECTS, "mail child", "charge child", "post heard")
GO = "go"
MOST_STARTS = 300


class FleetWork(Work):
    """The same graph, and more to wait for."""

    def _flow(self) -> nt.Graph[Any]:
        self.child: nt.Graph[Any] = nt.Graph("fleet-child", version="1.0.0")
        self.child.node(name="begin")(lambda state: {"mail": self.mail("child")})
        self.child.node(name="rest")(lambda state: nt.sleep("5ms"))
        self.child.node(name="end")(lambda state: {"charge": self.charge("child")})
        flow = super()._flow()
        flow.node(name="spawn")(lambda state: {"child": nt.spawn(self.child).status})
        flow.node(name="hear")(lambda state: {"heard": nt.receive(GO)})
        flow.node(name="tell")(lambda state: {"told": self.post("heard")})
        return flow

    def app(self, ledger: Ledger) -> nt.App:
        # Not the child: a worker finds what its graphs spawn, or continues it through them.
        return nt.App(graphs=[self.flow], store=ledger)


def open_ledger(process: Process) -> Ledger:
    """Whatever the plan names: a file, or a database, which may be starting at this very moment.

    The supervisor starts a worker again that could not reach its ledger.
    """
    for _ in range(MOST_STARTS):
        with contextlib.suppress(nt.errors.StoreError):
            return nt.Ledger(process.plan.ledger, clock=process.clock)
        process.clock.pause(0.1)
    return nt.Ledger(process.plan.ledger, clock=process.clock)


def run_ids(process: Process) -> list[str]:
    return [f"run-{number}" for number in range(process.plan.more["runs"])]


@program
def fleet_producer(process: Process) -> None:
    """Enqueue all runs; a process that was killed meanwhile does so again."""
    ledger = open_ledger(process)
    app = FleetWork(process).app(ledger)
    new = sum(app.enqueue("soaked", run_id, {"log": []}) for run_id in run_ids(process)[::2])
    new += app.enqueue_all("soaked", {key: {"log": []} for key in run_ids(process)})
    process.say(new=new)


@program
def fleet_worker(process: Process) -> None:
    """Work until it is told to stop."""
    ledger = open_ledger(process)
    worker = nt.Worker(FleetWork(process).app(ledger), concurrency=process.plan.more["at_once"])
    signal.signal(signal.SIGTERM, lambda number, frame: worker.stop())
    process.say(started=True)
    process.say(tally=dataclasses.asdict(worker.run()))


class ClaimedWork(Work):
    """A graph with one effect."""

    def _flow(self) -> nt.Graph[Any]:
        flow: nt.Graph[Any] = nt.Graph("claimed", version="1.0.0")
        flow.node(name="only")(lambda state: {"mail": self.mail("only")})
        return flow


@program
def fleet_claimer(process: Process) -> None:
    """Work until nothing is ready, or until it dies with runs that it has claimed."""
    opened = open_ledger(process)
    store: Any = KillingStore(opened.store, process.reach)
    ledger = nt.Ledger(store, clock=process.clock)
    app = nt.App(graphs=[ClaimedWork(process).flow], store=ledger)
    app.enqueue_all("claimed", dict.fromkeys(run_ids(process)))
    worker = nt.Worker(app, concurrency=process.plan.more["at_once"])
    process.say(tally=dataclasses.asdict(worker.run(until_idle=True)))


@program
def fleet_poisoned(process: Process) -> None:
    """Work until nothing is ready. One of the runs ends every process that takes it up."""
    work = ClaimedWork(process)
    flow: nt.Graph[Any] = nt.Graph("poisoned", version="1.0.0")

    def only(state: dict[str, Any]) -> dict[str, Any]:
        if state["dies"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"mail": work.mail("only")}

    flow.node(name="only")(only)
    app = nt.App(graphs=[flow], store=open_ledger(process))
    names = run_ids(process)
    app.enqueue_all("poisoned", {name: {"dies": name == names[0]} for name in names})
    worker = nt.Worker(app, concurrency=process.plan.more["at_once"])
    process.say(tally=dataclasses.asdict(worker.run(until_idle=True)))


@program
def fleet_limited(process: Process) -> None:
    """Work until every run is completed, and say whether two calls were ever in progress."""
    inside = pathlib.Path(process.plan.more["inside"])
    overlaps = 0

    @nt.tool("unsafe_on_replay", name="limited_mail")
    def mail(what: str) -> str:
        nonlocal overlaps
        try:
            os.close(os.open(inside, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            overlaps += 1
            return what
        run = nt.current_call().run_id
        done = process.world.do("limited_mail", call_id=run, run=run, what=what, result=what)
        process.clock.pause(0.02)
        inside.unlink()
        return str(done)

    flow: nt.Graph[Any] = nt.Graph("limited", version="1.0.0")
    flow.node(name="only")(lambda state: {"mail": mail("only")})
    limits = [nt.Limit(tool="limited_mail", concurrency=1)]
    app = nt.App(graphs=[flow], store=open_ledger(process), limits=limits)
    app.enqueue_all("limited", dict.fromkeys(run_ids(process)))
    process.say(started=True)
    worker = nt.Worker(app, concurrency=process.plan.more["at_once"])
    while app.ledger.store.runs(status=RunStatus.RUNNING) or app.ledger.store.runs(
        status=RunStatus.WAITING
    ):
        worker.run(until_idle=True)
        process.clock.pause(0.02)
    process.say(overlaps=overlaps)


def has_lost_its_workers(run: RunRecord) -> bool:
    return run.failure is not None and run.failure.error_type == "WorkerKilled"


@program
def fleet_decider(process: Process) -> None:
    """Answer, check whether it happened, and let every run continue, until all are completed.

    A run whose worker happened to be killed five times before it got further is failed: enqueue it
    again (P312).
    """
    work, ledger = FleetWork(process), open_ledger(process)
    store, app = ledger.store, work.app(ledger)
    for run_id in run_ids(process):
        ledger.send(run_id, GO, event_id=GO)
    left = set(run_ids(process))
    while left:
        for review in store.open_reviews():
            if review.status is ReviewStatus.OPEN:
                with contextlib.suppress(nt.errors.UsageError, nt.errors.DecisionConflict):
                    decide(work, nt.Reviews(ledger), review)
        runs = [run for run in map(store.load_run, left) if run is not None]
        left -= {run.workflow_id for run in runs if run.status is RunStatus.COMPLETED}
        for run in runs:
            if any(has_lost_its_workers(one) for one in (run, *store.children(run.workflow_id))):
                app.enqueue("soaked", run.workflow_id, {"log": []}, retry=True)
        process.clock.pause(0.02)
