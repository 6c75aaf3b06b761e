"""A child run is started once, and how it ended is a receipt in its parent (A5, P29)."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field

import nottwice as nt
from nottwice.errors import ChildFailed, StoreError
from nottwice.graphs.children import child_run_id
from nottwice.model.call import MAX_ID_CHARACTERS, CallIdentity
from nottwice.model.review import ReviewKind, Verb
from nottwice.model.run import RunStatus, StepStatus, WaitKind
from nottwice.reviews.decide import decide
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryStore
from tests.fakes import Host
from tests.graphs.effects import Crash, Effects, answer, arun, crash, graph, run

State = dict[str, Any]


def child_of(effects: Effects) -> nt.Graph[Any]:
    child = graph("child")

    @child.node
    def work(state: State) -> Any:
        effects.visit("child")
        return {"result": effects.act(f"child {state.get('order')}")}

    return child


def parent_of(
    effects: Effects, spawn: Callable[[State], Any], name: str = "parent"
) -> nt.Graph[Any]:
    """Spawns, then breaks if told to, then has an effect of its own."""
    parent = graph(name)

    @parent.node
    def coordinate(state: State) -> Any:
        outcome = spawn(state)
        effects.visit("parent")
        return {"status": outcome.status, "result": (outcome.state or {}).get("result")}

    parent.node(name="last")(lambda state: effects.act("parent") and None)
    return parent


def children(host: Host) -> list[Any]:
    return [record for record in host.data.runs.values() if record.parent_id is not None]


def test_a_child_runs_to_its_end_and_its_state_is_its_result(host: Host, effects: Effects) -> None:
    child = child_of(effects)
    outcome = run(host, parent_of(effects, lambda state: nt.spawn(child, {"order": 7})))
    assert outcome.state == {"status": "completed", "result": "did child 7"}
    (record,) = children(host)
    assert (record.parent_id, record.root_id, record.graph_id) == ("r", "r", "child@1.0.0")
    assert record.workflow_id.startswith("r.")


def test_a_child_can_be_awaited(host: Host, effects: Effects) -> None:
    child, parent = graph("child"), graph("parent")

    @child.node
    async def work(state: State) -> Any:
        await asyncio.sleep(0)
        return {"result": effects.act("child")}

    @parent.node
    async def coordinate(state: State) -> Any:
        outcomes = await nt.gather(nt.aspawn(child, {"n": 1}), nt.aspawn(child, {"n": 2}))
        return {"results": [outcome.state["result"] for outcome in outcomes]}

    assert arun(host, parent).state == {"results": ["did child"] * 2}
    assert len(children(host)) == 2


def test_an_async_child_without_await_is_refused_before_it_exists(host: Host) -> None:
    child, parent = graph("child"), graph("parent")

    @child.node
    async def work(state: State) -> None: ...

    @parent.node
    async def coordinate(state: State) -> None:
        with pytest.raises(nt.errors.UsageError, match=r"await nt\.aspawn"):
            nt.spawn(child)

    assert arun(host, parent).status == "completed"
    assert children(host) == []


def test_a_resumed_parent_gets_the_receipt_and_starts_no_second_child(
    host: Host, effects: Effects
) -> None:
    child = child_of(effects)
    parent = parent_of(effects, lambda state: nt.spawn(child, {"order": 7}))
    effects.broken = {"parent"}
    crash(host, parent)
    effects.broken = set()
    assert run(host, parent).state == {"status": "completed", "result": "did child 7"}
    assert effects.visited == ["child", "parent", "parent"]
    assert effects.done == ["child 7", "parent"]
    assert len(children(host)) == 1


def test_what_led_to_a_child_is_durable_before_it_begins(host: Host, effects: Effects) -> None:
    child, known = graph("child"), list[list[str]]()

    @child.node
    def work(state: State) -> None:
        known.append([row.identity.tool_name for row in host.calls])

    def spawn(state: State) -> Any:
        return nt.spawn(child, {"order": effects.look(str(nt.uuid()))})

    run(host, parent_of(effects, spawn))
    assert known == [["nottwice.uuid", "look", "nottwice.child"]]


def test_the_envelope_is_the_same_live_and_replayed(host: Host, effects: Effects) -> None:
    child, seen = child_of(effects), list[Any]()

    def spawn(state: State) -> Any:
        seen.append(nt.spawn(child, {"order": 7}))
        return seen[-1]

    parent = parent_of(effects, spawn)
    effects.broken = {"parent"}
    crash(host, parent)
    effects.broken = set()
    run(host, parent)
    assert seen[0] == seen[1]


def test_the_same_child_asked_for_twice_is_one_and_a_label_makes_another(
    host: Host, effects: Effects
) -> None:
    child, parent = child_of(effects), graph("parent")

    @parent.node
    def coordinate(state: State) -> Any:
        outcomes = [
            nt.spawn(child, {"order": 1}),
            nt.spawn(child, {"order": 1}),
            nt.spawn(child, {"order": 1}, label="second"),
            nt.spawn(child, {"order": 2}),
        ]
        return {"ids": [outcome.run_id for outcome in outcomes]}

    ids = run(host, parent).state["ids"]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3
    assert effects.done == ["child 1", "child 1", "child 2"]


def test_the_same_child_asked_for_at_the_same_time_is_one_and_every_caller_gets_it(
    host: Host, effects: Effects
) -> None:
    """Threads and tasks of the user's own, which are no branches."""
    child, parent = child_of(effects), graph("parent")

    @parent.node
    async def coordinate(state: State) -> Any:
        both = await asyncio.gather(nt.aspawn(child, {"order": 1}), nt.aspawn(child, {"order": 1}))
        return {"results": [outcome.state["result"] for outcome in both]}

    outcome = arun(host, parent)
    assert outcome.state == {"results": ["did child 1"] * 2}
    assert effects.done == ["child 1"]


