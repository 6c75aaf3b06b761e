"""What do the processes of the soak do? Workers advance runs, and a decider answers for people.

Every worker takes any run that is ready, in an order of its own; so runs change hands all the
time, also between processes that live. The runs wait for timers, for answers, and, where a worker
was killed at the wrong moment, for a person who checks whether it happened.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import nottwice as nt
from nottwice.graphs.readiness import is_ready
from nottwice.model.review import Review, ReviewKind, ReviewStatus
from nottwice.model.run import RunStatus
from nottwice.store.sqlite.store import SqliteStore
from tests.kill.agents import Process
from tests.kill.programs import program

State = dict[str, Any]
EFFECTS = (
    "mail begin",
    "charge first",
    "post 0",
    "post 1",
    "charge left",
    "mail right",
    "post end",
)
"""What one run does to the world: each of these once."""


class Work:
    """The graph that is soaked."""

    def __init__(self, process: Process) -> None:
        self.process = process
        world = process.world

        def found(call: nt.Call) -> nt.Verification:
            seen = world.find(call.tool, call_id=call.id)
            return nt.did_not_happen() if seen is None else nt.happened(seen.result)

        def does(what: str) -> str:
            call = nt.current_call()
            run = call.run_id
            order: dict[str, Any] = {"run": run, "what": what, "result": what}
            return str(world.do(call.tool, key=call.key, call_id=call.id, **order))

        @nt.tool("unsafe_on_replay")
        def mail(what: str) -> str:
            return does(what)

        @nt.tool("unsafe_on_replay", verify=found, settles="1ms")
        def post(what: str) -> str:
            return does(what)

        @nt.tool("idempotent_with_key", key=nt.key_per_call, window="24h")
        def charge(what: str) -> str:
            return does(what)

        @nt.tool("pure")
        def look(at: int) -> int:
            return at + 1

        self.mail, self.post, self.charge, self.look = mail, post, charge, look
        self.flow = self._flow()

    def _flow(self) -> nt.Graph[Any]:
        flow: nt.Graph[Any] = nt.Graph("soaked", version="1.0.0", append=("log",))

        def add(name: str, body: Any, **route: Any) -> None:
            flow.node(name=name, **route)(body)

        add("begin", lambda state: {"log": [self.look(at=1), self.mail("begin")]})
        add("charge", lambda state: {"log": [self.charge("first")]})
        add("rest", lambda state: nt.sleep("5ms"))
        add("loop", self._loop, then={"again": "loop", "on": "ask"})
        add("ask", lambda state: {"answer": nt.ask("Go on?", options=["yes", "no"])})
        add("split", lambda state: None, then=["left", "right"], join="meet")
        add("left", lambda state: {"left": self.charge("left")})
        add("right", lambda state: {"right": self.mail("right")})
        add("meet", lambda state: {"log": [self.look(at=2)]})
        add("end", lambda state: {"log": [self.post("end")]})
        return flow

    def _loop(self, state: State) -> Any:
        number = len(state["log"]) - 3
        return nt.goto("again" if number < 1 else "on", {"log": [self.post(str(number))]})


FINAL_STATE = {
    "log": [2, "begin", "first", "0", "1", 3, "end"],
    "answer": "yes",
    "left": "left",
    "right": "right",
}


@program
def soak_worker(process: Process) -> None:
    """Advance runs until all are finished."""
    work = Work(process)
    chosen = random.Random(process.plan.more["seed"])
    store = SqliteStore(process.plan.ledger, now=process.clock.now())
    ledger = nt.Ledger(store, clock=process.clock)
    while left := list(unfinished(process, store)):
        chosen.shuffle(left)
        for run_id in left:
            if store.load_run(run_id) is None or is_ready(store, run_id, now=process.clock.now()):
                with contextlib.suppress(nt.RunBusy):
                    work.flow.run(run_id, {"log": []}, store=ledger)
        process.clock.pause(0.002)


def unfinished(process: Process, store: SqliteStore) -> Iterator[str]:
    for number in range(process.plan.more["runs"]):
        run_id = f"run-{number}"
        record = store.load_run(run_id)
        if record is None or record.status is not RunStatus.COMPLETED:
            yield run_id


@program
def soak_decider(process: Process) -> None:
    """Answer every question, and say truthfully what happened, until all runs are finished."""
    work = Work(process)
    store = SqliteStore(process.plan.ledger, now=process.clock.now())
    ledger = nt.Ledger(store, clock=process.clock)
    decided = 0
    while list(unfinished(process, store)):
        for review in store.open_reviews():
            if review.status is ReviewStatus.OPEN:
                # Another process may use, close or decide it, or its holder may still live.
                with contextlib.suppress(nt.errors.UsageError, nt.errors.DecisionConflict):
                    decide(work, nt.Reviews(ledger), review)
                    decided += 1
        process.clock.pause(0.002)
    process.say(decided=decided)


def decide(work: Work, reviews: nt.Reviews, review: Review) -> None:
    if review.kind is ReviewKind.QUESTION:
        reviews.decide(review.review_id, "yes", by="ann")
        return
    seen = work.process.world.find(review.identity.tool_name, call_id=review.call_id)
    if seen is None:
        reviews.decide(review.review_id, "did-not-happen", by="ann", why="looked")
    else:
        reviews.decide(review.review_id, "happened", by="ann", why="looked", result=seen.result)
