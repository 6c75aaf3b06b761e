"""Start a run of a graph, resume it, or tell how it ended: one call does all three (D5, V1).

Only resuming needs code that fits the run. How it ended is told by any version, and by none (P156).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from nottwice.engine import ownership
from nottwice.engine.advance import Landing, NodeCode, Plan, conduct
from nottwice.engine.asks import Doing, Pause, Read
from nottwice.engine.drivers import drive, drive_async, loop_is_running
from nottwice.engine.host import Host
from nottwice.errors import (
    LedgerTampered,
    RunAborted,
    UnknownRun,
    UsageError,
)
from nottwice.graphs.binding import Printed, check_unchanged
from nottwice.graphs.cancel import cancel_children
from nottwice.graphs.outcome import NodeMark, Outcome
from nottwice.graphs.policed import Bonds, check_policed, policies_of
from nottwice.graphs.readiness import can_go_on, is_ready
from nottwice.graphs.recorded import recorded_definition
from nottwice.graphs.state import StateType
from nottwice.graphs.undeployed import version_mismatch
from nottwice.guard import registry
from nottwice.guard.ledger import Ledger
from nottwice.model import values
from nottwice.model.call import check_id, child_node
from nottwice.model.graphs.graph import GraphDefinition, split_graph_id
from nottwice.model.graphs.position import around
from nottwice.model.places import was_left
from nottwice.model.records import frozen_record
from nottwice.model.review import MIGRATE, Review
from nottwice.model.run import (
    GraphRecord,
    LastVisit,
    RunRecord,
    RunStatus,
    StepRecord,
    StepStatus,
    Wait,
)
from nottwice.model.saving.cadence import Cadence
from nottwice.model.saving.frozen import thaw
from nottwice.model.saving.image import load_image
from nottwice.model.tool import Duration, parse_duration
from nottwice.store.interface import Store, check_not_removed

POLL_SECONDS = 0.2
_BRANCH = re.compile(r"^/\[\d+\]/")


class Runnable(Printed, Protocol):
    """What running a graph needs to know of it."""

    state: StateType
    cadence: Cadence
    bonds: Bonds

    @property
    def beside(self) -> Sequence[Runnable]:
        """What is deployed together with it, other versions of it included."""

    @property
    def code(self) -> Mapping[str, NodeCode]: ...

    def definition(self) -> GraphDefinition: ...


@frozen_record(frozen=True, slots=True)
class Asked:
    """What somebody asks for who runs a graph."""

    graph: Runnable
    run_id: str
    input: Any
    wait_seconds: float = 0.0
    patience: Duration = "60s"
    stay: Duration | None = None
    parent: RunRecord | None = None
    told_to_stop: Callable[[], bool] | None = None
    """Whether to hand the run back at the end of the node that is under way."""


def run(ledger: Ledger, asked: Asked) -> Outcome[Any]:
    """Advance a run in this thread until it is finished or waits."""
    check_no_loop(asked.graph, "await graph.arun(...)")
    return drive(running(ledger, asked), ledger)


async def arun(ledger: Ledger, asked: Asked) -> Outcome[Any]:
    """The same without blocking the event loop."""
    return await drive_async(running(ledger, asked), ledger)


def check_no_loop(graph: Runnable, instead: str) -> None:
    """Refuse async nodes where nobody could await them, before anything has happened."""
    if loop_is_running() and any(code.is_async for code in graph.code.values()):
        raise UsageError(
            f"Graph {graph.name!r} has async nodes and was run without await inside an event loop. "
            f"Nothing happened. Use: {instead}"
        )


def running(seat: Host, asked: Asked) -> Doing[Outcome[Any]]:
    """The same for the engine: whoever drives this drives the run."""
    clock, graph = seat.clock, asked.graph
    run_id = check_id(asked.run_id, what="The run id")
    stay_seconds = 0.0
    if asked.stay is not None:
        stay_seconds = parse_duration(asked.stay, what="stay")
    deadline = clock.now() + stay_seconds
    check_policed(seat.policies, graph, run_id)
    while True:
        known: RunRecord | None = yield load(run_id)
        if known is not None and is_over_elsewhere(graph, known):
            return (yield from telling(seat, graph, known))
        begins = yield from beginning(asked, known, now=clock.now())
        if known is not None and known.status.is_final:
            return (yield from telling(seat, graph, known))
        yield Read(lambda store: check_unchanged(store, graph))
        was_ready = known is not None and (yield _can_go_on(known, clock.now()))
        try:
            landing = yield from _advance(seat, asked, known, begins)
        except ownership.Rebound:
            # It was migrated, or started by another version, since we looked: look again.
            continue
        if isinstance(landing.stop, RunAborted):
            yield from _abort_children(seat, run_id)
        if landing.stop is None or isinstance(landing.stop, RunAborted):
            # Also if it was handed back: it could go on, but not here.
            return (yield from _tell(graph, run_id, landing))
        # Something that has come and that nobody used will not be used by trying at once again.
        waits: tuple[Wait, ...] = yield Read(lambda store: _waits(store, run_id))
        in_vain = was_ready and known is not None and known.waits == waits
        while in_vain or not (yield _is_ready(run_id, clock.now())):
            left = deadline - clock.now()
            if left <= 0:
                return (yield from _tell(graph, run_id))
            yield Pause(min(POLL_SECONDS, left))
            in_vain = False


def is_over_elsewhere(graph: Runnable, run: RunRecord) -> bool:
    """Whether a run is over that another version of this graph has run: no code is needed for it.

    Its input is not compared: the state of this version may be another one.
    """
    if not run.status.is_final or run.graph_id is None:
        return False
    return split_graph_id(run.graph_id)[0] == graph.name and not fits(graph, run)


def telling(seat: Host, graph: Runnable | None, run: RunRecord) -> Doing[Outcome[Any]]:
    """Tell how a run ended that is over; ``graph`` is any version of its graph, if there is one."""
    run_id = run.workflow_id
    check_not_removed(run)
    if run.status is RunStatus.COMPLETED:
        yield Read(lambda store: _check_believed(store, run_id))
    if run.status is RunStatus.ABORTED:
        # Whoever aborted it may have died before it came to the children.
        yield from _abort_children(seat, run_id)
    return (yield from _tell(graph, run_id))


def load(run_id: str) -> Read:
    """Ask for a run as it is now."""
    return Read(lambda store: store.load_run(run_id))


def _can_go_on(run: RunRecord, now: float) -> Read:
    return Read(lambda store: can_go_on(store, run, now=now))


def _is_ready(run_id: str, now: float) -> Read:
    return Read(lambda store: is_ready(store, run_id, now=now))


class Left(NamedTuple):
    """How a run was left that somebody has advanced."""

    status: RunStatus
    waits: tuple[Wait, ...] = ()


def advancing(seat: Host, asked: Asked) -> Doing[Left]:
    """Advance a run that is there as far as it goes now, and say no more than how it was left.

    For whoever advances many and looks at none of them.
    """
    run_id, where = asked.run_id, seat.store.location
    check_policed(seat.policies, asked.graph, run_id)
    while True:
        known: RunRecord | None = yield load(run_id)
        if known is None:
            raise UnknownRun(f"No run {run_id!r} is in {where}. Nothing was done.")
        if known.status is RunStatus.ABORTED:
            yield from _abort_children(seat, run_id)
        if known.status in (RunStatus.COMPLETED, RunStatus.ABORTED):
            return Left(known.status)
        begins = yield from beginning(asked, known, now=seat.clock.now())
        yield Read(lambda store: check_unchanged(store, asked.graph))
        try:
            landing = yield from _advance(seat, asked, known, begins)
        except ownership.Rebound:
            continue
        if landing.stop is None:
            return Left(RunStatus.RUNNING if landing.state is None else RunStatus.COMPLETED)
        if isinstance(landing.stop, RunAborted):
            yield from _abort_children(seat, run_id)
            return Left(RunStatus.ABORTED)
        return Left(RunStatus.WAITING, (yield Read(lambda store: _waits(store, run_id))))


def _advance(
    seat: Host, asked: Asked, known: RunRecord | None, begins: ownership.Beginning
) -> Doing[Landing]:
    """Drive the run as far as it goes now."""
    graph = asked.graph
    if known is not None and known.origin is not None:
        yield _check_whole(known)
    bound = known.graph_id if known is not None and known.graph_id else graph.id
    policies = yield from policies_of(seat.policies, graph, known)
    opening = ownership.Opening(
        host=seat,
        run_id=asked.run_id,
        find_tool=registry.find_tool,
        wait_seconds=asked.wait_seconds,
        patience_seconds=parse_duration(asked.patience, what="patience"),
        policies=policies,
        cadence=graph.cadence,
        begins=begins,
        bound=bound,
        told_to_stop=asked.told_to_stop,
    )
    plan = Plan(
        graph=graph.definition(),
        graph_id=bound,
        code=graph.code,
        first_state=values.decode_object(begins.input_json),
    )
    return (yield from conduct(opening, plan))


def _waits(store: Store, run_id: str) -> tuple[Wait, ...]:
    run = store.load_run(run_id)
    return () if run is None else run.waits


def _abort_children(seat: Host, run_id: str) -> Doing[None]:
    yield from cancel_children(seat, run_id, by="nottwice", why="its parent was aborted")


def beginning(
    asked: Asked, known: RunRecord | None, *, now: float, moves: bool = False
) -> Doing[ownership.Beginning]:
    """What the run begins with, checked against what it began with if it is there already.

    ``moves``: it is bound to another version now, and will be bound to this one.
    """
    graph = asked.graph
    record = GraphRecord(graph.id, graph.record_json, now)
    if known is None:
        first = graph.state.first(asked.input)
        return ownership.Beginning(record, values.encode(first), asked.parent)
    check_not_removed(known)
    if not moves:
        yield Read(lambda store: check_bound(store, graph, known))
    input_json = known.given_input()
    if asked.input is not None:
        same = graph.state.began_with(values.decode_object(input_json), asked.input)
        # What another version began with cannot be compared with the state of this one.
        if not same and not (yield _was_migrated(asked.run_id)):
            raise UsageError(
                f"Run {asked.run_id!r} was started with another input. Nothing was done. Leave "
                "the input out to resume it, or start a run with another id."
            )
    return ownership.Beginning(record, input_json, asked.parent)


def _was_migrated(run_id: str) -> Read:
    return Read(lambda store: any(entry.action == MIGRATE for entry in store.audit(run_id)))


def check_bound(store: Store, graph: Runnable, run: RunRecord) -> None:
    """Refuse a run that is bound to another graph, or to a version that this code is not (V2)."""
    _check_name(graph, run)
    if not fits(graph, run):
        raise version_mismatch(run, [graph.id], store=store)


def fits(graph: Runnable, run: RunRecord) -> bool:
    """Whether this version may resume a run of its graph."""
    return split_graph_id(run.graph_id or "")[1][:2] == graph.version[:2]


def _check_name(graph: Runnable, run: RunRecord) -> None:
    if run.graph_id is None:
        raise UsageError(
            f"Run {run.workflow_id!r} is not a run of a graph: it was opened with nt.run. Nothing "
            "was done. Choose another id."
        )
    name = split_graph_id(run.graph_id)[0]
    if name != graph.name:
        raise UsageError(
            f"Run {run.workflow_id!r} is a run of graph {name!r}, not of {graph.name!r}. Nothing "
            "was done. Choose another id."
        )


def _check_believed(store: Store, run_id: str) -> None:
    """Refuse to hand out the result of a run that is over and does not add up."""
    flaws = store.flaws(run_id)
    if flaws:
        raise LedgerTampered(
            f"Run {run_id!r} is over, and is not believed: {'; '.join(flaws)}. Its result was not "
            "handed out. See all that does not fit: nottwice audit --verify",
            run_id=run_id,
        )


def _check_whole(fork: RunRecord) -> Read:
    """Refuse a fork that was broken off before it had its receipts: it would begin at the start."""

    def check(store: Store) -> None:
        if not store.checkpoint_chain(fork.workflow_id):
            raise UsageError(
                f"Run {fork.workflow_id!r} was to be a fork of {fork.origin!r}, and that was "
                f"broken off. Nothing was done. Ask for it again: graph.fork({fork.origin!r}, "
                f"to={fork.workflow_id!r})"
            )

    return Read(check)


def outcome_of(store: Store, graph: Runnable | None, run_id: str) -> Outcome[Any]:
    """How far a run came, as the ledger has it; ``graph`` is any version of its graph, or None."""
    return _outcome(graph, _look(store, graph, run_id, None))


def _tell(
    graph: Runnable | None, run_id: str, landing: Landing | None = None
) -> Doing[Outcome[Any]]:
    """The same for the engine; who drove the run to its end knows its state.

    Only what it takes is read for the driver: the state is made by code of the user.
    """
    seen: _Seen = yield Read(lambda store: _look(store, graph, run_id, landing))
    return _outcome(graph, seen)


@frozen_record(frozen=True, slots=True)
class _Seen:
    """What the ledger tells of how far a run came."""

    run: RunRecord
    state: Any
    version: int
    reviews: tuple[Review, ...]
    nodes: tuple[NodeMark, ...]


def _look(store: Store, graph: Runnable | None, run_id: str, landing: Landing | None) -> _Seen:
    known = store.load_run(run_id)
    if known is None:
        raise UnknownRun(
            f"No run {run_id!r} is in {store.location}. Start it with graph.run({run_id!r}, ...)."
        )
    check_not_removed(known)
    if graph is not None:
        _check_name(graph, known)
    if landing is not None and landing.state is not None:
        plain, version = landing.state, landing.version
    else:
        chain = store.checkpoint_chain(run_id)
        begun_with = known.given_input()
        plain = load_image(chain)["state"] if chain else values.decode_object(begun_with)
        version = chain[-1].version if chain else 0
    # One that is completed does not have to go on.
    is_completed = known.status is RunStatus.COMPLETED
    reviews = () if is_completed else tuple(_reviews(store, run_id))
    return _Seen(known, plain, version, reviews, tuple(_nodes(store, graph, known)))


def _nodes(store: Store, graph: Runnable | None, run: RunRecord) -> Iterator[NodeMark]:
    """Where each node stands of the graph that the run is bound to."""
    visited = store.last_visits(run.workflow_id)
    if graph is not None and fits(graph, run):
        return marks(graph.definition(), visited, bound=run.graph_id)
    record = store.load_graph(run.graph_id or "")
    if record is None:
        return iter(())
    return marks(recorded_definition(record), visited, bound=run.graph_id)


def _outcome(graph: Runnable | None, seen: _Seen) -> Outcome[Any]:
    known = seen.run
    return Outcome(
        run_id=known.workflow_id,
        graph=known.graph_id or "",
        status="queued" if known.is_queued else known.status.value,
        state=thaw(dict(seen.state)) if graph is None else graph.state.show(seen.state),
        version=seen.version,
        reviews=seen.reviews,
        waits=known.waits,
        failure=known.failure,
        nodes=seen.nodes,
    )


def _reviews(store: Store, run_id: str) -> Iterator[Review]:
    """What a person must decide so that a run goes on: its own reviews, and its children's."""
    yield from store.open_reviews(run_id)
    for child in store.children(run_id):
        if child.status is RunStatus.WAITING:
            yield from _reviews(store, child.workflow_id)


def marks(
    graph: GraphDefinition, visited: list[LastVisit], *, bound: str | None = None
) -> Iterator[NodeMark]:
    """Every node with where it stands; those that no visit was made to are pending.

    What a run has done counts after a migration as well, what it left behind does not.
    """
    last: dict[str, StepRecord] = {}
    visits: Counter[str] = Counter()
    for visit in visited:
        # A branch puts its index before the node.
        where = _BRANCH.sub("", visit.step.node_id)
        left = was_left(visit.step, bound)
        if not left:
            last[where] = visit.step
        visits[where] += visit.visits - left
    for node in graph.nodes:
        where = child_node(around(node, None), node.step)
        step = last.get(where)
        status = step.status if step is not None else StepStatus.PENDING
        error = step.failure.message if step is not None and step.failure else None
        yield NodeMark(node.name, status.value, visits[where], error)