def test_every_visit_and_every_branch_has_children_of_its_own(host: Host, effects: Effects) -> None:
    child, parent = child_of(effects), graph("parent", append=["ids"])

    @parent.node(then={"again": "coordinate", "on": nt.END})
    def coordinate(state: State) -> Any:
        outcomes = nt.map(lambda order: nt.spawn(child, {"order": 1}), [1, 2])
        ids = [outcome.run_id for outcome in outcomes]
        return nt.goto("on" if state.get("ids") else "again", {"ids": ids})

    assert len(set(run(host, parent).state["ids"])) == 4
    assert effects.done == ["child 1"] * 4


class Marked(BaseModel):
    order: int
    token: str = Field(default_factory=lambda: uuid.uuid4().hex)


def test_what_a_factory_fills_in_does_not_make_another_child(host: Host, effects: Effects) -> None:
    child: nt.Graph[Marked] = nt.Graph("child", version="1.0.0", state=Marked)
    child.node(name="work")(lambda state: effects.act(state.token) and None)
    parent = graph("parent")

    @parent.node
    def coordinate(state: State) -> Any:
        token = nt.spawn(child, {"order": 7}).state.token
        effects.visit("parent")
        return {"token": token}

    effects.broken = {"parent"}
    crash(host, parent)
    effects.broken = set()
    assert run(host, parent).state == {"token": effects.done[0]}
    assert len(effects.done) == 1


def test_a_child_that_waits_makes_its_parent_wait(host: Host, effects: Effects) -> None:
    child = graph("child")

    @child.node
    def wait(state: State) -> Any:
        return {"result": nt.ask("Go on?", options=["yes"])}

    parent = parent_of(effects, lambda state: nt.spawn(child))
    outcome = run(host, parent)
    (record,) = children(host)
    assert outcome.status == "waiting"
    assert [(wait.kind.value, wait.subject) for wait in outcome.waits] == [
        ("child", record.workflow_id)
    ]
    # The caller of the parent can reach what a person must decide.
    assert [review.identity.workflow_id for review in outcome.reviews] == [record.workflow_id]
    assert run(host, parent).status == "waiting"
    answer(host, "yes")
    assert run(host, parent).state == {"status": "completed", "result": "yes"}
    assert effects.done == ["parent"]


