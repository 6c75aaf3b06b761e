"""A run that meets a limit waits for a time; nothing of it is lost or done twice (P311)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunStatus, WaitKind
from nottwice.store.limits import LOOK_AGAIN_SECONDS
from nottwice.worker import worker as module
from tests.fakes import FakeClock

SECONDS = 30.0


class Bench:
    """A ledger, a graph that sends one thing, and what was sent."""

    def __init__(self, folder: Path, *limits: nt.Limit) -> None:
        self.clock, self.sent = FakeClock(), list[str]()
        self.ledger = Ledger(folder / "ledger.db", clock=self.clock)
        self.hold: threading.Event | None = None
        self.entered = threading.Event()

        @nt.tool("unsafe_on_replay", name="limited_send")
        def send(what: str) -> str:
            self.sent.append(what)
            self.entered.set()
            if self.hold is not None:
                assert self.hold.wait(SECONDS)
            return what

        self.flow: nt.Graph[Any] = nt.Graph("flow", version="1.0.0")
        self.flow.node(name="only")(lambda state: {"sent": send(state["what"])})
        self.app = nt.App(graphs=[self.flow], store=self.ledger, limits=limits)

    def enqueue(self, *names: str, **more: Any) -> None:
        for name in names:
            self.app.enqueue("flow", name, {"what": name}, **more)
            self.clock.advance(0.001)

    def work(self, **options: Any) -> nt.types.WorkerStats:
        """As far as a worker gets before time passes."""
        worker = nt.Worker(self.app, **options)
        shift = module._Shift(worker, self.app.ledger, None)
        while shift._take_up() or shift.crew.busy:
            shift._hear(SECONDS)
        shift.crew.close()
        return worker.tally

    def work_until_idle(self, **options: Any) -> nt.types.WorkerStats:
        """A worker that stops by itself, while time passes."""
        worker = nt.Worker(self.app, **options)
        thread = threading.Thread(target=lambda: worker.run(until_idle=True))
        thread.start()
        while thread.is_alive():
            thread.join(0.05)
            self.clock.advance(LOOK_AGAIN_SECONDS / 4)
        return worker.tally

    def waits(self, name: str) -> list[tuple[WaitKind, str]]:
        run = self.ledger.store.load_run(name)
        assert run is not None
        return [(wait.kind, wait.subject) for wait in run.waits]


def test_a_call_waits_while_as_many_as_allowed_are_in_progress(tmp_path: Path) -> None:
    bench = Bench(tmp_path, nt.Limit(tool="limited_send", concurrency=1))
    bench.enqueue("a")
    bench.hold = threading.Event()
    thread = threading.Thread(target=bench.work)
    thread.start()
    assert bench.entered.wait(SECONDS)
    bench.enqueue("b")
    assert bench.work(concurrency=1).waiting == 1
    assert bench.sent == ["a"]
    text = "limit of tool limited_send (1 at a time)"
    assert bench.waits("b") == [(WaitKind.TIMER, text)]
    # No intent was written, so nothing can be in doubt.
    assert bench.ledger.store.calls("b") == []
    bench.hold.set()
    thread.join()
    bench.clock.advance(LOOK_AGAIN_SECONDS)
    assert bench.work().completed == 1
    assert bench.sent == ["a", "b"]


def test_calls_begin_no_faster_than_allowed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, nt.Limit(tool="limited_send", rate="2/m"))
    bench.enqueue("a", "b", "c", "d", "e")
    tally = bench.work(concurrency=1)
    assert (tally.completed, tally.waiting) == (2, 3)
    bench.clock.advance(61)
    assert bench.work(concurrency=1).completed == 2
    bench.clock.advance(61)
    assert bench.work(concurrency=1).completed == 1
    assert sorted(bench.sent) == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(
    "limit", [nt.Limit(graph="flow", rate="2/m"), nt.Limit(tag="for", rate="2/m")]
)
def test_runs_begin_no_faster_than_allowed(tmp_path: Path, limit: nt.Limit) -> None:
    bench = Bench(tmp_path, limit)
    bench.enqueue("a", "b", "c", "d", "e", tags={"for": "acme"})
    assert bench.work(concurrency=1).completed == 2
    bench.clock.advance(61)
    assert bench.work(concurrency=1).completed == 2
    bench.clock.advance(61)
    bench.work(concurrency=1)
    assert sorted(bench.sent) == ["a", "b", "c", "d", "e"]


def test_a_tag_is_limited_value_by_value(tmp_path: Path) -> None:
    bench = Bench(tmp_path, nt.Limit(tag="for", rate="1/m"))
    bench.enqueue("a", "b", tags={"for": "acme"})
    bench.enqueue("c", tags={"for": "other"})
    bench.enqueue("d")
    assert bench.work(concurrency=1).completed == 3
    assert sorted(bench.sent) == ["a", "c", "d"]


def test_a_graph_at_its_limit_leaves_its_queue_as_it_is_and_other_graphs_continue(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, nt.Limit(graph="flow", concurrency=1))
    bench.enqueue(*(f"r{number:02}" for number in range(20)))
    bench.hold = threading.Event()
    thread = threading.Thread(target=lambda: bench.work(concurrency=1))
    thread.start()
    assert bench.entered.wait(SECONDS)
    # The first one meets the limit, and the worker leaves the others alone.
    assert bench.work(concurrency=1).taken == 1
    store = bench.ledger.store
    assert len(store.runs(queued=True)) == 18
    (waiting,) = store.runs(status=RunStatus.WAITING)
    assert bench.waits(waiting.workflow_id)[0][1] == "limit of graph flow (1 at a time)"
    bench.hold.set()
    thread.join()
    bench.clock.advance(10)
    bench.work(concurrency=1)
    bench.clock.advance(10)
    bench.work(concurrency=1)
    assert sorted(bench.sent) == [f"r{number:02}" for number in range(20)]


@pytest.mark.parametrize(
    "limit", [nt.Limit(graph="flow", concurrency=1), nt.Limit(tool="limited_send", concurrency=1)]
)
def test_until_idle_a_worker_continues_while_only_a_limit_holds_runs_back(
    tmp_path: Path, limit: nt.Limit
) -> None:
    bench = Bench(tmp_path, limit)
    names = [f"r{number}" for number in range(6)]
    bench.enqueue(*names)
    # While the first one is held, the others meet the limit.
    bench.hold = threading.Event()
    threading.Timer(0.1, bench.hold.set).start()
    assert bench.work_until_idle(concurrency=4).completed == 6
    assert sorted(bench.sent) == names


def test_until_idle_a_worker_continues_for_a_child_run_at_its_limit(tmp_path: Path) -> None:
    bench = Bench(tmp_path, nt.Limit(tool="limited_send", rate="1/s"))
    parent: nt.Graph[Any] = nt.Graph("parent", version="1.0.0")
    parent.node(name="a")(lambda state: nt.spawn(bench.flow, {"what": "a"}) and None)
    parent.node(name="b")(lambda state: nt.spawn(bench.flow, {"what": "b"}) and None)
    bench.app = nt.App(graphs=[bench.flow, parent], store=bench.ledger, limits=bench.app.limits)
    bench.app.enqueue("parent", "p")
    bench.work_until_idle()
    assert bench.sent == ["a", "b"]
    assert bench.app.outcome("p").status == "completed"


def test_until_idle_a_worker_does_not_wait_for_a_limit_with_no_room_for_long(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, nt.Limit(tool="limited_send", rate="2/m"))
    bench.enqueue("a", "b", "c")
    tally = nt.Worker(bench.app, concurrency=1).run(until_idle=True)
    assert (tally.completed, tally.waiting) == (2, 1)


def test_what_is_no_limit_is_refused_where_the_app_is_declared() -> None:
    limits: Any = ["10/s"]
    with pytest.raises(nt.errors.UsageError, match="limits"):
        nt.App(graphs=[], limits=limits)
