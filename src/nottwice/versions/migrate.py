"""Move a run to another version of its graph: ``nt.migrate`` (V4).

Whoever migrates says for every node that the run is at which node of the new version it goes on at,
and an admin of the app answers for it. All of it is one commit: position, state, the graph that the
run is bound to, and who did it and why. Identities of calls name the version, so what the new one
asks for is never answered by a receipt of the old one; that nothing is done twice either is what
the refusals are for. Promises kept here: P45, P46, P47.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Read, Write
from nottwice.engine.drivers import drive
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
from nottwice.guard import registry
from nottwice.guard.check.importing import check_not_importing
from nottwice.guard.ledger import Ledger, ledger_of
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import Life, RunRecord
from nottwice.store.interface import Outdated, Store
from nottwice.versions.migrate_plan import (
    OVER,
    Migration,
    Order,
    Plan,
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
    """Bind a run to another version of its graph, at the nodes that ``mapping`` says.

    ``to``: the version, ``"refund@2.0.0"``, which the app has. ``mapping``: for every node that
    the run is at, the node of the new version at which it goes on; an agent needs none, ``{}``.
    ``by``: an admin of the app.
    ``upgrade`` turns the state, a dict, into that of the new version. ``restart_steps`` lets
    timers, questions and answers of a step that is not over begin again. ``repeats`` names tools
    that may do once more what the run has done with them. With ``dry_run`` nothing changes.
    MigrationRefused says what speaks against it, and everything is left as it was.
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
    """The same for every open run of a version, one after the other, oldest first.

    Each has a commit of its own, and one that is refused does not stop the others: its ``error``
    says why. Migrating again takes those that are left.
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
) -> Order:
    """What somebody wants, checked before any run is looked at."""
    for name, text in (("by", by), ("why", why)):
        if not isinstance(text, str) or not text.strip():
            raise UsageError(f"Migrating a run needs {name}: it is kept. Nothing was done.")
    if not isinstance(mapping, Mapping) or not all(
        isinstance(name, str) for pair in mapping.items() for name in pair
    ):
        raise UsageError(
            f"mapping={mapping!r} does not say which node becomes which. Nothing was done. Give "
            "names: {'old node': 'new node'}."
        )
    if upgrade is not None and not callable(upgrade):
        raise UsageError(f"upgrade={upgrade!r} is no function of a state. Nothing was done.")
    if isinstance(repeats, str) or not all(isinstance(tool, str) for tool in repeats):
        raise UsageError(
            f"repeats={repeats!r} is no list of tools. Nothing was done. Give their names: ['pay']."
        )
    check_admin(app.admins, by, what_for="migrate runs")
    graph = next((graph for graph in app.graphs if graph.id == to), None)
    if graph is None:
        known = ", ".join(graph.id for graph in app.graphs) or "none"
        raise UsageError(f"The app has no graph {to!r}. Nothing was done. It has: {known}.")
    # The beats of an agent are the same in all versions: a run continues at the one that it is at.
    same = {name: name for name in graph.code} if graph.converses else {}
    return Order(
        to=graph,
        mapping={**same, **mapping},
        by=by,
        why=why,
        upgrade=upgrade,
        restart_steps=restart_steps,
        repeats=frozenset(repeats),
    )


def open_runs(store: Store, graph_id: str) -> list[str]:
    """The runs that are bound to a version and not over, oldest first."""
    if not isinstance(graph_id, str) or "@" not in graph_id:
        raise UsageError(
            f"{graph_id!r} names no version of a graph. Nothing was done. Write name@version: "
            "refund@1.2.0. Which there are: nottwice runs --by-version"
        )
    split_graph_id(graph_id)
    found = [run for run in store.runs() if run.graph_id == graph_id and run.status not in OVER]
    found.sort(key=lambda run: (run.created_at, run.workflow_id))
    return [run.workflow_id for run in found]


def attempt(ledger: Ledger, run_id: str, order: Order, *, dry_run: bool) -> Migration:
    """Migrate one run of many: an error is part of the answer."""
    try:
        return migrate_one(ledger, run_id, order, dry_run=dry_run)
    except NottwiceError as error:
        bound = getattr(error, "facts", {}).get("bound")
        return Migration(run_id=run_id, old=bound, new=order.to.id, outcome="refused", error=error)


def migrate_one(ledger: Ledger, run_id: str, order: Order, *, dry_run: bool) -> Migration:
    """Migrate a run, or tell what that would change."""
    store = ledger.store
    run = store.load_run(run_id)
    if run is None:
        raise UnknownRun(f"No run {run_id!r} is in {ledger.location}. Nothing was done.")
    if run.graph_id == order.to.id:
        return Migration(run_id=run_id, old=run.graph_id, new=order.to.id, outcome="already there")
    check_unchanged(store, order.to)
    check_movable(run, order)
    if dry_run:
        _check_idle(store, run)
        return draw_up(store, run, order, now=ledger.clock.now()).told("would migrate")
    return drive(_migrating(ledger, run, order), ledger)


def _migrating(ledger: Ledger, run: RunRecord, order: Order) -> Doing[Migration]:
    """As the run's holder: look at it, and write everything at once."""
    opening = ownership.Opening(
        host=ledger,
        run_id=run.workflow_id,
        find_tool=registry.find_tool,
        bound=run.graph_id,
        as_it_is=True,
    )
    try:
        session = yield from ownership.take(opening)
    except ownership.Rebound as moved:
        raise MigrationRefused(
            f"Run {run.workflow_id!r} was migrated by somebody else at this very moment. Nothing "
            "was changed. Look at it again.",
            run_id=run.workflow_id,
        ) from moved
    while True:
        try:
            plan: Plan = yield _look(session.run, order, now=ledger.clock.now())
            yield Write(plan.commit(session.fence))
        except Outdated:
            # Somebody decided something about the run at this very moment: look again.
            continue
        except CommitUnknown:
            # It may be durable, so nothing may be put back. The next claim finds what there is.
            ownership.let_go(session)
            raise
        except BaseException as error:
            try:
                yield from ownership.put_back(session)
            except StoreError as again:
                error.add_note(f"The run could not be given up either: {again}")
            raise
        ownership.let_go(session)
        return plan.told("migrated")


def _look(run: RunRecord, order: Order, *, now: float) -> Read:
    return Read(lambda store: draw_up(store, run, order, now=now))


def _check_idle(store: Store, run: RunRecord) -> None:
    if run.holder_id is not None and store.life_of(run.holder_id) is Life.ALIVE:
        holder = store.load_holder(run.holder_id)
        who = "a process" if holder is None else holder.describe()
        raise RunBusy(
            f"Run {run.workflow_id!r} is driven by {who}. Nothing was done. Wait until it has "
            "ended or waits, or stop that process.",
            run_id=run.workflow_id,
            holder=holder,
            since=run.claimed_at,
        )