def test_a_grandchild_that_waits_makes_all_of_them_wait(host: Host, effects: Effects) -> None:
    leaf = graph("leaf")
    leaf.node(name="wait")(lambda state: nt.sleep("1h"))
    middle = parent_of(effects, lambda state: nt.spawn(leaf), "middle")
    root = parent_of(effects, lambda state: nt.spawn(middle), "root")
    assert run(host, root).status == "waiting"
    assert {record.root_id for record in children(host)} == {"r"}
    assert run(host, root).status == "waiting"
    host.clock.advance(3600)
    assert run(host, root).status == "completed"
    assert effects.done == ["parent", "parent"]


def test_nothing_new_is_done_behind_a_child_that_waits(host: Host, effects: Effects) -> None:
    leaf, parent = graph("leaf"), graph("parent")
    leaf.node(name="wait")(lambda state: nt.sleep("1h"))

    @parent.node
    def swallow(state: State) -> None:
        try:
            nt.spawn(leaf)
        except nt.RunWaits:
            effects.act("behind it")

    assert run(host, parent).status == "waiting"
    assert effects.done == []
    host.clock.advance(3600)
    assert run(host, parent).status == "completed"


def test_a_child_that_fails_fails_its_parent_and_both_are_resumed_together(
    host: Host, effects: Effects
) -> None:
    child = child_of(effects)
    parent = parent_of(effects, lambda state: nt.spawn(child, {"order": 7}))
    effects.broken = {"child"}
    with pytest.raises(ChildFailed, match="failed: child") as caught:
        run(host, parent)
    assert isinstance(caught.value.__cause__, Crash)
    assert {record.status.value for record in host.data.runs.values()} == {"failed"}
    effects.broken = set()
    assert run(host, parent).state["result"] == "did child 7"
    assert len(children(host)) == 1


def test_a_failed_child_can_be_taken_as_a_result(host: Host, effects: Effects) -> None:
    child = child_of(effects)
    parent = parent_of(effects, lambda state: nt.spawn(child, {"order": 7}, check=False))
    effects.broken = {"child", "parent"}
    crash(host, parent)
    effects.broken = set()
    outcome = run(host, parent)
    assert outcome.state == {"status": "failed", "result": None}
    assert effects.visited == ["child", "parent", "parent"], "its failure is on record"


def test_a_recorded_failure_is_raised_by_code_that_checks(host: Host, effects: Effects) -> None:
    child, checks = child_of(effects), [False]
    parent = parent_of(effects, lambda state: nt.spawn(child, check=checks[0]))
    effects.broken = {"child", "parent"}
    crash(host, parent)
    effects.broken = set()
    checks[0] = True
    with pytest.raises(ChildFailed, match="was failed"):
        run(host, parent)


def test_an_aborted_child_is_on_record_with_its_parent(host: Host, effects: Effects) -> None:
    child = graph("child")
    child.node(name="wait")(lambda state: nt.sleep("1h"))
    parent = parent_of(effects, lambda state: nt.spawn(child))
    app = nt.App(graphs=[child, parent])
    run(host, parent)
    (record,) = children(host)
    with host.process() as ledger:
        nt.App(graphs=app.graphs, store=ledger).cancel(record.workflow_id, by="ann", why="no")
    for _ in range(2):
        with pytest.raises(ChildFailed, match="was aborted"):
            run(host, parent)
    with host.process() as ledger:
        assert parent.outcome("r", store=ledger).status == "failed"


