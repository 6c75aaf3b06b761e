"""Move a run to another version of its graph: ``nt.versions.migrate`` (V4).

For every node that the run is at, the caller defines the node of the new version where it resumes.
An admin of the app takes responsibility. Position, state, the graph that the run is bound to, and
who did it and why are written in one commit. Call identities contain the version, so no call of the
new version is answered by a receipt of the old one. The refusals make sure that nothing is done
twice either. Promises kept here: P45, P46, P47.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read, Write
from nottwice.engine.drivers import drive
from nottwice.engine.opening import Opening
from nottwice.errors import (
    CommitUnknown,
    MigrationRefused,
    NottwiceError,
    RunBusy,
    StoreError,
    UnknownRun,
    UsageError,
)
from nottwice.graphs.admins import check_admin
from nottwice.graphs.app import App
from nottwice.graphs.binding import check_unchanged
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger, ledger_of
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import Life, RunRecord
from nottwice.store.interface import Outdated, Store
from nottwice.versions.migrate_plan import (
    OVER,
    Migration,
    MigrationOrder,
    MigrationPlan,
    Upgrade,
    check_movable,
    draw_up,
)


def migrate(
    app: App,
    run_id: str,
    *,
    to: str,
    mapping: Mapping[str, str],
    by: str,
    why: str,
    upgrade: Upgrade | None = None,
    restart_steps: bool = False,
    repeats: Collection[str] = (),
    dry_run: bool = False,
) -> Migration:
    """Bind a run to another version of its graph, at the nodes that ``mapping`` defines.

    ``to`` is a version that the app has, ``"refund@2.0.0"``. ``mapping`` gives, for every node that
    the run is at, the node of the new version where it resumes. An agent needs none: ``{}``.
    ``by`` is an admin of the app. ``upgrade`` converts the state, a dict, to that of the new
    version. ``restart_steps`` allows the timers, questions and answers of an unfinished step to
    start again. ``repeats`` names tools that may repeat effects that the run has already made. With
    ``dry_run``, nothing changes. Raises MigrationRefused with the reasons, and changes nothing, if
    the run cannot be migrated.
    Durable: when it returns.
    """
    check_not_importing("Runs are migrated")
    order = order_of(
        app,
        to=to,
        mapping=mapping,
        by=by,
        why=why,
        upgrade=upgrade,
        restart_steps=restart_steps,
        repeats=repeats,
    )
    ledger = ledger_of(app.store, create=False)
    return migrate_one(ledger, run_id, order, dry_run=dry_run)


def migrate_all(
    app: App,
    from_graph: str,
    *,
    to: str,
    mapping: Mapping[str, str],
    by: str,
    why: str,
    upgrade: Upgrade | None = None,
    restart_steps: bool = False,
    repeats: Collection[str] = (),
    dry_run: bool = False,
) -> Iterator[Migration]:
    """Migrate every open run of a version, one after the other, oldest first.

    Each run has its own commit. A refused run does not stop the others. Its ``error`` contains the
    reason. Call it again to migrate those that are left.
    """
    check_not_importing("Runs are migrated")
    order = order_of(
        app,
        to=to,
        mapping=mapping,
        by=by,
        why=why,
        upgrade=upgrade,
        restart_steps=restart_steps,
        repeats=repeats,
    )
    ledger = ledger_of(app.store, create=False)
    names = open_runs(ledger.store, from_graph)
    return (attempt(ledger, name, order, dry_run=dry_run) for name in names)


def order_of(
    app: App,
    *,
    to: str,
    mapping: Mapping[str, str],
    by: str,
    why: str,
    upgrade: Upgrade | None = None,
    restart_steps: bool = False,
    repeats: Collection[str] = (),
) -> MigrationOrder:
    """Check a migration request before any run is read."""
    for name, text in (("by", by), ("why", why)):
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"Migrating a run needs {name}, for the record. Nothing was done.")
    if not isinstance(mapping, Mapping) or not all(
        isinstance(name, str) for pair in mapping.items() for name in pair
    ):
        raise UsageError(
            f"mapping={mapping!r} does not map nodes to nodes. Nothing was done. Use "
            "names: {'old node': 'new node'}."
        )
    if upgrade is not None and not callable(upgrade):
        raise UsageError(
            f"upgrade={upgrade!r} is not a function that takes a state. Nothing was done."
        )
    if isinstance(repeats, str) or not all(isinstance(tool, str) for tool in repeats):
        raise UsageError(
            f"repeats={repeats!r} is not a list of tools. Nothing was done. Use names: ['pay']."
        )
    check_admin(app.admins, by, what_for="migrate runs")
    graph = next((graph for graph in app.graphs if graph.id == to), None)
    if graph is None:
        known = ", ".join(graph.id for graph in app.graphs) or "none"
        raise UsageError(f"The app has no graph {to!r}. Nothing was done. It has: {known}.")
    # An agent has the same nodes in all versions, so a run continues at the same node.
    same = {name: name for name in graph.code} if graph.converses else {}
    return MigrationOrder(
        to=graph,
        mapping={**same, **mapping},
        by=by,
        why=why,
        upgrade=upgrade,
        restart_steps=restart_steps,
        repeats=frozenset(repeats),
    )


def open_runs(store: Store, graph_id: str) -> list[str]:
    """Return the open runs of a version, oldest first."""
    if not isinstance(graph_id, str) or "@" not in graph_id:
        raise UsageError(
            f"{graph_id!r} is not a version of a graph. Nothing was done. Write name@version, like "
            "refund@1.2.0. To list versions: nottwice runs --by-version"
        )
    split_graph_id(graph_id)
    found = [run for run in store.runs() if run.graph_id == graph_id and run.status not in OVER]
    found.sort(key=lambda run: (run.created_at, run.workflow_id))
    return [run.workflow_id for run in found]


def attempt(ledger: Ledger, run_id: str, order: MigrationOrder, *, dry_run: bool) -> Migration:
    """Migrate one of many runs. An error is returned as part of the result."""
    try:
        return migrate_one(ledger, run_id, order, dry_run=dry_run)
    except NottwiceError as error:
        bound = getattr(error, "facts", {}).get("bound")
        return Migration(run_id=run_id, old=bound, new=order.to.id, outcome="refused", error=error)


def migrate_one(ledger: Ledger, run_id: str, order: MigrationOrder, *, dry_run: bool) -> Migration:
    """Migrate a run, or return what that would change."""
    store = ledger.store
    run = store.load_run(run_id)
    if run is None:
        raise UnknownRun(f"There is no run {run_id!r} in {ledger.location}. Nothing was done.")
    if run.graph_id == order.to.id:
        return Migration(run_id=run_id, old=run.graph_id, new=order.to.id, outcome="already there")
    check_unchanged(store, order.to)
    check_movable(run, order)
    if dry_run:
        _check_idle(store, run)
        return draw_up(store, run, order, now=ledger.clock.now()).told("would migrate")
    return drive(_migrating(ledger, run, order), ledger.host)


def _migrating(ledger: Ledger, run: RunRecord, order: MigrationOrder) -> Doing[Migration]:
    """Become the run's holder, read the run, and write the migration in one commit."""
    opening = Opening(
        host=ledger.host,
        run_id=run.workflow_id,
        bound=run.graph_id,
        as_it_is=True,
    )
    try:
        session = yield from ownership.take(opening)
    except ownership.Rebound as moved:
        raise MigrationRefused(
            f"Another process has just migrated run {run.workflow_id!r}. Nothing was changed. "
            "Look at the run again.",
            run_id=run.workflow_id,
        ) from moved
    while True:
        try:
            plan: MigrationPlan = yield _look(session.run, order, now=ledger.clock.now())
            yield Write(plan.commit(session.fence))
        except Outdated:
            # A person has just decided something about the run. Read it again.
            continue
        except CommitUnknown:
            # It may be durable, so do not restore anything. The next claim sees the truth.
            ownership.let_go(session)
            raise
        except BaseException as error:
            try:
                yield from ownership.put_back(session)
            except StoreError as again:
                error.add_note(f"The run could not be released either: {again}")
            raise
        ownership.let_go(session)
        return plan.told("migrated")


def _look(run: RunRecord, order: MigrationOrder, *, now: float) -> Read:
    return Read(lambda store: draw_up(store, run, order, now=now))


def _check_idle(store: Store, run: RunRecord) -> None:
    if run.holder_id is not None and store.life_of(run.holder_id) is Life.ALIVE:
        holder = store.load_holder(run.holder_id)
        who = "a process" if holder is None else holder.describe()
        raise RunBusy(
            f"Run {run.workflow_id!r} is driven by {who}. Nothing was done. Wait until the run has "
            "ended or waits, or stop that process.",
            run_id=run.workflow_id,
            holder=holder,
            since=run.claimed_at,
        )
