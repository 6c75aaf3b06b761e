"""An app: several graphs and their ledger, ``nt.App(graphs=[...], store="agent.db")``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from nottwice.engine.asks import Doing
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.opening import Opening
from nottwice.errors import InvalidGraph, UnknownRun, UsageError
from nottwice.graphs.admins import Admins, read_admins
from nottwice.graphs.binding import check_against_each_other
from nottwice.graphs.cancel import cancel
from nottwice.graphs.declare import Graph
from nottwice.graphs.enqueue import enqueue, enqueue_all
from nottwice.graphs.outcome import Outcome
from nottwice.graphs.progress import Progress, progress_of
from nottwice.graphs.running import (
    advancing,
    asked,
    check_no_loop,
    load,
    outcome_of,
    telling,
)
from nottwice.graphs.undeployed import parking, version_mismatch
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger, ledger_of
from nottwice.guard.settings.notifying import NotifySource, find_notify
from nottwice.guard.settings.policies import Policies, joined, read_policies
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import RunRecord, RunStatus
from nottwice.model.runs.labels import read_labels
from nottwice.model.runs.limits import Limit
from nottwice.model.tool import Duration, parse_duration
from nottwice.store.interface import Store


class App:
    """The graphs that are deployed together, possibly several versions of one graph (V3).

    ``admins`` names the people who may migrate its runs (``nt.versions.migrate``), or is a function
    that takes a name. Without it, migration is not possible. ``policy`` is a function, or several,
    that sees every call before it is made and may refuse it. The policies of the ledger apply too.
    The app's graphs refuse to run where its policy would be bypassed, so pass the app:
    ``graph.run(..., store=app)``. ``limits`` are kept by all processes that advance its runs
    together: how many calls of a tool, or runs of a graph or with a tag, are in progress at the
    same time, or begin in a time. ``notify``: who is told of reviews and
    failures, as for ``nt.Ledger``.
    """

    def __init__(
        self,
        *,
        graphs: Iterable[Graph[Any]],
        store: str | Path | Ledger | Store | None = None,
        admins: Admins = None,
        policy: Policies = None,
        limits: Iterable[Limit] = (),
        notify: NotifySource = None,
    ) -> None:
        if isinstance(graphs, Graph):
            raise UsageError(
                "App(graphs=...) takes a list of graphs. Nothing happened. Write: graphs=[graph]."
            )
        self.graphs = tuple(graphs)
        self.store = store
        self.admins = read_admins(admins)
        self.notify = notify
        of_ledger = store.host.policies if isinstance(store, Ledger) else ()
        self.policies = joined(of_ledger, read_policies(policy))
        """The policies that are asked before every call, whichever ledger is used."""
        self.limits = tuple(limits)
        """What all processes that advance its runs keep together."""
        for limit in self.limits:
            if not isinstance(limit, Limit):
                raise UsageError(f"App(limits=...) takes nt.Limit, not {limit!r}.")
        self._versions_checked = False
        seen: dict[str, Graph[Any]] = {}
        for graph in self.graphs:
            if not isinstance(graph, Graph):
                raise UsageError(f"App(graphs=...) takes graphs, and {graph!r} is not a graph.")
            if graph.id in seen and seen[graph.id] is not graph:
                raise InvalidGraph(
                    f"The app has two graphs {graph.id!r}. Nothing happened. Give one of them "
                    "another name or version."
                )
            seen[graph.id] = graph
            graph.definition()
        for graph in self.graphs:
            graph.belong_to(self.policies, self.graphs)

    def __repr__(self) -> str:
        # Without its store: that may be a URL with a password in it (P227).
        return f"<App of {', '.join(graph.id for graph in self.graphs) or 'no graphs'}>"

    @property
    def ledger(self) -> Ledger:
        """The ledger of this app."""
        return self.open_ledger()

    def open_ledger(self, *, create: bool = True) -> Ledger:
        """Open the app's ledger. With ``create=False``, raise NoLedger if it does not exist."""
        ledger = ledger_of(self.store, create=create).with_policies(self.policies)
        if self.limits and not ledger.store.keeps_limits:
            raise UsageError(
                f"The app has limits, and the ledger {ledger.location} cannot keep them. Nothing "
                "was started. Use SQLite or PostgreSQL (store='agent.db'), or leave limits= out."
            )
        ledger = ledger.with_limits(self.limits)
        if self.notify is not None:
            ledger.notify = find_notify(self.notify, ledger.store, ledger.clock)
        return ledger

    def run(self, graph: str, run_id: str, input: Any = None, **options: Any) -> Outcome[Any]:
        """Start a run, resume it, or return its finished result (see ``Graph.run``)."""
        check_not_importing(f"Run {run_id!r} is opened")
        ledger = self.ledger
        chosen = self._choose(graph, ledger.store.load_run(run_id), options)
        if isinstance(chosen, RunRecord):
            if chosen.status.is_final:
                return drive(telling(ledger.host, self._reader(chosen), chosen), ledger.host)
            raise drive(parking(ledger.host, chosen, self.deployed(chosen)), ledger.host)
        return chosen.run(run_id, input, store=ledger, **options)

    async def arun(
        self, graph: str, run_id: str, input: Any = None, **options: Any
    ) -> Outcome[Any]:
        """Like ``run``, without blocking the event loop."""
        check_not_importing(f"Run {run_id!r} is opened")
        ledger = self.ledger
        chosen = self._choose(graph, await drive_async(_loading(run_id), ledger.host), options)
        if isinstance(chosen, RunRecord):
            if chosen.status.is_final:
                return await drive_async(
                    telling(ledger.host, self._reader(chosen), chosen), ledger.host
                )
            raise await drive_async(
                parking(ledger.host, chosen, self.deployed(chosen)), ledger.host
            )
        return await chosen.arun(run_id, input, store=ledger, **options)

    def enqueue(
        self,
        graph: str,
        run_id: str,
        input: Any = None,
        *,
        retry: bool = False,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> bool:
        """Enqueue a run for a worker. Return False if the run already exists, with this input.

        The input is checked now, and the run takes the newest version that is deployed here. With
        ``retry``, a failed run is enqueued again and resumes at the node that failed. ``tags`` and
        ``group`` are those of ``nt.run``; a run that already exists keeps the tags that it has.
        Durable: when it returns.
        """
        check_not_importing(f"Run {run_id!r} is enqueued")
        labels = read_labels(tags, group, what=f"Run {run_id!r}")
        ledger = self.ledger
        self.check_versions()
        return enqueue(ledger, self.newest(graph), run_id, input, retry=retry, labels=labels)

    def enqueue_all(
        self,
        graph: str,
        inputs: Mapping[str, Any],
        *,
        retry: bool = False,
        tags: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> int:
        """Enqueue many runs, by id. Return how many are new or, with ``retry``, enqueued again.

        All runs are checked before the first one is written. If the call is interrupted, repeat it
        with the same inputs. ``tags`` and ``group`` apply to all of them.
        Durable: when it returns.
        """
        check_not_importing("Runs are enqueued")
        labels = read_labels(tags, group, what="Runs to enqueue")
        ledger = self.ledger
        self.check_versions()
        return enqueue_all(ledger, self.newest(graph), inputs, retry=retry, labels=labels)

    def advance(
        self,
        run_id: str,
        *,
        most_nodes: int | None = None,
        told_to_stop: Callable[[], bool] | None = None,
        acquire_timeout: Duration | None = None,
        settle_timeout: Duration = "60s",
        within: Duration | None = None,
    ) -> Progress:
        """Advance an enqueued or interrupted run as far as possible, for your own scheduler.

        ``most_nodes``: hand it back after this many nodes (a fan-out counts as one).
        ``told_to_stop``: asked between two nodes; True hands it back. ``within``: hand it back
        after the node that is running then. If a doubt from an earlier process needs longer,
        RunWaits says when to come back. The result says what the run
        waits for and when to call this again. An exception of a node is recorded as the failure of
        the run, and raised; call this again to retry the node. Durable: the progress, when it
        returns or raises.
        """
        check_not_importing(f"Run {run_id!r} is advanced")
        ledger = self.open_ledger(create=False)
        opening = asked(ledger.host, run_id, None, acquire_timeout, settle_timeout)
        opening = _ending(opening, most_nodes, told_to_stop, within)
        return drive(self._advancing(opening, is_sync=True), opening.host)

    async def aadvance(
        self,
        run_id: str,
        *,
        most_nodes: int | None = None,
        told_to_stop: Callable[[], bool] | None = None,
        acquire_timeout: Duration | None = None,
        settle_timeout: Duration = "60s",
        within: Duration | None = None,
    ) -> Progress:
        """Like ``advance``, without blocking the event loop.

        If it is cancelled, nothing new begins, and it releases the run immediately. Only an effect
        in flight is waited for, until its outcome is recorded, for up to a minute. If it is
        cancelled again, it leaves without waiting; the run is released when the effect has ended.
        A sync node that cannot be stopped runs on without the run, and can make no call.
        """
        check_not_importing(f"Run {run_id!r} is advanced")
        ledger = self.open_ledger(create=False)
        opening = asked(ledger.host, run_id, None, acquire_timeout, settle_timeout)
        opening = _ending(opening, most_nodes, told_to_stop, within)
        return await drive_async(self._advancing(opening, is_sync=False), opening.host)

    def outcome(self, run_id: str) -> Outcome[Any]:
        """Return how far a run got. Nothing runs, and its version need not be deployed."""
        ledger = ledger_of(self.store, create=False)
        run = ledger.store.load_run(run_id)
        if run is None:
            raise UnknownRun(f"There is no run {run_id!r} in {ledger.location}.")
        return outcome_of(ledger.store, self._reader(run), run_id)

    def cancel(self, run_id: str, *, by: str, why: str) -> bool:
        """Abort a run and its children. False: another process holds it and was asked to stop."""
        check_not_importing(f"Run {run_id!r} is cancelled")
        return cancel(ledger_of(self.store, create=False), run_id, by=by, why=why)

    def newest(self, name: str) -> Graph[Any]:
        """Return the newest version of a graph, which new runs take."""
        versions = [graph for graph in self.graphs if name in (graph.name, graph.id)]
        if not versions:
            # List versions if the caller asked for a version, and names otherwise.
            by_id = "@" in name
            named = {graph.id if by_id else graph.name for graph in self.graphs}
            known = ", ".join(sorted(named)) or "none"
            raise UsageError(f"The app has no graph {name!r}. Nothing was done. It has: {known}.")
        return max(versions, key=lambda graph: graph.version)

    def graph_of(self, run: RunRecord) -> Graph[Any]:
        """Return the deployed graph that resumes a run: the newest patch of its minor version.

        It may be an earlier patch than the run began with: patches differ in bodies only (V5).
        """
        fitting = self.fitting(run)
        if fitting is None:
            raise version_mismatch(run, self.deployed(run), store=self.ledger.store)
        return fitting

    def fitting(self, run: RunRecord) -> Graph[Any] | None:
        """Like ``graph_of``, but return None if no deployed version fits."""
        if run.graph_id is None:
            raise UsageError(f"Run {run.workflow_id!r} is not a graph run.")
        name, version = split_graph_id(run.graph_id)
        fitting = [
            graph
            for graph in self.graphs
            if graph.name == name and graph.version[:2] == version[:2]
        ]
        return max(fitting, key=lambda graph: graph.version, default=None)

    def deployed(self, run: RunRecord) -> list[str]:
        """Return the deployed versions of a run's graph, whether or not they fit the run."""
        name = split_graph_id(run.graph_id or "")[0]
        versions = [graph for graph in self.graphs if graph.name == name]
        return [graph.id for graph in sorted(versions, key=lambda graph: graph.version)]

    def check_versions(self) -> None:
        """Refuse versions whose numbers do not reflect how much changed between them.

        This is not checked when the app is created, because annotations may name classes that are
        defined further down."""
        if not self._versions_checked:
            check_against_each_other(self.graphs)
            self._versions_checked = True

    def _choose(
        self, name: str, run: RunRecord | None, options: Mapping[str, Any]
    ) -> Graph[Any] | RunRecord:
        """Return the graph that takes a run, or the existing run if no deployed version fits."""
        bound = None if run is None or run.graph_id is None else split_graph_id(run.graph_id)[0]
        # A run keeps its graph, even when no version of the graph is deployed any more.
        is_its_own = run is not None and bound is not None and name.partition("@")[0] == bound
        if run is None or not (is_its_own and run.status.is_final):
            # Any deployed code can report on a finished run.
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

    def _advancing(self, opening: Opening, *, is_sync: bool) -> Doing[Progress]:
        host, run_id = opening.host, opening.run_id
        run: RunRecord | None = yield load(run_id)
        if run is None:
            raise UnknownRun(
                f"There is no run {run_id!r} in {host.store.location}. Nothing was done. Start it: "
                f"app.enqueue(graph, {run_id!r}, input)."
            )
        if not run.status.is_final:
            self.check_versions()
            graph = self.fitting(run)
            if graph is None:
                raise (yield from parking(host, run, self.deployed(run)))
            if is_sync:
                check_no_loop(graph, "await app.aadvance(...)")
            yield from advancing(graph, opening)
        return (yield from progress_of(host, run_id))

    def _reader(self, run: RunRecord) -> Graph[Any] | None:
        """Return a graph whose type may hold a run's state: the fitting one, else the newest."""
        name = split_graph_id(run.graph_id or "")[0] if run.graph_id is not None else None
        fitting = self.fitting(run)
        versions = [graph for graph in self.graphs if graph.name == name]
        return fitting or max(versions, key=lambda graph: graph.version, default=None)


def _ending(
    opening: Opening,
    most_nodes: int | None,
    told_to_stop: Callable[[], bool] | None,
    within: Duration | None,
) -> Opening:
    """Return the opening of a run that is handed back at one of these ends."""
    clock, until = opening.host.clock, None
    if within is not None:
        until = clock.now() + parse_duration(within, what="within")

    def told() -> bool:
        is_over = until is not None and clock.now() >= until
        return is_over or (told_to_stop is not None and told_to_stop())

    return replace(opening, most_nodes=_check_most(most_nodes), told_to_stop=told, until=until)


def _check_most(nodes: int | None) -> int | None:
    if nodes is not None and (type(nodes) is not int or nodes < 1):
        raise UsageError(
            f"most_nodes={nodes!r} is not a number of nodes. Nothing was done. Pass 1 or more, or "
            "None for no limit."
        )
    return nodes


def _loading(run_id: str) -> Doing[RunRecord | None]:
    run: RunRecord | None = yield load(run_id)
    return run