def test_a_child_that_another_process_drives_makes_its_parent_wait(
    host: Host, effects: Effects
) -> None:
    child = graph("child")
    child.node(name="wait")(lambda state: effects.visit("child"))
    parent = parent_of(effects, lambda state: nt.spawn(child))
    effects.broken = {"child"}
    with pytest.raises(ChildFailed):
        run(host, parent)
    effects.broken = set()
    (record,) = children(host)

    # Another process holds the child for as long as it is at this node.
    other = graph("child", version="1.0.1")

    @other.node
    def wait(state: State) -> None:
        outcome = run(host, parent)
        assert outcome.status == "waiting"
        assert [wait.subject for wait in outcome.waits] == [record.workflow_id]

    assert run(host, other, run_id=record.workflow_id).status == "completed"
    assert run(host, parent).status == "completed"


def test_a_child_is_no_way_around_a_doubt(host: Host, effects: Effects) -> None:
    """While a review of the parent is open, no child of it does anything new (D11)."""
    child, parent = child_of(effects), graph("parent")

    @nt.tool("unsafe_on_replay")
    def lose(at: int) -> None:
        raise RuntimeError("the answer was lost")

    @parent.node
    def swallow(state: State) -> None:
        try:
            lose(at=1)
        except nt.errors.ReplayUnsafeError:
            nt.spawn(child)

    assert run(host, parent).status == "waiting"
    assert effects.done == []
    assert children(host) == []


def test_another_child_than_the_one_on_record_is_drift(host: Host, effects: Effects) -> None:
    child, orders = child_of(effects), [1]
    parent = parent_of(effects, lambda state: nt.spawn(child, {"order": orders[0]}))
    effects.broken = {"parent"}
    crash(host, parent)
    effects.broken = set()
    orders[0] = 2
    outcome = run(host, parent)
    assert outcome.status == "waiting"
    assert [review.kind.value for review in outcome.reviews] == ["drift"]
    assert effects.done == ["child 1"]
    orders[0] = 1
    assert run(host, parent).status == "waiting", "the review must be decided"


def breaking(effects: Effects, breaks: dict[int, Exception]) -> nt.Graph[Any]:
    """A child that acts, and then breaks off or fails as long as the test says so."""
    child = graph("child")

    @child.node
    def work(state: State) -> Any:
        effects.act(f"child {state['order']}")
        if state["order"] in breaks:
            raise breaks[state["order"]]

    return child


@pytest.mark.parametrize("error", [StoreError("no space left"), Crash("child")])
@pytest.mark.parametrize("asks", ["another child", "an effect", "nothing"])
def test_another_child_than_the_one_that_has_begun_is_drift(
    host: Host, effects: Effects, asks: str, error: Exception
) -> None:
    breaks, parent = {1: error}, graph("parent")
    child, asked = breaking(effects, breaks), ["the child"]

    @parent.node
    def work(state: State) -> None:
        match asked[0]:
            case "the child" | "another child" as which:
                nt.spawn(child, {"order": 1 if which == "the child" else 2})
            case "an effect":
                effects.act("parent")

    with pytest.raises((StoreError, ChildFailed)):
        run(host, parent)
    breaks.clear()
    asked[0] = asks
    outcome = run(host, parent)
    assert outcome.status == "waiting"
    (review,) = outcome.reviews
    assert review.kind is ReviewKind.DRIFT
    assert "nottwice.spawn(" in review.summary
    assert (effects.done, len(children(host))) == (["child 1"], 1)
    decide(
        MemoryStore(host.data), host.clock, review.review_id, Verb.ACCEPT, by="ann", why="it stays"
    )
    assert run(host, parent).status == "completed"
    assert effects.done[1:] == {"another child": ["child 2"], "an effect": ["parent"]}.get(asks, [])


def test_children_that_have_begun_are_asked_for_in_any_order(host: Host, effects: Effects) -> None:
    breaks, orders = {1: Crash("child"), 2: StoreError("no space left")}, [1, 2]
    child, parent = breaking(effects, breaks), graph("parent")

    @parent.node
    def work(state: State) -> None:
        for order in orders:
            with contextlib.suppress(ChildFailed):
                nt.spawn(child, {"order": order})

    with pytest.raises(StoreError):
        run(host, parent)
    breaks.clear()
    orders.reverse()
    assert run(host, parent).status == "completed"
    assert effects.done == ["child 1", "child 2"]


