"""Several graphs and their ledger as one thing: ``nt.App(graphs=[...], store="agent.db")``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nottwice.engine.asks import Doing
from nottwice.engine.drivers import drive, drive_async
from nottwice.errors import InvalidGraph, UnknownRun, UsageError
from nottwice.graphs.admins import Admins, read_admins
from nottwice.graphs.binding import check_against_each_other
from nottwice.graphs.cancel import cancel
from nottwice.graphs.declare import Graph
from nottwice.graphs.enqueue import enqueue, enqueue_all
from nottwice.graphs.outcome import Outcome
from nottwice.graphs.running import load, outcome_of, telling
from nottwice.graphs.undeployed import parking, version_mismatch
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger, ledger_of
from nottwice.guard.settings.policies import Policies, joined, read_policies
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import RunRecord, RunStatus
from nottwice.store.interface import Store


class App:
    """What is deployed together. A graph may be there in several versions at once (V3).

    ``admins``: who may migrate its runs (``nt.migrate``), as names or as a function of a name;
    without it no one may. ``policy``: a function, or several, that see every call before it is
    made, and may refuse it, wherever the app runs; those of its ledger are asked as well. Its
    graphs refuse to run where it would not be asked: pass the app, ``graph.run(..., store=app)``.
    """

    def __init__(
        self,
        *,
        graphs: Iterable[Graph[Any]],
        store: str | Path | Ledger | Store | None = None,
        admins: Admins = None,
        policy: Policies = None,
    ) -> None:
        if isinstance(graphs, Graph):
            raise UsageError(
                "App(graphs=...) takes a list of graphs. Nothing happened. Write: graphs=[graph]."
            )
        self.graphs = tuple(graphs)
        self.store = store
        self.admins = read_admins(admins)
        of_ledger = store.policies if isinstance(store, Ledger) else ()
        self.policies = joined(of_ledger, read_policies(policy))
        """Who is asked before every call, also when somebody names another ledger."""
        self._versions_checked = False
        seen: dict[str, Graph[Any]] = {}
        for graph in self.graphs:
            if not isinstance(graph, Graph):
                raise UsageError(f"App(graphs=...) takes graphs, and {graph!r} is none.")
            if graph.id in seen and seen[graph.id] is not graph:
                raise InvalidGraph(
                    f"The app has two graphs {graph.id!r}. Nothing happened. Give one of them "
                    "another name or version."
                )
            seen[graph.id] = graph
            graph.definition()
        for graph in self.graphs:
            graph.belong_to(self.policies, self.graphs)

    @property
    def ledger(self) -> Ledger:
        """The ledger of this app."""
        return self.open_ledger()

    def open_ledger(self, *, create: bool = True) -> Ledger:
        """The same; with ``create=False`` one that is not there is NoLedger."""
        return ledger_of(self.store, create=create).with_policies(self.policies)

    def run(self, graph: str, run_id: str, input: Any = None, **options: Any) -> Outcome[Any]:
        """Start a run, resume it, or return its finished result (see ``Graph.run``)."""
        check_not_importing(f"Run {run_id!r} is opened")
        ledger = self.ledger
        chosen = self._choose(graph, ledger.store.load_run(run_id), options)
        if isinstance(chosen, RunRecord):
            if chosen.status.is_final:
                return drive(telling(ledger, self._reader(chosen), chosen), ledger)
            raise drive(parking(ledger, chosen, self.deployed(chosen)), ledger)
        return chosen.run(run_id, input, store=ledger, **options)

    async def arun(
        self, graph: str, run_id: str, input: Any = None, **options: Any
    ) -> Outcome[Any]:
        """The same without blocking the event loop."""
        check_not_importing(f"Run {run_id!r} is opened")
        ledger = self.ledger
        chosen = self._choose(graph, await drive_async(_loading(run_id), ledger), options)
        if isinstance(chosen, RunRecord):
            if chosen.status.is_final:
                return await drive_async(telling(ledger, self._reader(chosen), chosen), ledger)
            raise await drive_async(parking(ledger, chosen, self.deployed(chosen)), ledger)
        return await chosen.arun(run_id, input, store=ledger, **options)

    def enqueue(self, graph: str, run_id: str, input: Any = None, *, retry: bool = False) -> bool:
        """Put a run down for a worker to begin; False: it was there already, with this input.

        The input is checked now, and the run takes the newest version that is deployed here. With
        ``retry`` a run that failed is put down again, to go on where it failed.
        Durable: when it returns.
        """
        check_not_importing(f"Run {run_id!r} is enqueued")
        ledger = self.ledger
        self.check_versions()
        return enqueue(ledger, self.newest(graph), run_id, input, retry=retry)

    def enqueue_all(self, graph: str, inputs: Mapping[str, Any], *, retry: bool = False) -> int:
        """Put many runs down, by their ids, and return how many of them are new, or put back.

        All of them are checked before the first one is written. Durable: when it returns; whoever
        is interrupted asks for the same again.
        """
        check_not_importing("Runs are enqueued")
        ledger = self.ledger
        self.check_versions()
        return enqueue_all(ledger, self.newest(graph), inputs, retry=retry)

    def outcome(self, run_id: str) -> Outcome[Any]:
        """How far a run came, without running anything; also where no version of it is deployed."""
        ledger = ledger_of(self.store, create=False)
        run = ledger.store.load_run(run_id)
        if run is None:
            raise UnknownRun(f"No run {run_id!r} is in {ledger.location}.")
        return outcome_of(ledger.store, self._reader(run), run_id)

    def cancel(self, run_id: str, *, by: str, why: str) -> bool:
        """Abort a run and its children; False: somebody drives it, and was told to stop."""
        check_not_importing(f"Run {run_id!r} is cancelled")
        return cancel(ledger_of(self.store, create=False), run_id, by=by, why=why)

    def newest(self, name: str) -> Graph[Any]:
        """The newest version of a graph: the one that new runs take."""
        versions = [graph for graph in self.graphs if name in (graph.name, graph.id)]
        if not versions:
            # Who asked for a version wants to see versions.
            by_id = "@" in name
            named = {graph.id if by_id else graph.name for graph in self.graphs}
            known = ", ".join(sorted(named)) or "none"
            raise UsageError(f"The app has no graph {name!r}. Nothing was done. It has: {known}.")
        return max(versions, key=lambda graph: graph.version)

    def graph_of(self, run: RunRecord) -> Graph[Any]:
        """The deployed graph that may resume a run: its own version, or a later patch of it."""
        fitting = self.fitting(run)
        if fitting is None:
            raise version_mismatch(run, self.deployed(run), store=self.ledger.store)
        return fitting

    def fitting(self, run: RunRecord) -> Graph[Any] | None:
        """The same, or None if there is none."""
        if run.graph_id is None:
            raise UsageError(f"Run {run.workflow_id!r} is not a run of a graph.")
        name, version = split_graph_id(run.graph_id)
        fitting = [
            graph
            for graph in self.graphs
            if graph.name == name and graph.version[:2] == version[:2]
        ]
        return max(fitting, key=lambda graph: graph.version, default=None)

    def deployed(self, run: RunRecord) -> list[str]:
        """The versions of a run's graph that are here, none of which may fit."""
        name = split_graph_id(run.graph_id or "")[0]
        versions = [graph for graph in self.graphs if graph.name == name]
        return [graph.id for graph in sorted(versions, key=lambda graph: graph.version)]

    def check_versions(self) -> None:
        """Refuse versions that do not say how much has changed between them.

        Not when the app is made: what annotations name may be defined further down."""
        if not self._versions_checked:
            check_against_each_other(self.graphs)
            self._versions_checked = True

    def _choose(
        self, name: str, run: RunRecord | None, options: Mapping[str, Any]
    ) -> Graph[Any] | RunRecord:
        """The graph that takes a run; or the run itself, if it is there and none can."""
        bound = None if run is None or run.graph_id is None else split_graph_id(run.graph_id)[0]
        # A run keeps its graph, also when no version of that is deployed any more.
        is_its_own = run is not None and bound is not None and name.partition("@")[0] == bound
        if run is None or not (is_its_own and run.status.is_final):
            # What is over is told by whatever code there is.
            self.check_versions()
        if run is not None and is_its_own:
            fitting = self.fitting(run)
            versions = [graph for graph in self.graphs if name in (graph.name, graph.id)]
            newest = max(versions, key=lambda graph: graph.version, default=None)
            converses = run.status is RunStatus.COMPLETED and newest is not None
            if newest is not None and converses and newest.converses:
                # A conversation that had ended continues in the newest version.
                if fitting is None or options.get("message") is not None:
                    return newest
            return fitting or run
        return self.newest(name)

    def _reader(self, run: RunRecord) -> Graph[Any] | None:
        """A graph whose type may hold the state of a run: the one that fits, else the newest."""
        name = split_graph_id(run.graph_id or "")[0] if run.graph_id is not None else None
        fitting = self.fitting(run)
        versions = [graph for graph in self.graphs if graph.name == name]
        return fitting or max(versions, key=lambda graph: graph.version, default=None)


def _loading(run_id: str) -> Doing[RunRecord | None]:
    run: RunRecord | None = yield load(run_id)
    return run
