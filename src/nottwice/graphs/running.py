"""Start a graph run, resume it, or return how it ended. One call does all three (D5, V1).

Only resuming needs code that fits the run. Any version, or none, can report how it ended (P156).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from nottwice.engine import ownership
from nottwice.engine.advance import Advanced, GraphCode, NodeCode, conduct
from nottwice.engine.asks import Doing, Pause, Read
from nottwice.engine.driven import give_back
from nottwice.engine.drivers import drive, drive_async
from nottwice.engine.host import Host
from nottwice.engine.opening import Opening
from nottwice.errors import (
    LedgerTampered,
    UnknownRun,
    UsageError,
)
from nottwice.graphs.binding import Printed, check_unchanged
from nottwice.graphs.cancel import cancel_children
from nottwice.graphs.outcome import NodeMark, Outcome, marks, status_text
from nottwice.graphs.policed import Bonds, check_policed, policies_of
from nottwice.graphs.readiness import can_go_on, is_ready
from nottwice.graphs.recorded import recorded_definition
from nottwice.graphs.state import StateType
from nottwice.graphs.undeployed import version_mismatch
from nottwice.lazy import running_loop
from nottwice.model import values
from nottwice.model.call import check_id
from nottwice.model.data.records import frozen_record
from nottwice.model.graphs.graph import GraphDefinition, split_graph_id
from nottwice.model.review import MIGRATE, Review
from nottwice.model.run import GraphRecord, RunRecord, RunStatus
from nottwice.model.runs.labels import NO_LABELS, Labels, check_group
from nottwice.model.saving.cadence import Cadence
from nottwice.model.saving.frozen import thaw
from nottwice.model.saving.image import load_image
from nottwice.model.tool import Duration, parse_duration, timeout_seconds
from nottwice.store.interface import Store, check_not_removed

POLL_SECONDS = 0.2


class Runnable(Printed, Protocol):
    """What is needed of a graph to run it."""

    state: StateType
    cadence: Cadence
    bonds: Bonds
    converses: bool
    """Whether it is an agent: it says which tools it has, and its runs can be spoken to."""

    @property
    def beside(self) -> Sequence[Runnable]:
        """The graphs that are deployed together with it, including its other versions."""

    @property
    def code(self) -> Mapping[str, NodeCode]: ...

    def definition(self) -> GraphDefinition: ...


def asked(
    host: Host,
    run_id: str,
    input: Any,
    acquire_timeout: Duration | None,
    settle_timeout: Duration,
    wait: Duration | None = None,
    *,
    labels: Labels = NO_LABELS,
) -> Opening:
    """Return what the caller of a graph asks for, with its times checked."""
    return Opening(
        host=host,
        run_id=check_id(run_id, what="The run id"),
        input=input,
        acquire_seconds=timeout_seconds(acquire_timeout, what="acquire_timeout"),
        settle_seconds=parse_duration(settle_timeout, what="settle_timeout"),
        wait_seconds=timeout_seconds(wait, what="wait"),
        labels=labels,
    )


def run(graph: Runnable, opening: Opening) -> Outcome[Any]:
    """Advance a run in this thread until it is finished or waits."""
    check_no_loop(graph, "await graph.arun(...)")
    return drive(running(graph, opening), opening.host)


async def arun(graph: Runnable, opening: Opening) -> Outcome[Any]:
    """Like ``run``, without blocking the event loop."""
    return await drive_async(running(graph, opening), opening.host)


def check_no_loop(graph: Runnable, instead: str) -> None:
    """Refuse async nodes where they cannot be awaited, before anything has happened."""
    if running_loop() is not None and any(code.is_async for code in graph.code.values()):
        raise UsageError(
            f"Graph {graph.name!r} has async nodes and was run without await inside an event loop. "
            f"Nothing happened. Use: {instead}"
        )


def running(graph: Runnable, opening: Opening) -> Doing[Outcome[Any]]:
    """Like ``run``, as a generator. The code that drives it drives the run."""
    host, run_id = opening.host, opening.run_id
    clock = host.clock
    deadline = clock.now() + opening.wait_seconds
    check_policed(host.policies, graph, run_id)
    while True:
        known: RunRecord | None = yield load(run_id)
        if known is not None:
            check_group(run_id, known.group, opening.labels.group)
        if known is not None and is_over_elsewhere(graph, known):
            return (yield from telling(host, graph, known))
        begins = yield from beginning(graph, opening, known)
        if known is not None and known.status.is_final:
            return (yield from telling(host, graph, known))
        yield Read(lambda store: check_unchanged(store, graph))
        was_ready = known is not None and (yield _can_go_on(known, clock.now()))
        try:
            left = yield from _advance(graph, begins, known)
        except ownership.Rebound:
            # It was migrated, or started by another version, since it was loaded. Load it again.
            continue
        if left.status is RunStatus.ABORTED:
            yield from _abort_children(host, run_id)
        if left.status is not RunStatus.WAITING:
            # Also if it was released: it could continue, but not here.
            return (yield from _tell(graph, run_id, left))
        # If what arrived was not used, trying again immediately would not use it either.
        in_vain = was_ready and known is not None and known.waits == left.waits
        while in_vain or not (yield _is_ready(run_id, clock.now())):
            rest = deadline - clock.now()
            if rest <= 0:
                return (yield from _tell(graph, run_id))
            yield Pause(min(POLL_SECONDS, rest))
            in_vain = False


def is_over_elsewhere(graph: Runnable, run: RunRecord) -> bool:
    """Whether another version of this graph ran it to its end. No fitting code is needed for that.

    The input is not compared, because the state of this version may have another type.
    """
    if not run.status.is_final or run.graph_id is None:
        return False
    return split_graph_id(run.graph_id)[0] == graph.name and not fits(graph, run)


def telling(host: Host, graph: Runnable | None, run: RunRecord) -> Doing[Outcome[Any]]:
    """Return how a finished run ended. ``graph`` is any version of its graph, or None."""
    run_id = run.workflow_id
    check_not_removed(run, location=host.store.location)
    if run.status is RunStatus.COMPLETED:
        yield Read(lambda store: _check_believed(store, run_id))
    if run.status is RunStatus.ABORTED:
        # The process that aborted it may have died before it aborted the children.
        yield from _abort_children(host, run_id)
    return (yield from _tell(graph, run_id))


def load(run_id: str) -> Read:
    """Read a run as it is now."""
    return Read(lambda store: store.load_run(run_id))


def _can_go_on(run: RunRecord, now: float) -> Read:
    return Read(lambda store: can_go_on(store, run, now=now))


def _is_ready(run_id: str, now: float) -> Read:
    return Read(lambda store: is_ready(store, run_id, now=now))


def advancing(graph: Runnable, opening: Opening) -> Doing[Advanced]:
    """Advance an existing run as far as possible now, and return only how it was left.

    For workers and other schedulers, which advance many runs and need no outcomes.
    """
    claimed = opening.claimed
    if claimed is None:
        return (yield from _advancing(graph, opening))
    try:
        left = yield from _advancing(graph, opening)
    except GeneratorExit:
        raise
    except BaseException:
        if not claimed.is_taken:
            # Whatever kept the driver from starting: nothing was done, so another may.
            one = claimed.one
            assert one.run is not None
            yield from give_back(opening.host, one.found, one.run)
        raise
    return left


def _advancing(graph: Runnable, opening: Opening) -> Doing[Advanced]:
    host, run_id, claimed = opening.host, opening.run_id, opening.claimed
    where = host.store.location
    check_policed(host.policies, graph, run_id)
    while True:
        known: RunRecord | None = claimed.one.found if claimed else (yield load(run_id))
        if known is None:
            raise UnknownRun(f"There is no run {run_id!r} in {where}. Nothing was done.")
        if known.status is RunStatus.ABORTED:
            yield from _abort_children(host, run_id)
        if known.status in (RunStatus.COMPLETED, RunStatus.ABORTED):
            return Advanced(known.status)
        begins = yield from beginning(graph, opening, known)
        yield Read(lambda store: check_unchanged(store, graph))
        try:
            left = yield from _advance(graph, begins, known)
        except ownership.Rebound:
            continue
        if left.status is RunStatus.ABORTED:
            yield from _abort_children(host, run_id)
        return left


def _advance(graph: Runnable, opening: Opening, known: RunRecord | None) -> Doing[Advanced]:
    """Drive the run as far as possible now."""
    host, until = opening.host, opening.until
    if known is not None and known.origin is not None:
        yield _check_whole(known)
    bound = known.graph_id if known is not None and known.graph_id else graph.id
    policies = yield from policies_of(host.policies, graph, known)
    acquire = opening.acquire_seconds
    if until is not None:
        acquire = min(acquire, until - host.clock.now())
    plan = GraphCode(
        graph=graph.definition(),
        graph_id=bound,
        code=graph.code,
        first_state=values.decode_object(opening.input_json or "{}"),
    )
    opening = replace(
        opening,
        host=replace(host, policies=policies),
        acquire_seconds=acquire,
        lists_tools=graph.converses,
        cadence=graph.cadence,
        bound=bound,
    )
    return (yield from conduct(opening, plan))


def _abort_children(host: Host, run_id: str) -> Doing[None]:
    yield from cancel_children(host, run_id, by="nottwice", why="its parent was aborted")


def beginning(
    graph: Runnable, opening: Opening, known: RunRecord | None, *, moves: bool = False
) -> Doing[Opening]:
    """Return the opening with what the run starts with. The input of a run that exists is checked.

    ``moves``: the run is bound to another version now and will be bound to this one.
    """
    record = GraphRecord(graph.id, graph.record_json, opening.host.clock.now())
    if known is None:
        first = graph.state.first(opening.input)
        return replace(opening, graph=record, input_json=values.encode(first))
    check_not_removed(known, location=opening.host.store.location)
    if not moves:
        yield Read(lambda store: check_bound(store, graph, known))
    input_json = known.given_input()
    if opening.input is not None:
        same = graph.state.began_with(values.decode_object(input_json), opening.input)
        # The input of another version cannot be compared with the state of this one.
        if not same and not (yield _was_migrated(opening.run_id)):
            raise UsageError(
                f"Run {opening.run_id!r} was started with another input. Nothing was done. Omit "
                "the input to resume it, or start a run with another id."
            )
    return replace(opening, graph=record, input_json=input_json)


def _was_migrated(run_id: str) -> Read:
    return Read(lambda store: any(entry.action == MIGRATE for entry in store.audit(run_id)))


def check_bound(store: Store, graph: Runnable, run: RunRecord) -> None:
    """Refuse a run that is bound to another graph, or to a version this code cannot run (V2)."""
    _check_name(graph, run)
    if not fits(graph, run):
        raise version_mismatch(run, [graph.id], store=store)


def fits(graph: Runnable, run: RunRecord) -> bool:
    """Whether this version may resume a run of its graph."""
    return split_graph_id(run.graph_id or "")[1][:2] == graph.version[:2]


def _check_name(graph: Runnable, run: RunRecord) -> None:
    if run.graph_id is None:
        raise UsageError(
            f"Run {run.workflow_id!r} is not a graph run: it was opened with nt.run. Nothing "
            "was done. Choose another id."
        )
    name = split_graph_id(run.graph_id)[0]
    if name != graph.name:
        raise UsageError(
            f"Run {run.workflow_id!r} is a run of graph {name!r}, not of {graph.name!r}. Nothing "
            "was done. Choose another id."
        )


def _check_believed(store: Store, run_id: str) -> None:
    """Refuse to return the result of a finished run whose records do not verify."""
    flaws = store.flaws(run_id)
    if flaws:
        raise LedgerTampered(
            f"Run {run_id!r} has ended, but its records do not verify: {'; '.join(flaws)}. Its "
            "result was not returned. To list all problems: nottwice audit --verify --store "
            f"{shlex.quote(store.location)}",
            run_id=run_id,
        )


def _check_whole(fork: RunRecord) -> Read:
    """Refuse a fork that was interrupted before it got its receipts: it would start over."""

    def check(store: Store) -> None:
        if not store.checkpoint_chain(fork.workflow_id):
            raise UsageError(
                f"Run {fork.workflow_id!r} is an unfinished fork of {fork.origin!r}: forking was "
                f"interrupted. Nothing was done. Fork again: graph.fork({fork.origin!r}, "
                f"to={fork.workflow_id!r})"
            )

    return Read(check)


def outcome_of(store: Store, graph: Runnable | None, run_id: str) -> Outcome[Any]:
    """Return how far a run got, from the ledger. ``graph`` is any version of its graph, or None."""
    return _outcome(graph, _look(store, graph, run_id, None))


def _tell(graph: Runnable | None, run_id: str, left: Advanced | None = None) -> Doing[Outcome[Any]]:
    """Like ``outcome_of``, as a generator. The driver of a finished run passes its final state.

    Only the read goes through the driver, because the state is built by user code.
    """
    seen: _Seen = yield Read(lambda store: _look(store, graph, run_id, left))
    return _outcome(graph, seen)


@frozen_record(frozen=True, slots=True)
class _Seen:
    """What the ledger has on how far a run got."""

    run: RunRecord
    state: Any
    version: int
    reviews: tuple[Review, ...]
    nodes: tuple[NodeMark, ...]


def _look(store: Store, graph: Runnable | None, run_id: str, left: Advanced | None) -> _Seen:
    known = store.load_run(run_id)
    if known is None:
        raise UnknownRun(
            f"There is no run {run_id!r} in {store.location}. Start it: graph.run({run_id!r}, ...)."
        )
    check_not_removed(known, location=store.location)
    if graph is not None:
        _check_name(graph, known)
    if left is not None and left.state is not None:
        plain, version = left.state, left.version
    else:
        chain = store.checkpoint_chain(run_id)
        begun_with = known.given_input()
        plain = load_image(chain)["state"] if chain else values.decode_object(begun_with)
        version = chain[-1].version if chain else 0
    # A completed run needs no decisions.
    is_completed = known.status is RunStatus.COMPLETED
    reviews = () if is_completed else tuple(open_reviews(store, run_id))
    return _Seen(known, plain, version, reviews, tuple(_nodes(store, graph, known)))


def _nodes(store: Store, graph: Runnable | None, run: RunRecord) -> Iterator[NodeMark]:
    """Yield the status of each node of the graph that the run is bound to."""
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
        status=status_text(known),
        state=thaw(dict(seen.state)) if graph is None else graph.state.show(seen.state),
        version=seen.version,
        reviews=seen.reviews,
        waits=known.waits,
        failure=known.failure,
        nodes=seen.nodes,
    )


def open_reviews(store: Store, run_id: str) -> Iterator[Review]:
    """Yield what a person must decide before a run can continue, including its children."""
    yield from store.open_reviews(run_id)
    for child in store.children(run_id):
        if child.status is RunStatus.WAITING:
            yield from open_reviews(store, child.workflow_id)