def test_a_child_that_was_noted_and_never_began_is_no_drift(
    host: Host, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    child, orders = child_of(effects), [1]
    parent = parent_of(effects, lambda state: nt.spawn(child, {"order": orders[0]}))
    commit = MemoryStore.commit

    def full(store: MemoryStore, given: Commit) -> None:
        if given.workflow_id != "r":
            raise StoreError("no space left")
        commit(store, given)

    for _ in range(2):
        with monkeypatch.context() as patch, pytest.raises(StoreError):
            patch.setattr(MemoryStore, "commit", full)
            run(host, parent)
    assert [row.identity.tool_name for row in host.calls] == ["nottwice.child"]
    orders[0] = 2
    assert run(host, parent).state == {"status": "completed", "result": "did child 2"}


def test_another_try_of_a_step_does_not_start_the_child_of_the_killed_try_again(
    host: Host, effects: Effects
) -> None:
    breaks: dict[int, Exception] = {1: StoreError("no space left")}
    child = breaking(effects, breaks)
    with (
        pytest.raises(StoreError),
        host.process() as ledger,
        ledger.run("r"),
        nt.step("work", at=1),
    ):
        nt.spawn(child, {"order": 1})
    breaks.clear()
    with (
        pytest.raises(nt.errors.ReplayDriftError),
        host.process() as ledger,
        ledger.run("r"),
        nt.step("work", at=2),
    ):
        nt.spawn(child, {"order": 1})
    assert effects.done == ["child 1"]


def test_a_child_that_code_no_longer_asks_for_first_is_drift(host: Host, effects: Effects) -> None:
    """A new child is a new effect: it is refused while one on record was not asked for again."""
    child, parent = child_of(effects), graph("parent")
    acts = [True]

    @parent.node
    def work(state: State) -> None:
        if acts[0]:
            effects.act("first")
            effects.visit("parent")
        nt.spawn(child)

    effects.broken = {"parent"}
    crash(host, parent)
    acts[0] = False
    outcome = run(host, parent)
    assert outcome.status == "waiting"
    assert [review.kind.value for review in outcome.reviews] == ["drift"]
    assert children(host) == []


@pytest.mark.parametrize("length", [10, MAX_ID_CHARACTERS])
def test_the_id_of_a_child_follows_from_the_call_and_always_fits(length: int) -> None:
    def identity(tool: str) -> CallIdentity:
        return CallIdentity("p" * length, "node", "g@1.0.0/1", tool, "hash")

    found = child_run_id("p" * length, identity("spawn"))
    assert found == child_run_id("p" * length, identity("spawn"))
    assert found != child_run_id("p" * length, identity("other"))
    assert len(found) <= MAX_ID_CHARACTERS


def test_a_label_that_cannot_be_kept_is_refused(host: Host, effects: Effects) -> None:
    child = child_of(effects)
    with pytest.raises(nt.errors.InvalidId, match="label"):
        run(host, parent_of(effects, lambda state: nt.spawn(child, label="")))
    assert children(host) == []


def test_an_input_that_does_not_fit_starts_no_child(host: Host, effects: Effects) -> None:
    child: nt.Graph[Marked] = nt.Graph("child", version="1.0.0", state=Marked)
    child.node(name="work")(lambda state: None)
    with pytest.raises(nt.errors.InvalidGraph, match="does not fit"):
        run(host, parent_of(effects, lambda state: nt.spawn(child, {"order": "many"})))
    assert children(host) == []


def test_a_child_is_spawned_inside_a_run() -> None:
    with pytest.raises(nt.errors.NotInRun, match=r"nt\.spawn"):
        nt.spawn(graph("child"))


def test_a_plain_run_can_have_children_too(host: Host, effects: Effects) -> None:
    child = child_of(effects)
    for _ in range(2):
        with host.process() as ledger, ledger.run("r"), nt.step("work"):
            assert nt.spawn(child, {"order": 7}).status == "completed"
    assert effects.done == ["child 7"]


def test_what_is_no_graph_is_refused_before_anything_is_spawned(
    host: Host, effects: Effects
) -> None:
    parent = parent_of(effects, lambda state: nt.spawn("child"))  # type: ignore[arg-type]
    with pytest.raises(
        nt.errors.UsageError, match=r"nt\.spawn takes a graph, and 'child' is not a graph"
    ):
        run(host, parent)
    awaiting = graph("awaiting")

    @awaiting.node
    async def coordinate(state: State) -> None:
        await nt.aspawn("child")  # type: ignore[arg-type]

    with pytest.raises(nt.errors.UsageError, match=r"nt\.aspawn takes a graph"):
        arun(host, awaiting, run_id="s")
    assert children(host) == []


# Trouble with the ledger


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("drive", [run, arun])
def test_a_child_that_meets_a_full_disk_is_resumed_with_its_parent(
    host: Host, effects: Effects, drive: Callable[..., Any], check: bool
) -> None:
    full, child = [True], graph("child")

    @child.node
    def work(state: State) -> Any:
        result = effects.act("child")
        if full:
            raise StoreError(f"no space left, {full.pop()}")
        return {"result": result}

    parent = parent_of(effects, lambda state: nt.spawn(child, check=check))
    with pytest.raises(StoreError, match="no space left"):
        drive(host, parent)
    for record in host.data.runs.values():
        assert (record.status, record.failure, record.holder_id) == (RunStatus.RUNNING, None, None)
    assert {step.status for step in host.data.steps.values()} == {StepStatus.IN_PROGRESS}
    assert drive(host, parent).state == {"status": "completed", "result": "did child"}
    assert effects.done == ["child", "parent"]


def test_a_child_that_failed_before_is_no_receipt_when_it_cannot_even_be_claimed(
    host: Host, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = child_of(effects)
    parent = parent_of(effects, lambda state: nt.spawn(child, {"order": 7}, check=not effects.done))
    effects.broken = {"child"}
    with pytest.raises(ChildFailed):
        run(host, parent)
    effects.broken, effects.done[:] = set(), ["meanwhile"]
    commit = MemoryStore.commit

    def full(store: MemoryStore, given: Commit) -> None:
        if given.claim is not None and given.workflow_id != "r":
            raise StoreError("no space left")
        commit(store, given)

    with monkeypatch.context() as patch, pytest.raises(StoreError):
        patch.setattr(MemoryStore, "commit", full)
        run(host, parent)
    assert run(host, parent).state == {"status": "completed", "result": "did child 7"}


def test_a_child_that_another_worker_takes_as_soon_as_it_waits_is_no_failure(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timer of milliseconds may be over before the process that released it looks again."""
    child, root = graph("child"), graph("root")
    child.node(name="rest")(lambda state: nt.sleep("5ms"))
    root.node(name="spawn")(lambda state: {"child": nt.spawn(child).status})
    with host.process() as other, host.process() as ledger:
        holder_id, commit = other.store.holder().holder_id, ledger.store.commit

        def commit_and_lose(one: Commit) -> None:
            commit(one)
            run = host.data.runs[one.workflow_id]
            if one.run is not None and one.run.release and run.parent_id is not None:
                taken = replace(run, status=RunStatus.RUNNING, epoch=2, holder_id=holder_id)
                host.data.runs[one.workflow_id] = replace(taken, waits=())

        monkeypatch.setattr(ledger.store, "commit", commit_and_lose)
        outcome = root.run("r", store=ledger)
    assert outcome.status == "waiting"
    assert host.data.runs["r"].status is RunStatus.WAITING
    assert [wait.kind for wait in host.data.runs["r"].waits] == [WaitKind.CHILD]
