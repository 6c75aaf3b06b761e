"""A worker takes ready runs and nothing else, and stops cleanly (P64, P65, P66)."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice import policy
from nottwice.errors import StoreError
from nottwice.model.review import ReviewKind, Verb
from nottwice.model.run import RunRecord, RunStatus
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryStore
from nottwice.worker import worker as module
from nottwice.worker.choice import OWN_RUNS_SECONDS
from tests.fakes import Host
from tests.graphs.effects import Crash, Effects, answer, graph, run

SECONDS = 30.0


def one_node(function: Callable[[Any], Any], name: str = "flow", **options: Any) -> nt.Graph[Any]:
    flow = graph(name, **options)
    flow.node(name="a")(function)
    return flow


def work(host: Host, *graphs: nt.Graph[Any], **options: Any) -> nt.types.WorkerStats:
    """A worker in a separate process, until no run is ready."""
    with host.process() as ledger:
        return nt.Worker(nt.App(graphs=graphs, store=ledger), **options).run(until_idle=True)


def enqueue(host: Host, flow: nt.Graph[Any], *run_ids: str, given: Any = None) -> None:
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue_all(flow.name, dict.fromkeys(run_ids, given))


def status(host: Host, run_id: str = "r") -> RunStatus:
    return host.data.runs[run_id].status


# What it takes up


def test_it_advances_every_run_that_was_enqueued_once(host: Host, effects: Effects) -> None:
    flow = one_node(lambda state: effects.act(state["what"]) and None)
    names = [f"r{number}" for number in range(40)]
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue_all("flow", {name: {"what": name} for name in names})
    tally = work(host, flow, concurrency=4)
    assert (tally.taken, tally.completed, tally.at_work) == (40, 40, ())
    assert sorted(effects.done) == sorted(names)
    assert {status(host, name) for name in names} == {RunStatus.COMPLETED}
    assert work(host, flow) == nt.types.WorkerStats()


def test_it_advances_a_run_whose_timer_is_due_and_not_before(host: Host) -> None:
    flow = one_node(lambda state: nt.sleep("1h"))
    run(host, flow)
    assert work(host, flow).taken == 0
    host.clock.advance(3600)
    assert work(host, flow).completed == 1


def test_it_advances_a_run_whose_question_was_answered(host: Host) -> None:
    flow = one_node(lambda state: {"answer": nt.ask("Go on?")})
    enqueue(host, flow, "r")
    assert work(host, flow).waiting == 1
    assert work(host, flow).taken == 0
    answer(host, "yes")
    assert work(host, flow).completed == 1


def test_it_advances_a_run_whose_event_has_come(host: Host) -> None:
    flow = one_node(lambda state: {"paid": nt.receive("paid")})
    run(host, flow)
    assert work(host, flow).taken == 0
    with host.process() as ledger:
        ledger.send("r", "paid", 40)
    assert work(host, flow).completed == 1


def test_it_advances_a_run_that_its_process_left_in_the_middle(
    host: Host, effects: Effects
) -> None:
    flow = one_node(lambda state: effects.act("once") and None)
    with host.process(dies_at=5) as ledger:
        flow.run("r", store=ledger)
    assert status(host) is RunStatus.RUNNING
    assert host.data.runs["r"].holder_id is not None
    tally = work(host, flow)
    assert tally.taken == 1
    # There is no way to know whether it happened: a person is asked, and it is not done again.
    assert len(effects.done) <= 1


def test_it_never_takes_the_run_of_a_live_holder(host: Host) -> None:
    with host.process() as other:
        at_work, go_on = threading.Event(), threading.Event()

        def wait(state: Any) -> None:
            at_work.set()
            assert go_on.wait(SECONDS)

        busy = one_node(wait)
        thread = threading.Thread(target=lambda: busy.run("r", store=other))
        thread.start()
        assert at_work.wait(SECONDS)
        assert work(host, busy).taken == 0
        assert host.data.runs["r"].epoch == 1
        go_on.set()
        thread.join()
    assert status(host) is RunStatus.COMPLETED


def test_a_child_continues_by_itself_and_its_end_wakes_its_parent(
    host: Host, effects: Effects
) -> None:
    child = one_node(lambda state: {"answer": nt.ask("Go on?")}, "child")
    parent = one_node(lambda state: {"child": nt.spawn(child).state["answer"]}, "parent")
    parent.node(name="b")(lambda state: effects.act("after") and None)
    enqueue(host, parent, "r")
    assert work(host, parent).waiting == 1
    answer(host, "yes")
    tally = work(host, parent)
    assert (tally.taken, tally.completed) == (2, 2)
    assert (status(host), effects.done) == (RunStatus.COMPLETED, ["after"])


def test_a_child_that_fails_by_itself_fails_its_parent_and_is_not_retried_forever(
    host: Host, effects: Effects
) -> None:
    child = one_node(lambda state: {"answer": nt.ask("Go on?")}, "child")
    child.node(name="b")(lambda state: effects.visit("broken"))
    effects.broken = {"broken"}
    parent = one_node(lambda state: nt.spawn(child) and None, "parent")
    enqueue(host, parent, "r")
    work(host, parent)
    answer(host, "yes")
    assert work(host, parent).failed == 2
    assert {one.status for one in host.data.runs.values()} == {RunStatus.FAILED}
    # Once alone, and once by its parent, which has to know its state.
    assert effects.visited == ["broken", "broken"]
    assert work(host, parent).taken == 0


def test_a_child_whose_graph_only_its_parent_knows_continues_through_its_parent(host: Host) -> None:
    child = one_node(lambda state: {"answer": nt.ask("Go on?")}, "child")
    hidden = {"child": child}
    parent = one_node(lambda state: nt.spawn(hidden["child"]) and None, "parent")
    run(host, parent)
    answer(host, "yes")
    assert work(host, parent).completed == 1
    assert {one.status for one in host.data.runs.values()} == {RunStatus.COMPLETED}


def test_a_fork_is_left_to_the_code_that_made_it(host: Host) -> None:
    flow = one_node(lambda state: {"answer": nt.ask("Go on?")})
    run(host, flow)
    with host.process() as ledger:
        flow.fork("r", to="fork", store=ledger)
    assert work(host, flow).taken == 0


def test_what_the_policy_of_the_app_refuses_is_not_done_by_a_worker_either(
    host: Host, effects: Effects
) -> None:
    flow = one_node(lambda state: effects.act("refused") and None)
    enqueue(host, flow, "r")
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger, policy=lambda call: policy.deny("not now"))
        assert nt.Worker(app).run(until_idle=True).failed == 1
    assert effects.done == []


# What goes wrong in one run


def test_a_run_that_fails_stops_neither_the_worker_nor_others_and_stays_failed(
    host: Host, effects: Effects
) -> None:
    effects.broken = {"bad"}
    flow = one_node(lambda state: effects.visit(state["name"]))
    with host.process() as ledger:
        app = nt.App(graphs=[flow], store=ledger)
        app.enqueue_all("flow", {name: {"name": name} for name in ("bad", "good", "fine")})
    tally = work(host, flow)
    assert (tally.completed, tally.failed) == (2, 1)
    assert status(host, "bad") is RunStatus.FAILED
    assert work(host, flow).taken == 0
    assert effects.visited.count("bad") == 1


def test_code_that_ends_the_process_ends_only_its_run(host: Host) -> None:
    def leave(state: Any) -> None:
        raise SystemExit(3)

    flow, fine = one_node(leave), one_node(lambda state: None, "fine")
    enqueue(host, flow, "r")
    enqueue(host, fine, "s")
    tally = work(host, flow, fine)
    assert (tally.completed, tally.put_off) == (1, 1)
    assert status(host) is RunStatus.RUNNING


class Unreadable(BaseException):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize("bases", [(Unreadable, Exception), (Unreadable,)])
def test_an_error_whose_text_cannot_be_read_stops_neither_the_worker_nor_others(
    host: Host, caplog: pytest.LogCaptureFixture, bases: tuple[type, ...]
) -> None:
    error: type[BaseException] = type("Mute", bases, {})

    def fail(state: Any) -> None:
        raise error

    flow, fine = one_node(fail), one_node(lambda state: None, "fine")
    enqueue(host, flow, "r")
    enqueue(host, fine, "s")
    tally = work(host, flow, fine)
    assert (tally.completed, tally.failed + tally.put_off) == (1, 1)
    assert "Mute: 'its message could not be read: ValueError'" in caplog.text


def test_a_run_that_has_what_it_waits_for_and_does_not_use_it_is_put_off(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = one_node(lambda state: {"answer": nt.ask("Go on?")})
    run(host, flow)
    shown = MemoryStore.ready_runs

    def always(store: MemoryStore, **asked: Any) -> list[RunRecord]:
        return [host.data.runs["r"]] if asked["begun"] else shown(store, **asked)

    monkeypatch.setattr(MemoryStore, "ready_runs", always)
    monkeypatch.setattr(module, "is_ready", lambda *asked, **more: True)
    tally = work(host, flow)
    assert (tally.taken, tally.put_off, tally.waiting) == (1, 1, 0)


def test_a_store_that_fails_for_a_moment_is_asked_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = one_node(lambda state: None)
    enqueue(host, flow, "r")
    fails = iter([True, True])
    shown = MemoryStore.ready_runs

    def sometimes(store: MemoryStore, **asked: Any) -> list[RunRecord]:
        if next(fails, False):
            raise StoreError("the database is away")
        return shown(store, **asked)

    monkeypatch.setattr(MemoryStore, "ready_runs", sometimes)
    monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
    assert work(host, flow).completed == 1


def test_a_run_whose_end_could_not_be_written_is_ended_by_the_same_worker(
    host: Host, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = one_node(lambda state: effects.act("once") and None)
    enqueue(host, flow, "r")
    fails = iter([True] * 4)
    commit = MemoryStore.commit

    def sometimes(store: MemoryStore, given: Commit) -> None:
        if given.run is not None and next(fails, False):
            raise StoreError("the database is away")
        commit(store, given)

    monkeypatch.setattr(MemoryStore, "commit", sometimes)
    with host.process() as ledger:
        worker = nt.Worker(nt.App(graphs=[flow], store=ledger))
        shift = module._Shift(worker, ledger, None)
        while status(host) is not RunStatus.COMPLETED:
            host.clock.advance(module.STRANGERS_SECONDS)
            shift._take_up()
            shift._hear(SECONDS)
    assert effects.done == ["once"]
    assert (worker.tally.put_off, worker.tally.completed) == (4, 1)


def test_a_run_whose_end_the_database_has_forgotten_is_ended_by_the_living_worker(
    host: Host, effects: Effects
) -> None:
    """A promoted standby says that the worker still holds it. No other process may take it."""
    flow = one_node(lambda state: effects.act("once") and None)
    enqueue(host, flow, "r")
    held: list[RunRecord] = []

    class Remembers(MemoryStore):
        def commit(self, commit: Commit) -> None:
            if commit.run is not None and commit.run.release:
                held.append(host.data.runs["r"])
            super().commit(commit)

    ledger = nt.Ledger(Remembers(host.data, now=host.clock.now()), clock=host.clock)
    worker = nt.Worker(nt.App(graphs=[flow], store=ledger))
    shift = module._Shift(worker, ledger, None)
    while not held or status(host) is not RunStatus.COMPLETED:
        shift._take_up()
        shift._hear(SECONDS)
    host.data.runs["r"] = held[0]
    assert status(host) is RunStatus.RUNNING
    for _ in range(3):
        host.clock.advance(OWN_RUNS_SECONDS)
        if shift._take_up():
            shift._hear(SECONDS)
    assert (status(host), host.data.runs["r"].holder_id) == (RunStatus.COMPLETED, None)
    assert worker.tally.completed == 2
    assert effects.done == ["once"]


def test_a_run_that_meets_a_full_disk_is_tried_again_by_the_same_worker(
    host: Host, effects: Effects
) -> None:
    fails = iter([True] * 3)

    def work_of(state: Any) -> None:
        effects.act("once")
        if next(fails, False):
            raise StoreError("no space left")

    flow = one_node(work_of)
    enqueue(host, flow, "r")
    with host.process() as ledger:
        worker = nt.Worker(nt.App(graphs=[flow], store=ledger))
        shift = module._Shift(worker, ledger, None)
        while status(host) is RunStatus.RUNNING:
            host.clock.advance(module.STRANGERS_SECONDS)
            shift._take_up()
            shift._hear(SECONDS)
    assert effects.done == ["once"]
    assert (worker.tally.put_off, worker.tally.failed, worker.tally.completed) == (3, 0, 1)


def test_a_child_that_could_not_be_released_is_taken_up_while_its_parent_is_held(
    host: Host, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = one_node(lambda state: effects.act("once") and None, "child")
    parent = one_node(lambda state: nt.spawn(child) and None)
    enqueue(host, parent, "r")
    fails, commit = iter([True]), MemoryStore.commit

    def full(store: MemoryStore, given: Commit) -> None:
        if given.workflow_id != "r" and given.run is not None and next(fails, False):
            raise StoreError("no space left")
        commit(store, given)

    monkeypatch.setattr(MemoryStore, "commit", full)
    with host.process() as ledger:
        worker = nt.Worker(nt.App(graphs=[parent], store=ledger))
        shift = module._Shift(worker, ledger, None)
        shift._take_up()
        shift._hear(SECONDS)
        assert work(host, parent).waiting == 1
        shift._take_up()
        shift._hear(SECONDS)
        assert worker.tally.completed == 1
    assert work(host, parent).completed == 1
    assert effects.done == ["once"]


def test_an_error_of_the_worker_itself_hands_everything_back_before_it_is_raised(
    host: Host, effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow, inside = graph(), threading.Event()

    @flow.node
    def a(state: Any) -> None:
        inside.set()
        effects.act("a")

    flow.node(name="b")(lambda state: effects.act("b") and None)
    enqueue(host, flow, "r")

    def breaks(shift: Any, seconds: float) -> None:
        assert inside.wait(SECONDS)
        monkeypatch.undo()
        raise RuntimeError("a bug")

    monkeypatch.setattr(module._Shift, "_hear", breaks)
    with pytest.raises(RuntimeError, match="a bug"):
        work(host, flow)
    assert host.data.runs["r"].holder_id is None


# Many in parallel


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_runs_are_under_way_than_it_may_have(host: Host, concurrency: int) -> None:
    under_way, most, guard = 0, 0, threading.Lock()
    full = threading.Barrier(concurrency)

    def node(state: Any) -> None:
        nonlocal under_way, most
        with guard:
            under_way += 1
            most = max(most, under_way)
        full.wait(SECONDS)
        with guard:
            under_way -= 1

    flow = one_node(node)
    enqueue(host, flow, *(f"r{number}" for number in range(4 * concurrency)))
    assert work(host, flow, concurrency=concurrency).completed == 4 * concurrency
    assert most == concurrency


def test_graphs_with_async_nodes_share_one_event_loop_and_plain_nodes_do_not_block_it(
    host: Host,
) -> None:
    loops: Counter[int] = Counter()
    meet = threading.Barrier(5)
    flow = graph()

    @flow.node
    async def begin(state: Any) -> None:
        loops[id(asyncio.get_running_loop())] += 1
        await asyncio.sleep(0)

    @flow.node
    def plain(state: Any) -> None:
        meet.wait(SECONDS)

    enqueue(host, flow, *(f"r{number}" for number in range(5)))
    assert work(host, flow, concurrency=5).completed == 5
    assert list(loops.values()) == [5]


def test_arun_uses_the_event_loop_that_it_is_awaited_in(host: Host) -> None:
    loops: list[Any] = []
    flow = graph()

    @flow.node
    async def look(state: Any) -> None:
        loops.append(asyncio.get_running_loop())

    enqueue(host, flow, "r")

    async def main() -> tuple[nt.types.WorkerStats, Any]:
        with host.process() as ledger:
            worker = nt.Worker(nt.App(graphs=[flow], store=ledger))
            return await worker.arun(until_idle=True), asyncio.get_running_loop()

    tally, loop = asyncio.run(main())
    assert (tally.completed, loops) == (1, [loop])


# Ending


class Halfway:
    """A worker that is stopped while a run is in the first of two nodes."""

    def __init__(self, host: Host, flow: nt.Graph[Any], **options: Any) -> None:
        self.inside, self.go_on = threading.Event(), threading.Event()
        self._flow, self._options = flow, options
        self._tallies: list[nt.types.WorkerStats] = []
        self._host, self._process = host, host.process()

    def node(self, state: Any) -> None:
        self.inside.set()
        assert self.go_on.wait(SECONDS)

    def then(self, effects: Effects, what: str) -> Callable[[Any], None]:
        def node(state: Any) -> None:
            self.node(state)
            effects.act(what)

        return node

    def start_and_stop(self, once: Callable[[], bool] = lambda: True) -> None:
        ledger = self._process.__enter__()
        worker = nt.Worker(nt.App(graphs=[self._flow], store=ledger), **self._options)
        self._thread = threading.Thread(target=lambda: self._tallies.append(worker.run()))
        self._thread.start()
        assert self.inside.wait(SECONDS)
        while not once():
            self._thread.join(0.001)
        worker.stop()

    def end(self, *, seconds: float = 0.0) -> nt.types.WorkerStats:
        while self._thread.is_alive():
            self._thread.join(0.01)
            self._host.clock.advance(seconds)
        self._process.__exit__(None, None, None)
        (tally,) = self._tallies
        return tally


def test_told_to_stop_it_finishes_the_node_hands_the_run_back_and_takes_nothing_new(
    host: Host, effects: Effects
) -> None:
    flow = graph()
    halfway = Halfway(host, flow, concurrency=1)
    flow.node(name="a")(halfway.then(effects, "a"))
    flow.node(name="b")(lambda state: effects.act("b") and None)
    enqueue(host, flow, "r", "s")
    halfway.start_and_stop()
    halfway.go_on.set()
    tally = halfway.end()
    assert (tally.taken, tally.handed_back, tally.at_work) == (1, 1, ())
    (taken,) = [one for one in host.data.runs.values() if one.epoch]
    assert (taken.status, taken.holder_id) == (RunStatus.RUNNING, None)
    assert effects.done == ["a"]
    assert [row.status.value for row in host.calls] == ["DONE"]
    assert work(host, flow).completed == 2
    assert sorted(effects.done) == ["a", "a", "b", "b"]


def test_a_child_is_handed_back_between_its_own_nodes(host: Host, effects: Effects) -> None:
    child, parent = graph("child"), graph("parent")
    halfway = Halfway(host, parent, concurrency=1)
    child.node(name="a")(halfway.then(effects, "a"))
    child.node(name="b")(lambda state: effects.act("b") and None)
    parent.node(name="c")(lambda state: nt.spawn(child) and None)
    enqueue(host, parent, "r")
    halfway.start_and_stop()
    halfway.go_on.set()
    halfway.end()
    assert effects.done == ["a"]
    assert [one.holder_id for one in host.data.runs.values()] == [None, None]
    work(host, parent)
    assert {one.status for one in host.data.runs.values()} == {RunStatus.COMPLETED}
    assert effects.done == ["a", "b"]


def test_branches_are_handed_back_each_at_its_next_node(host: Host, effects: Effects) -> None:
    flow = graph()
    halfway = Halfway(host, flow, concurrency=1)
    flow.node(name="split", then=["left", "right"], join="meet")(lambda state: None)
    flow.node(name="left", then="more")(halfway.then(effects, "l"))
    flow.node(name="more", then="meet")(lambda state: effects.act("m") and None)
    flow.node(name="right", then="meet")(lambda state: {"answer": nt.ask("Right?")})
    flow.node(name="meet")(lambda state: None)
    enqueue(host, flow, "r")
    halfway.start_and_stop(once=lambda: bool(host.open_reviews))
    halfway.go_on.set()
    halfway.end()
    # One branch waits for a person, but the other one could continue: so could the run.
    assert (status(host), effects.done) == (RunStatus.RUNNING, ["l"])
    answer(host, "yes")
    assert work(host, flow).completed == 1
    assert effects.done == ["l", "m"]


def test_a_node_that_does_not_end_in_time_is_left_and_named(host: Host) -> None:
    flow = graph()
    halfway = Halfway(host, flow, concurrency=1, drain="1s")
    flow.node(name="a")(halfway.node)
    enqueue(host, flow, "r")
    halfway.start_and_stop()
    assert halfway.end(seconds=1).at_work == ("r",)
    halfway.go_on.set()


def test_a_worker_that_was_stopped_before_takes_nothing(host: Host) -> None:
    flow = one_node(lambda state: None)
    enqueue(host, flow, "r")
    with host.process() as ledger:
        worker = nt.Worker(nt.App(graphs=[flow], store=ledger))
        worker.stop()
        assert worker.run().taken == 0
    assert host.data.runs["r"].is_queued


def test_cancelling_arun_hands_the_runs_back_first(host: Host, effects: Effects) -> None:
    flow = graph()

    @flow.node
    async def a(state: Any) -> None:
        started.set()
        await go_on.wait()

    @flow.node
    async def b(state: Any) -> None:
        effects.act("b")

    enqueue(host, flow, "r")

    async def main() -> None:
        with host.process() as ledger:
            worker = nt.Worker(nt.App(graphs=[flow], store=ledger))
            task = asyncio.create_task(worker.arun())
            await started.wait()
            task.cancel()
            asyncio.get_running_loop().call_later(0.05, go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await task

    started, go_on = asyncio.Event(), asyncio.Event()
    asyncio.run(main())
    assert (status(host), host.data.runs["r"].holder_id, effects.done) == (
        RunStatus.RUNNING,
        None,
        [],
    )


def test_a_worker_that_dies_at_any_commit_is_followed_by_one_that_ends_what_it_began() -> None:
    """Every commit that a worker makes, before and after it, is tried once as the last one."""
    point, died = 0, 0
    while died == point:
        point += 1
        host, done = Host(), list[str]()
        flow = _parent_and_child(done)
        enqueue(host, flow, "r")
        with host.process(dies_at=point) as ledger:
            nt.Worker(nt.App(graphs=[flow], store=ledger), concurrency=1).run(until_idle=True)
            died += getattr(ledger.store, "dead", False)
        for _ in range(3):
            # What was in doubt has settled; then the timer is due.
            host.clock.advance(60)
            work(host, flow)
        assert {one.status for one in host.data.runs.values()} == {RunStatus.COMPLETED}, point
        assert sorted(done) == ["after", "before", "inside"], point
    assert died >= 16


def _parent_and_child(done: list[str]) -> nt.Graph[Any]:
    def seen(call: nt.Call) -> nt.Verification:
        what = call.args["what"]
        return nt.happened(what) if what in done else nt.did_not_happen()

    @nt.tool("unsafe_on_replay", verify=seen, settles="1ms", name=f"act {id(done)}")
    def act(what: str) -> str:
        done.append(what)
        return what

    child = one_node(lambda state: act("inside") and None, "child")
    parent = one_node(lambda state: act("before") and None, "parent")
    parent.node(name="b")(lambda state: nt.spawn(child) and None)
    parent.node(name="c")(lambda state: nt.sleep("1s"))
    parent.node(name="d")(lambda state: act("after") and None)
    return parent


# Code that is not here


def test_runs_of_graphs_and_versions_that_it_does_not_have_are_left_alone(
    host: Host, effects: Effects
) -> None:
    other, old = one_node(lambda state: None, "other"), one_node(lambda state: None)
    new = one_node(lambda state: effects.act("new") and None, version="2.0.0")
    enqueue(host, other, *(f"o{number}" for number in range(30)))
    enqueue(host, old, *(f"r{number}" for number in range(30)))
    enqueue(host, new, "n")
    tally = work(host, new, concurrency=1)
    assert (tally.taken, tally.completed, tally.put_off) == (1, 1, 0)
    assert all(one.is_queued for one in host.data.runs.values() if one.workflow_id != "n")
    assert host.open_reviews == []
    assert work(host, old, other, concurrency=2).completed == 60


def test_a_later_patch_takes_the_runs_of_an_earlier_one(host: Host) -> None:
    enqueue(host, one_node(lambda state: None), "r")
    assert work(host, one_node(lambda state: {"x": 1}, version="1.0.1")).completed == 1


def look_around(host: Host, flow: nt.Graph[Any], *, times: int, **options: Any) -> None:
    """A worker that looks for runs so often, with time passing in between."""
    with host.process() as ledger:
        worker = nt.Worker(nt.App(graphs=[flow], store=ledger), **options)
        shift = module._Shift(worker, ledger, None)
        for _ in range(times):
            host.clock.advance(module.STRANGERS_SECONDS)
            shift._take_up()


def test_people_are_told_of_a_run_that_no_worker_takes_for_long_and_not_before(host: Host) -> None:
    old, new = one_node(lambda state: None), one_node(lambda state: {"x": 1}, version="2.0.0")
    enqueue(host, old, "r")
    enqueue(host, one_node(lambda state: None, "other"), "of another graph")
    look_around(host, new, times=10, undeployable_after="5m")
    assert host.open_reviews == []
    look_around(host, new, times=12, undeployable_after="5m")
    (review,) = host.open_reviews
    assert (review.kind, review.identity.workflow_id) == (ReviewKind.UNDEPLOYABLE, "r")
    # It is closed when a worker has the code.
    assert work(host, old).completed == 1
    assert host.open_reviews == []


def test_people_are_told_of_all_such_runs_however_many_runs_of_other_graphs_are_queued(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MORE_STRANGERS", 3)
    monkeypatch.setattr(module, "MOST_STRANGERS", 6)
    monkeypatch.setattr(module, "MOST_PARKED", 4)
    old, new = one_node(lambda state: None), one_node(lambda state: {"x": 1}, version="2.0.0")
    enqueue(host, one_node(lambda state: None, "other"), *(f"o{number}" for number in range(120)))
    names = {f"r{number}" for number in range(20)}
    enqueue(host, old, *sorted(names))
    look_around(host, new, times=20, undeployable_after="1m")
    assert {one.identity.workflow_id for one in host.open_reviews} == names
    assert caplog.text.count("Nothing was done.") == 20
    # Another process says it, too, but opens no second review.
    look_around(host, new, times=3, undeployable_after="1m")
    assert len(host.open_reviews) == 20


def test_a_decision_about_such_a_run_is_carried_out(host: Host) -> None:
    old, new = one_node(lambda state: None), one_node(lambda state: {"x": 1}, version="2.0.0")
    enqueue(host, old, "r")
    look_around(host, new, times=12, undeployable_after="5m")
    host.decide(Verb.ABORT)
    look_around(host, new, times=2, undeployable_after="5m")
    assert status(host) is RunStatus.ABORTED


# What it is given


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5, "8", 10**6])
def test_a_concurrency_that_makes_no_sense_is_refused(concurrency: Any) -> None:
    with pytest.raises(nt.errors.UsageError, match="Nothing was started"):
        nt.Worker(nt.App(graphs=[]), concurrency=concurrency)


def test_what_is_no_app_is_refused() -> None:
    with pytest.raises(nt.errors.UsageError, match=r"needs an nt\.App"):
        nt.Worker(one_node(lambda state: None))  # type: ignore[arg-type]


def test_durations_are_read_before_anything_starts() -> None:
    for name in ("drain", "undeployable_after"):
        with pytest.raises(nt.errors.InvalidTool):
            nt.Worker(nt.App(graphs=[]), **{name: "soon"})  # type: ignore[arg-type]


def test_versions_that_say_too_little_are_refused_before_anything_is_taken(host: Host) -> None:
    old = one_node(lambda state: None)
    new = graph(version="1.0.1")
    new.node(name="another")(lambda state: None)
    enqueue(host, old, "r")
    with pytest.raises(nt.errors.GraphChangedInPlace):
        work(host, old, new)
    assert host.data.runs["r"].is_queued


def test_a_graph_that_was_edited_in_place_is_refused_before_anything_is_taken(host: Host) -> None:
    enqueue(host, one_node(lambda state: None), "r")
    edited = graph()
    edited.node(name="another")(lambda state: None)
    with pytest.raises(nt.errors.GraphChangedInPlace):
        work(host, edited)
    assert host.data.runs["r"].is_queued


def test_a_crash_is_a_failure_with_its_text_on_record(host: Host, effects: Effects) -> None:
    effects.broken = {"a"}
    flow = one_node(lambda state: effects.visit("a"))
    enqueue(host, flow, "r")
    work(host, flow)
    failure = host.data.runs["r"].failure
    assert failure is not None
    assert failure.error_type.endswith(Crash.__name__)
