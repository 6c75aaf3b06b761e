"""Which graphs do the tests run, kill and run again?

One graph has everything in it: a line, a choice, a loop, branches that meet, a map inside of a node
and a child run, with a tool of every kind. Every commit, every request to the World and both ends
of every node are places with a name of their own, the same in every process, so that a test can
name the very moment at which a process dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import nottwice as nt
from nottwice.graphs.outcome import Outcome
from nottwice.model.call import CallStatus
from nottwice.model.review import Review, ReviewKind
from nottwice.store.files.store import JsonFileStore
from nottwice.store.interface import Commit, Store
from nottwice.store.sqlite.store import SqliteStore
from tests.kill.agents import Process
from tests.kill.programs import program
from tests.kill.stores import KillingStore

State = dict[str, Any]


class PlacedStore(KillingStore):
    """A store whose commits are places, each with what it is about in its name."""

    def commit(self, commit: Commit) -> None:
        self._reach(f"before {name_of(commit)}")
        self._store.commit(commit)
        self._reach(f"after {name_of(commit)}")

    def commit_soon(self, commit: Commit) -> Future[None]:
        self._reach(f"before {name_of(commit)}")
        future = self._store.commit_soon(commit)
        # The first callback: the process that waits for the commit has not been told yet.
        future.add_done_callback(lambda done: self._reach(f"after {name_of(commit)}"))
        return future


def name_of(commit: Commit) -> str:
    """What a commit is about, without its pending writes."""
    run = commit.workflow_id.count(".") * "child "
    if commit.claim is not None:
        return f"{run}claim"
    if commit.run is not None and commit.run.release:
        return f"{run}release"
    if commit.reviews:
        return f"{run}{commit.reviews[0].review.status.value} review"
    if not commit.calls or not commit.calls[-1].row.replay_class.effectful:
        return f"{run}flush"
    row = commit.calls[-1].row
    kind = "intent" if row.status is CallStatus.PENDING else "result"
    visit = row.identity.checkpoint_id.rpartition("/")[2]
    return f"{run}{kind} {row.identity.node_id} {visit} {row.identity.tool_name} {row.args_json}"


class Everything:
    """The graph that has everything in it, and what its tools do."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.cadence = process.plan.more.get("cadence", "effects")
        world, does = process.world, self._does

        def found(call: nt.Call) -> nt.Verification:
            seen = world.find(self._named(call.tool), call_id=call.id)
            return nt.did_not_happen() if seen is None else nt.happened(seen.result)

        @nt.tool("unsafe_on_replay")
        def mail(to: str) -> str:
            return does(to=to)

        @nt.tool("unsafe_on_replay", verify=found, settles="1ms")
        def post(text: str) -> str:
            return does(text=text)

        @nt.tool("idempotent_with_key", key="charge-{order}", window="24h")
        def charge(order: str) -> str:
            return does(order=order)

        @nt.tool("pure")
        def look(at: int) -> int:
            return at * 10

        self.mail, self.post, self.charge, self.look = mail, post, charge, look
        self.child = self._child()
        self.flow = self._flow()

    def _named(self, tool: str) -> str:
        return f"{self.process.plan.effect} {tool}"

    def _does(self, **args: str) -> str:
        call = nt.current_call()
        place = f"{call.step} {call.tool} {args}"
        self.process.reach(f"before effect {place}")
        result = f"{call.tool} {' '.join(args.values())}"
        name = self._named(call.tool)
        order: dict[str, Any] = {"call_id": call.id, "result": result, **args}
        given = self.process.world.do(name, key=call.key, **order)
        self.process.reach(f"after effect {place}")
        return str(given)

    def _node(
        self, flow: nt.Graph[Any], body: Callable[[State], Any], name: str, **route: Any
    ) -> None:
        """A node with a place at either end of it."""

        def placed(state: State) -> Any:
            self.process.reach(f"begin {flow.name} {name}")
            returned = body(state)
            self.process.reach(f"end {flow.name} {name}")
            return returned

        async def placed_async(state: State) -> Any:
            # The body blocks, like much of what people write into async functions.
            return await asyncio.to_thread(placed, state)

        is_async = self.process.plan.is_async and "map" not in name
        flow.node(name=name, **route)(placed_async if is_async else placed)

    def _child(self) -> nt.Graph[Any]:
        child: nt.Graph[Any] = nt.Graph("child", version="1.0.0", checkpoints=self.cadence)
        self._node(child, lambda state: {"posted": self.post(text=state["text"])}, "post")
        self._node(child, lambda state: {"charged": self.charge(order="child")}, "charge")
        return child

    def _flow(self) -> nt.Graph[Any]:
        flow: nt.Graph[Any] = nt.Graph(
            "everything", version="1.0.0", append=("log",), checkpoints=self.cadence
        )

        def add(body: Callable[[State], Any], name: str, **route: Any) -> None:
            self._node(flow, body, name, **route)

        add(lambda state: {"seen": self.look(at=state["start"])}, "look")
        add(lambda state: {"log": [self.mail(to="first")]}, "mail")
        add(self._loop, "loop", then={"again": "loop", "on": "split"})
        add(lambda state: {"log": ["split"]}, "split", then=["left", "right"], join="meet")
        add(lambda state: {"left": self.charge(order="left"), "log": ["left"]}, "left")
        add(lambda state: {"right": self.post(text="right")}, "right", then="right2")
        add(lambda state: {"log": [self.mail(to="right")]}, "right2", then="meet")
        add(lambda state: {"seen": self.look(at=state["seen"])}, "meet")
        add(self._map, "map")
        add(self._spawn, "spawn")
        add(lambda state: {"log": [self.look(at=1)]}, "end")
        return flow

    def _loop(self, state: State) -> Any:
        log = [self.post(text="again"), self.look(at=len(state["log"]))]
        return nt.goto("again" if len(state["log"]) < 2 else "on", {"log": log})

    def _map(self, state: State) -> Any:
        return {"mapped": nt.map(lambda item: self.charge(order=f"item {item}"), range(2))}

    def _spawn(self, state: State) -> Any:
        child = nt.spawn(self.child, {"text": f"from {state['seen']}"})
        return {"child": child.state, "log": [child.status]}


