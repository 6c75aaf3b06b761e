"""Which runs are taken up next? (A6, M1)

Those whose holder is dead, those that were begun and can go on, and new ones, each longest ready
first. What was begun is finished before something new is begun, so that a person who decided does
not wait behind a backlog; but every fourth run is a new one, so that none waits for ever. A worker
takes only runs that it has the code for; all others are left to others. What the ledger says that
this process holds is compared with what it drives: a database that forgot its last commits shows
runs as held that were given up long ago. Promises kept here: P63, P128.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterator
from typing import Any

from nottwice.engine.ownership import is_driven_here
from nottwice.errors import NottwiceError
from nottwice.graphs.app import App
from nottwice.graphs.binding import check_unchanged
from nottwice.graphs.declare import Graph
from nottwice.graphs.spawned import with_spawned
from nottwice.guard.ledger import Ledger
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.records import frozen_record
from nottwice.model.run import Life, RunRecord, RunStatus
from nottwice.worker.patience import Patience

log = logging.getLogger("nottwice")
ONE_NEW_OF = 4
MOST_JUST_STARTED = 16
OWN_RUNS_SECONDS = 5.0
_OPEN = (RunStatus.RUNNING, RunStatus.WAITING)

_Graph = Graph[Any]


@frozen_record(frozen=True, slots=True)
class Task:
    """A run to take up, the code for it, and why it is its turn."""

    run: RunRecord
    graph: _Graph
    why: str

    @property
    def run_id(self) -> str:
        return self.run.workflow_id


class Choice:
    """Chooses among the runs of a ledger for one worker."""

    def __init__(self, ledger: Ledger, app: App) -> None:
        self._ledger = ledger
        # A child that waited goes on by itself, so its code counts as deployed.
        self.app = App(graphs=with_spawned(app.graphs), store=ledger)
        self.patience = Patience()
        self._foreign: set[str] = set()
        """Ids of graphs that this worker has no code for."""
        self._dead: set[str] = set()
        """Holders that were proven dead: they stay so."""
        self._left_here: set[str] = set()
        """Runs that this process may still hold, because it could not give them up."""
        self._undriven: dict[str, int] = {}
        """Runs that this process held and did not drive at the last look, with their epochs."""
        self._looked_at_own = ledger.clock.now()
        self._others = 0
        """How many other holders were alive at the last look."""
        self._taken = 0

    def check_graphs(self) -> None:
        """Refuse graphs that are not what their versions stand for, before a run is taken (V5)."""
        self.app.check_versions()
        for graph in self.app.graphs:
            check_unchanged(self._ledger.store, graph)

    def next_tasks(self, most: int, *, busy: Collection[str]) -> list[Task]:
        """At most so many runs that can go on now and that are not under way here."""
        now = self._ledger.clock.now()
        unwanted = {*busy}
        begun = list(self._fitting(self._abandoned(), unwanted, now))
        begun += self._ready(most, unwanted, now, begun=True)
        new = list(self._ready(most, unwanted, now, begun=False))
        chosen: list[Task] = []
        while (begun or new) and len(chosen) < most:
            turn_of_new = self._taken % ONE_NEW_OF == ONE_NEW_OF - 1
            chosen.append((new if new and (turn_of_new or not begun) else begun).pop(0))
            self._taken += 1
        return chosen

    def strangers(self) -> Iterator[RunRecord]:
        """Runs that can go on and that this worker has no code for, as far as a look shows."""
        now = self._ledger.clock.now()
        known = [graph.graph_id for graph in self._ledger.store.graphs()]
        own = [graph_id for graph_id in known if self._has(graph_id)]
        for begun in (True, False):
            yield from self._ledger.store.ready_runs(begun=begun, now=now, limit=100, without=own)
        yield from (run for run, _ in self._abandoned() if run.graph_id not in own)

    def suspect(self, run_id: str) -> None:
        """A run ended here with an error that may have kept it from being given up."""
        self._left_here.add(run_id)

    def task_of_parent(self, run: RunRecord) -> Task | None:
        """A run that this worker has the code for and that has spawned this one."""
        while run.parent_id is not None:
            parent = self._ledger.store.load_run(run.parent_id)
            if parent is None or parent.status is not RunStatus.WAITING:
                return None
            graph = self._graph_for(parent)
            if graph is not None and parent.holder_id is None:
                return Task(parent, graph, f"its child run {run.workflow_id!r} can go on")
            run = parent
        return None

    def _ready(self, most: int, unwanted: set[str], now: float, *, begun: bool) -> Iterator[Task]:
        """The oldest that are wanted; where there are other workers, some of the oldest.

        Whoever looks at the same moment sees the same runs, and only one can have each.
        """
        most *= 1 + self._others
        # What is under way is held and not shown, but for what was started just now.
        aside = min(len(unwanted), MOST_JUST_STARTED) + self.patience.count(now=now)
        while True:
            found = self._ledger.store.ready_runs(
                begun=begun, now=now, limit=most + aside, without=self._foreign
            )
            unknown = {run.graph_id for run in found if run.parent_id is None} - self._foreign
            unknown = {graph_id for graph_id in unknown if graph_id and not self._has(graph_id)}
            if not unknown:
                break
            log.info("runs of %s are left to other workers", ", ".join(sorted(map(str, unknown))))
            self._foreign |= {str(graph_id) for graph_id in unknown}
        why = "it can go on" if begun else "it is new"
        tasks = list(self._fitting(((run, why) for run in found), unwanted, now))[:most]
        if self._others:
            random.shuffle(tasks)
        yield from tasks

    def _abandoned(self) -> Iterator[tuple[RunRecord, str]]:
        """Runs whose holder is not known to live. A live one is never overtaken."""
        store = self._ledger.store
        mine, others = store.holder().holder_id, 0
        for run_id in list(self._left_here):
            held = [run for run in self._family(run_id) if run.holder_id == mine]
            if not held:
                self._left_here.discard(run_id)
            yield from ((run, "it could not be given up here") for run in held)
        yield from self._held_and_not_driven()
        for holder_id in store.holders_of_runs():
            if holder_id == mine:
                continue
            life = Life.DEAD if holder_id in self._dead else store.life_of(holder_id)
            if life is Life.DEAD:
                self._dead.add(holder_id)
            if life is Life.ALIVE:
                others += 1
                continue
            for run in store.runs_held_by(holder_id):
                if run.status in _OPEN and run.origin is None:
                    yield run, f"its holder is {'dead' if life is Life.DEAD else 'gone, it seems'}"
        self._others = others

    def _held_and_not_driven(self) -> Iterator[tuple[RunRecord, str]]:
        """Runs that the ledger says this process holds, and that nothing in it drives.

        No other worker may take them while this process lives. Only what was seen twice counts:
        between two looks at ledger and process a run may have been given up.
        """
        store, now = self._ledger.store, self._ledger.clock.now()
        if 0 <= now - self._looked_at_own < OWN_RUNS_SECONDS:
            return
        self._looked_at_own = now
        mine, before = store.holder(), self._undriven
        held = [run for run in store.runs_held_by(mine.holder_id) if run.status in _OPEN]
        left = [run for run in held if not is_driven_here(mine, run.workflow_id)]
        self._undriven = {run.workflow_id: run.epoch for run in left}
        for run in left:
            if before.get(run.workflow_id) == run.epoch and run.origin is None:
                yield run, "this process holds it and does not drive it"

    def _family(self, run_id: str) -> Iterator[RunRecord]:
        """A run and those that it has spawned, as far as they are open: they are driven together,
        so whatever kept one from being given up may have kept the others."""
        known = self._ledger.store.load_run(run_id)
        if known is not None and known.status in _OPEN:
            yield known
            for child in self._ledger.store.children(run_id):
                yield from self._family(child.workflow_id)

    def _fitting(
        self, runs: Iterator[tuple[RunRecord, str]], unwanted: set[str], now: float
    ) -> Iterator[Task]:
        """Those that this worker has the code for, and wants now."""
        for run, why in runs:
            run_id = run.workflow_id
            if run_id in unwanted or self.patience.is_put_off(run_id, now=now):
                continue
            graph = self._graph_for(run)
            task = Task(run, graph, why) if graph is not None else self.task_of_parent(run)
            if task is None:
                self.patience.put_off(run_id, now=now)
            elif task.run_id not in unwanted and not self.patience.is_put_off(task.run_id, now=now):
                unwanted.add(task.run_id)
                yield task

    def _graph_for(self, run: RunRecord) -> _Graph | None:
        return self.app.fitting(run) if run.graph_id and self._has(run.graph_id) else None

    def _has(self, graph_id: str) -> bool:
        try:
            name, version = split_graph_id(graph_id)
        except NottwiceError:
            return False
        return any(
            graph.name == name and graph.version[:2] == version[:2] for graph in self.app.graphs
        )
