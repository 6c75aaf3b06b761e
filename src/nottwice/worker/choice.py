"""Which runs does a worker take next? (A6, M1)

It takes runs whose holder is dead, started runs that can continue, and new runs, each by how long
they have been ready. Started runs come before new ones, so that a run does not wait behind a
backlog after a person has decided. Every fourth run is a new one, so that no run starves. A worker
takes only runs that it has the code for. It also compares the runs that the ledger says this
process holds with those it drives: after a database loses its last commits, released runs appear as
held. A store that many machines share claims the runs itself, several in one statement, so that two
workers never want the same run. Promises kept here: P63, P128, P308.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Collection, Iterator
from typing import Any

from nottwice.engine import events
from nottwice.engine.driven import (
    Preclaimed,
    drive_claimed,
    driven_here,
    give_back,
    is_driven_here,
)
from nottwice.engine.drivers import drive
from nottwice.engine.waits import cancelled
from nottwice.errors import NottwiceError
from nottwice.graphs.app import App
from nottwice.graphs.binding import check_unchanged
from nottwice.graphs.declare import Graph
from nottwice.graphs.spawned import with_spawned
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import Life, RunRecord, RunStatus
from nottwice.store.claiming import ClaimedRun, ClaimRequest
from nottwice.store.interface import commit_of
from nottwice.worker import poison
from nottwice.worker.patience import Patience

log = logging.getLogger("nottwice")
ONE_NEW_OF = 4
MOST_JUST_STARTED = 16
OWN_RUNS_SECONDS = 5.0
LOOK_AT_OTHERS_SECONDS = 0.2
MOST_LIMIT_SECONDS = 5.0
CHILDREN_AT_ONCE = 100
MOST_CHILDREN = 5_000
CHILDREN_PART = 10
"""After a look for children that took one second, the next is made so many seconds later."""
_OPEN = (RunStatus.RUNNING, RunStatus.WAITING)

_Graph = Graph[Any]


@frozen_record(frozen=True, slots=True)
class RunTask:
    """A run to advance, the code for it, and the reason why it was chosen."""

    run: RunRecord
    graph: _Graph
    why: str
    claimed: Preclaimed | None = None
    """Its claim, if it was claimed together with others."""

    @property
    def run_id(self) -> str:
        return self.run.workflow_id


class TaskChoice:
    """Chooses among the runs of a ledger for one worker."""

    def __init__(self, ledger: Ledger, app: App) -> None:
        self._ledger = ledger
        # A child that waited is resumed on its own, so its code counts as deployed.
        self.app = App(graphs=with_spawned(app.graphs), store=ledger)
        self.patience = Patience()
        self._foreign: set[str] = set()
        """Ids of graphs that this worker has no code for."""
        self._of_children: set[str] = set()
        """Ids of such graphs of which only children were seen. Their parents may be advanced."""
        self._of_other_names: set[str] = set()
        """Ids of graphs of which it has no version at all."""
        self._children = Patience()
        """The children that cannot be continued through their parents now."""
        self._look_at_children: tuple[float, float] | None = None
        """When these were last looked at, and when they are to be looked at again."""
        self._has_more_children = False
        """Whether the last look may have left out some."""
        self._own: set[str] = set()
        """Ids of graphs that it has the code for in another patch."""
        self._full: dict[str, float] = {}
        """The names of graphs at their limit, and when there may be room again."""
        self._limited: dict[str, set[str]] = {}
        """The ids of all versions that were seen of such graphs."""
        self._again_at = 0.0
        """When the last of the runs that met a limit here is tried again."""
        self._looked_at = 0.0
        self._left_here: set[str] = set()
        """Runs that this process may still hold, because releasing them failed."""
        self._undriven: dict[str, int] = {}
        """Runs that this process held but did not drive at the last check, with their epochs."""
        self._looked_at_own = ledger.clock.now()
        self._others = 0
        """How many other holders were alive at the last check."""
        self._taken = 0
        self._suspect: str | None = None
        """The run that was last picked up although several processes have ended with it."""
        self._has_suspect = False
        """Whether this look has chosen one."""
        self.poisoned = 0
        """How many runs were failed because of that."""
        self._families = sorted({f"{one.name}@{_minor(one)}." for one in self.app.graphs})
        self._looked_at_others: float | None = None

    def check_graphs(self) -> None:
        """Refuse graphs that changed without a new version, before a run is taken (V5)."""
        self.app.check_versions()
        for graph in self.app.graphs:
            check_unchanged(self._ledger.store, graph)

    def next_tasks(self, most: int, *, busy: Collection[str]) -> list[RunTask]:
        """Return at most ``most`` runs that can continue now and are not being advanced here."""
        self._looked_at = now = self._ledger.clock.now()
        unwanted = {*busy}
        if self._ledger.store.claims_many:
            return self._next_claimed(most, unwanted, now)
        begun = list(self._fitting(self._abandoned(), unwanted, now))
        ready = list(self._ready(most, unwanted, now, begun=True))
        begun += self._through_parents(unwanted, now) if self._of_children else []
        begun += ready
        new = list(self._ready(most, unwanted, now, begun=False))
        chosen: list[RunTask] = []
        while (begun or new) and len(chosen) < most:
            turn_of_new = self._taken % ONE_NEW_OF == ONE_NEW_OF - 1
            chosen.append((new if new and (turn_of_new or not begun) else begun).pop(0))
            self._taken += 1
        return chosen

    def _next_claimed(self, most: int, unwanted: set[str], now: float) -> list[RunTask]:
        """The same, on a store that claims many runs at once.

        What only a dead process or a missing version explains is looked for a few times a second,
        and always before a worker would be idle.
        """
        looked = self._looked_at_others
        is_due = looked is None or not 0 <= now - looked < LOOK_AT_OTHERS_SECONDS
        tasks = self._of_others(unwanted, now)[:most] if is_due else []
        if len(tasks) < most:
            tasks += self._claim(most - len(tasks), unwanted, now)
        if not tasks and not is_due:
            tasks = self._of_others(unwanted, now)[:most]
        return tasks

    def _of_others(self, unwanted: set[str], now: float) -> list[RunTask]:
        """Runs whose holder is dead, and parents of runs that this worker has no code for."""
        self._looked_at_others = now
        tasks = list(self._fitting(self._abandoned(), unwanted, now))
        return tasks + self._through_parents(unwanted, now)

    def _through_parents(self, unwanted: set[str], now: float) -> list[RunTask]:
        """Parents of children that can continue and that this worker has no code for.

        A look reads again those that were put off. It must take a small part of the time however
        many there are, so a long look is made less often, and no look reads all of them.
        """
        last = self._look_at_children
        self._has_more_children = last is not None and last[0] <= now < last[1]
        if self._has_more_children:
            return []
        limit = min(CHILDREN_AT_ONCE + self._children.count(now=now), MOST_CHILDREN)
        known = {graph.id for graph in self.app.graphs} | self._own | self._foreign
        while True:
            runs = self._ledger.store.ready_runs(begun=True, now=now, limit=limit, without=known)
            own = {str(run.graph_id) for run in runs if self._has(str(run.graph_id))}
            roots = {str(run.graph_id) for run in runs if run.parent_id is None} - own
            if not own and not roots:
                break
            self._own |= own
            self._foreign |= roots
            known |= own | roots
        self._of_children -= self._foreign
        self._of_children |= {str(run.graph_id) for run in runs}
        self._has_more_children = len(runs) == limit < MOST_CHILDREN
        tasks = list(self._fitting(((run, "") for run in runs), unwanted, now))
        ended = self._ledger.clock.now()
        self._look_at_children = now, ended + CHILDREN_PART * (ended - now)
        return tasks

    def _claim(self, most: int, unwanted: set[str], now: float) -> list[RunTask]:
        store, words = self._ledger.store, cancelled.words_left()
        # What this process still drives would be claimed under its own driver.
        full = self._at_limit(now)
        besides = {*unwanted, *self.patience.put_off_ids(now=now), *driven_here(store.holder())}
        found = store.claim_ready(
            ClaimRequest(
                at=now,
                most=most,
                graphs=[one for one in self._families if one.partition("@")[0] not in full],
                besides=besides,
                begun_first=ONE_NEW_OF - 1 - self._taken % ONE_NEW_OF,
            )
        )
        self._taken += len(found)
        tasks = (self._task_of(one, words) for one in found)
        return [task for task in tasks if task is not None]

    def _task_of(self, one: ClaimedRun, words: int) -> RunTask | None:
        graph, why = (
            self._graph_for(one.found),
            "it can continue" if one.found.epoch else "it is new",
        )
        if one.run is None:
            # Claiming it alone says what is wrong.
            return None if graph is None else RunTask(one.found, graph, why)
        if events.listeners:
            events.tell_of_commit(commit_of(one), self._ledger.store)
        claimed = drive_claimed(one, self._ledger.store.holder(), words=words)
        if graph is None or claimed is None:
            drive(give_back(self._ledger.host, one.found, one.run), self._ledger.host)
            self.patience.put_off(one.found.workflow_id, now=self._ledger.clock.now())
            return None
        return RunTask(one.found, graph, why, claimed)

    def strangers(self, limit: int) -> Iterator[RunRecord]:
        """Yield runs that can continue but that this worker has no code for.

        These are at most ``limit`` new and ``limit`` started runs of other versions of its graphs,
        and some runs of other graphs: their parents may be runs of this worker.
        """
        now, store = self._ledger.clock.now(), self._ledger.store
        recorded = {graph.graph_id for graph in store.graphs()}
        own = {graph_id for graph_id in recorded if self._has(graph_id)}
        names, others = {graph.name for graph in self.app.graphs}, self._of_other_names
        others |= {graph_id for graph_id in recorded if graph_id.rpartition("@")[0] not in names}
        for begun in (True, False):
            while True:
                known = own | others
                runs = store.ready_runs(begun=begun, now=now, limit=limit, without=known)
                more = {str(run.graph_id) for run in runs if _name_of(run) not in names}
                if not more:
                    break
                others |= more
            yield from runs
        yield from store.ready_runs(begun=True, now=now, limit=100, without=recorded - others)
        yield from (run for run, _ in self._abandoned() if run.graph_id not in own)

    def note_limit(self, graph_id: str, until: float) -> None:
        """Note that a graph is at its limit. Its runs are not picked up before this time."""
        name = split_graph_id(graph_id)[0]
        self._full[name] = until
        self._limited.setdefault(name, set()).add(graph_id)

    def note_wait(self, until: float) -> None:
        """Note that a run met a limit and is tried again at this time."""
        self._again_at = max(self._again_at, until)

    def holds_back(self) -> bool:
        """Whether the last look may have left out runs that can continue soon: those of a graph at
        its limit, those that met a limit here and are tried again in a few seconds, and parents."""
        now = self._looked_at
        waits = now < self._again_at <= now + MOST_LIMIT_SECONDS
        return waits or bool(self._at_limit(now)) or self._has_more_children

    def _at_limit(self, now: float) -> set[str]:
        """The names of graphs at their limit."""
        # A clock that jumps back does not extend the pause.
        self._full = {
            name: until
            for name, until in self._full.items()
            if now < until <= now + MOST_LIMIT_SECONDS
        }
        return set(self._full)

    def suspect(self, run_id: str) -> None:
        """Note that a run ended here with an error that may have kept it from being released."""
        self._left_here.add(run_id)

    def task_of_parent(self, run: RunRecord) -> RunTask | None:
        """Return the nearest ancestor of a run that is waiting and that this worker can advance."""
        while run.parent_id is not None:
            parent = self._ledger.store.load_run(run.parent_id)
            if parent is None or parent.status is not RunStatus.WAITING:
                return None
            graph = self._graph_for(parent)
            if graph is not None and parent.holder_id is None:
                return RunTask(parent, graph, f"its child run {run.workflow_id!r} can continue")
            run = parent
        return None

    def _ready(
        self, most: int, unwanted: set[str], now: float, *, begun: bool
    ) -> Iterator[RunTask]:
        """Yield the oldest wanted runs. With other workers around, yield a random choice of them.

        Workers that look at the same moment see the same runs, and only one can claim each.
        """
        most *= 1 + self._others
        # Runs being advanced are held and not listed, except those that were started just now.
        aside = min(len(unwanted), MOST_JUST_STARTED) + self.patience.count(now=now)
        at_limit = self._at_limit(now)
        while True:
            full = {graph_id for name in at_limit for graph_id in self._limited[name]}
            others = self._foreign | self._of_children
            found = self._ledger.store.ready_runs(
                begun=begun, now=now, limit=most + aside, without=others | full
            )
            # A limit is for all versions of a graph.
            versions = {_name_of(run): str(run.graph_id) for run in found}
            for name in at_limit & versions.keys():
                self._limited[name].add(versions[name])
            left = [run for run in found if not self._has(str(run.graph_id))]
            unknown = {str(run.graph_id) for run in left if run.parent_id is None}
            children = {str(run.graph_id) for run in left} - unknown
            if not left and not at_limit & versions.keys():
                break
            if unknown:
                names = ", ".join(sorted(unknown))
                log.info("leaving runs of %s to other workers", names)
            self._foreign |= unknown
            self._of_children |= children
        why = "it can continue" if begun else "it is new"
        tasks = list(self._fitting(((run, why) for run in found), unwanted, now))[:most]
        if self._others:
            random.shuffle(tasks)
        yield from tasks

    def _abandoned(self) -> Iterator[tuple[RunRecord, str]]:
        """Yield runs whose holder is not known to be alive. A live holder is never overtaken."""
        store = self._ledger.store
        mine, others = store.holder().holder_id, 0
        self._has_suspect = False
        for run_id in list(self._left_here):
            held = [run for run in self._family(run_id) if run.holder_id == mine]
            if not held:
                self._left_here.discard(run_id)
            yield from ((run, "this process could not release it") for run in held)
        yield from self._held_and_not_driven()
        for holder_id, life in store.lives().items():
            if holder_id == mine:
                continue
            if life is Life.ALIVE:
                others += 1
                continue
            why = f"its holder is {'dead' if life is Life.DEAD else 'probably gone'}"
            for run in store.runs_held_by(holder_id):
                if run.status in _OPEN and run.origin is None and self._is_sound(run):
                    yield run, why
        self._others = others

    def _is_sound(self, run: RunRecord) -> bool:
        """Whether to pick up a run whose process has ended: not while it may be what ends them
        (P312), and not beside another such run."""
        run_id, now = run.workflow_id, self._ledger.clock.now()
        if self.patience.is_put_off(run_id, now=now) or self._graph_for(run) is None:
            return True
        kills = poison.kills_of(self._ledger.store, run)
        if kills >= poison.MOST_KILLS:
            if poison.fail(self._ledger, run, kills):
                self.poisoned += 1
                log.warning("run=%r failed: it has ended %s processes in a row", run_id, kills)
            return False
        if poison.is_put_off(run, kills, now=now):
            return False
        if kills >= 2:
            mine, suspect = self._ledger.store.holder(), self._suspect
            if self._has_suspect or (suspect and is_driven_here(mine, suspect)):
                return False
            self._suspect, self._has_suspect = run_id, True
        return True

    def _held_and_not_driven(self) -> Iterator[tuple[RunRecord, str]]:
        """Yield runs that the ledger says this process holds, but that it does not drive.

        No other worker may take them while this process is alive. A run must be seen twice,
        because it may have been released between reading the ledger and looking at the process.
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
        """Yield an open run and its open children. They are driven together, so whatever prevented
        the release of one may have prevented the release of the others."""
        known = self._ledger.store.load_run(run_id)
        if known is not None and known.status in _OPEN:
            yield known
            for child in self._ledger.store.children(run_id):
                yield from self._family(child.workflow_id)

    def _fitting(
        self, runs: Iterator[tuple[RunRecord, str]], unwanted: set[str], now: float
    ) -> Iterator[RunTask]:
        """Yield the runs that this worker has the code for and wants now."""
        for run, why in runs:
            run_id = run.workflow_id
            has_code = bool(run.graph_id) and self._has(str(run.graph_id))
            patience = self.patience if has_code else self._children
            if run_id in unwanted or patience.is_put_off(run_id, now=now):
                continue
            graph = self._graph_for(run)
            task = RunTask(run, graph, why) if graph is not None else self.task_of_parent(run)
            if task is None:
                patience.put_off(run_id, now=now)
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


def _name_of(run: RunRecord) -> str:
    """The name of its graph, for all versions the same."""
    return (run.graph_id or "").rpartition("@")[0]


def _minor(graph: _Graph) -> str:
    """The version of a graph without its patch number: all patches can resume each other's runs."""
    return ".".join(map(str, graph.version[:2]))