@program
def everything(process: Process) -> None:
    """Advance the run as far as it goes, as operators would: deciding truthfully what waits."""
    whole = Everything(process)
    kind = JsonFileStore if process.plan.more.get("files") else SqliteStore
    store: Store = kind(process.plan.ledger, now=process.clock.now())
    ledger = nt.Ledger(PlacedStore(store, process.reach), clock=process.clock)
    outcome = _advance(whole, ledger)
    for _ in range(10):
        if outcome.status != "waiting":
            break
        for run in store.runs():
            for review in store.open_reviews(run.workflow_id):
                _decide(whole, ledger, review)
        outcome = _advance(whole, ledger)
    process.say(status=outcome.status, state=outcome.state, places=process.places)


def _advance(whole: Everything, ledger: nt.Ledger) -> Outcome[Any]:
    run_id, given = whole.process.plan.run, {"start": 7, "log": []}
    if whole.process.plan.is_async:
        return asyncio.run(whole.flow.arun(run_id, given, store=ledger))
    return whole.flow.run(run_id, given, store=ledger)


def _decide(whole: Everything, ledger: nt.Ledger, review: Review) -> None:
    assert review.kind is ReviewKind.IN_DOUBT, review
    if review.decision is not None:
        return
    name = f"{whole.process.plan.effect} {review.identity.tool_name}"
    seen = whole.process.world.find(name, call_id=review.call_id)
    reviews = nt.Reviews(ledger)
    if seen is None:
        reviews.decide(review.review_id, "did-not-happen", by="ann", why="looked")
    else:
        reviews.decide(review.review_id, "happened", by="ann", why="looked", result=seen.result)
