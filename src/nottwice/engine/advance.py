"""Advance a run of a graph: claim it, visit its nodes, save its position, release it (D5, D6).

This is the only loop. A node is a step. The end of the step and the checkpoint that follows are
pending together, and the next commit of the run makes both durable. So a node with one effect costs
only the two commits of that effect. After a crash, the run repeats whatever was not durable since
the last checkpoint, and receipts answer every effect in it.
Promises kept here: P28, P175.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from nottwice.engine import bodies, events, ownership
from nottwice.engine.asks import Doing, Invoked, Join, Read, Together, Visit
from nottwice.engine.calls.in_flight import DRAIN_SECONDS
from nottwice.engine.doubts import tampered
from nottwice.engine.hiding import classify
from nottwice.engine.opening import Opening
from nottwice.engine.session import Scope, Session
from nottwice.engine.stepping import steps
from nottwice.engine.waits import limited, stops
from nottwice.engine.waits.cancelled import stop_if_cancelled
from nottwice.errors import InvalidGraph, LedgerTampered, RunAborted, RunBlocked, RunWaits
from nottwice.model import values
from nottwice.model.call import ROOT_NODE
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import Failure, is_ledger_trouble
from nottwice.model.graphs import position as positions
from nottwice.model.graphs.graph import GraphDefinition, Node
from nottwice.model.graphs.mapping import nodes_at
from nottwice.model.graphs.position import Position
from nottwice.model.run import CheckpointRecord, RunRecord, RunStatus, StepRecord, Wait
from nottwice.model.runs.limits import LimitUse
from nottwice.model.runs.output_file import named_by_step
from nottwice.model.saving.checkpoint import Saved, pack, save
from nottwice.model.saving.delta import Delta, diff, grown, of_keys
from nottwice.model.saving.frozen import FrozenList, freeze
from nottwice.model.saving.image import resume_image

_NOTHING = FrozenList()


@frozen_record(frozen=True, slots=True)
class Ending:
    """What a node's return value means: where to go, and what changes."""

    choice: str | None
    changes: Mapping[str, Any]
    """Frozen values that replace what the state held."""
    additions: Mapping[str, list[Any]]
    """Plain items to append to lists of the state."""


class NodeCode(Protocol):
    """A node's function, and how the state enters and leaves it."""

    @property
    def function(self) -> Any: ...

    @property
    def is_async(self) -> bool: ...

    def hand_out(self, state: Mapping[str, Any]) -> Any:
        """Return the state, whose parts are frozen, as the node sees it."""

    def read(self, handed: Any, returned: Any, state: Mapping[str, Any]) -> Ending:
        """Interpret what the node returned. Raises if the node broke its contract."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class GraphCode:
    """Everything needed to drive a graph, except the run."""

    graph: GraphDefinition
    graph_id: str
    """The id that the run is bound to. Its version may be another patch than the graph's."""
    code: Mapping[str, NodeCode]
    first_state: Mapping[str, Any]


class HandedBack(Exception):
    """The driver of a run was asked to stop. Internal: the run is released as it is.

    Its cause is raised after that: the function that was asked whether to stop failed.
    """


@frozen_record(frozen=True, slots=True)
class Advanced:
    """How a run was left: waiting, aborted, completed, or handed back (``RUNNING``)."""

    status: RunStatus
    waits: tuple[Wait, ...] = ()
    state: Mapping[str, Any] | None = None
    """The final state, if the run completed just now."""
    version: int = 0


def conduct(opening: Opening, plan: GraphCode) -> Doing[Advanced]:
    """Advance a run as far as possible, and return how it was left.

    Durable: the progress of the run, when this returns. An exception of a node is recorded as the
    failure of the run and then raised. Trouble with the ledger is raised too, but it is not a
    failure: the run was interrupted (P86).
    """
    try:
        session = yield from ownership.claim(opening)
    except RunBlocked as blocked:
        # Either a doubt needs a person, or a person aborted the run. Nothing else has happened.
        if isinstance(blocked, RunAborted):
            return Advanced(RunStatus.ABORTED)
        left: RunRecord | None = yield _load(opening.run_id)
        return Advanced(RunStatus.WAITING, () if left is None else left.waits)
    # In a node nothing is cut short: it might swallow the exception, and continue after a doubt.
    session.ignore_deadline()
    entered = (yield from _enter(session)) if session.host.limits else None
    if isinstance(entered, Wait):
        yield from ownership.wait_for(session, entered)
        return Advanced(RunStatus.WAITING, (entered,))
    if entered is not None:
        return (yield from limited.during(entered, _conduct(session, plan)))
    return (yield from _conduct(session, plan))


def _enter(session: Session) -> Doing[LimitUse | Wait | None]:
    """Count a claimed run under its limits. If it cannot be counted, it is released (P381)."""
    try:
        return (yield from limited.enter_run(session))
    except GeneratorExit:
        raise
    except BaseException:
        yield from ownership.leave(session, None, None, status=RunStatus.RUNNING)
        raise


def _conduct(session: Session, plan: GraphCode) -> Doing[Advanced]:
    """Drive a claimed run, and release it."""
    if events.listeners:
        bodies.run_began(session)
    try:
        return (yield from _conducted(session, plan))
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        # An interrupt may have struck before the run was left (P118).
        if not session.closed:
            yield from _leave(session, None, None, status=RunStatus.RUNNING)
        raise
    finally:
        if events.listeners:
            bodies.run_returned(session)


def _conducted(session: Session, plan: GraphCode) -> Doing[Advanced]:
    lost: InvalidGraph | None = None
    try:
        driven = yield from _resume(session, plan)
        if session.found is not None and session.found.failure is not None:
            lost = _lost(driven)
        if lost is None:
            yield from _visit_all(driven)
    except HandedBack as back:
        yield from _leave(session, None, None, status=RunStatus.RUNNING)
        if back.__cause__ is not None:
            raise back.__cause__ from None
        return Advanced(RunStatus.RUNNING)
    except LedgerTampered as found:
        if found.review_id is None:
            found = yield from tampered.hold(session, found, release=False)
        yield from _leave(session, found, None)
        raise found from None
    except Exception as error:
        failure = classify(error, effectful=False, now=session.clock.now())
        yield from _leave(session, error, failure)
        if isinstance(error, RunBlocked | RunWaits):
            left: RunRecord | None = yield _load(session.run_id)
            if left is not None and left.epoch > session.run.epoch:
                # Another process has taken it since it was released here.
                return Advanced(RunStatus.RUNNING)
            if left is not None and _is_stopped(left):
                return Advanced(left.status, left.waits)
        raise
    except GeneratorExit:
        raise
    except BaseException:
        # The process is being stopped. The run was interrupted and has not failed. Only an effect
        # in flight is waited for: what may be repeated is left as it is (P304).
        session.in_flight.stop()
        yield from _leave(session, None, None, status=RunStatus.RUNNING)
        raise
    if lost is not None:
        # Nothing was done, so the run keeps its earlier failure, which still says what is wrong.
        yield from ownership.put_back(session)
        raise lost
    yield from _leave(session, None, None)
    assert driven.saved is not None
    return Advanced(RunStatus.COMPLETED, (), driven.state, driven.saved.version)


def _lost(driven: GraphRun) -> InvalidGraph | None:
    """Return the error for a run that is at a node which the code no longer has."""
    for name in nodes_at(driven.position):
        try:
            _node(driven, name)
        except InvalidGraph as error:
            return error
    return None


def _load(run_id: str) -> Read:
    return Read(lambda store: store.load_run(run_id))


def _is_stopped(left: RunRecord) -> bool:
    """Whether the run was left aborted, or waiting for a recorded reason.

    Some errors block a run without a review, such as a new effect in a finished step. Only other
    code can end those, so the run has failed.
    """
    return left.status in (RunStatus.WAITING, RunStatus.ABORTED)


def _leave(
    session: Session,
    error: BaseException | None,
    failure: Failure | None,
    *,
    status: RunStatus | None = None,
) -> Doing[None]:
    try:
        session.in_flight.drop_what_was_interrupted()
        for one in session.in_flight.under_way():
            yield Join(one, DRAIN_SECONDS)
    except GeneratorExit:
        raise
    except BaseException:
        # It was cancelled again. The run is released when the last effect has ended.
        yield from ownership.leave(session, error, failure, status=status)
        raise
    yield from ownership.leave(session, error, failure, status=status)


class GraphRun:
    """A run of a graph while it is driven: its position, and what is saved of it."""

    def __init__(
        self, session: Session, plan: GraphCode, state: Mapping[str, Any], position: Position
    ) -> None:
        self.session = session
        self.plan = plan
        self.state: dict[str, Any] = {key: freeze(value) for key, value in state.items()}
        self.position = position
        self.saved: Saved | None = None
        self.guard = threading.Lock()
        self._image: Any = None
        """The contents of the last saved checkpoint."""
        self._base: tuple[Saved | None, Any] = (None, None)
        """The last checkpoint known to be durable. Only used when checkpoints are squashed."""

    def scope(self, node: Node, index: int | None = None) -> Scope:
        """Return the scope in which a node is opened."""
        return Scope(self.session, positions.around(node, index), self.plan.graph_id)

    def loaded(self, saved: Saved, image: Any) -> None:
        self.saved, self._image = saved, image
        self._base = (saved, image)

    def save(
        self, node_id: str, *, ends: StepRecord | None = None, changed: Delta | None = None
    ) -> None:
        """Add a checkpoint to the pending writes, together with the end of the step before it.

        ``changed``: what changed in the state, if that is known. It saves comparing a state of
        megabytes with itself.
        """
        image = {"state": self.state, "position": self.position.to_plain()}
        pending = self.session.pending
        if changed is not None and self._image is not None:
            moved = diff(self._image["position"], image["position"])
            changed = of_keys({"state": changed, "position": moved})
        alone = not self.position.branches
        if self.session.opening.cadence.is_on_exit and self.saved is not None:
            if alone and pending.has_checkpoint(self.saved.version):
                # The previous checkpoint is no longer needed and is replaced. This is not safe
                # while there are branches: the commit of another branch may be writing the previous
                # checkpoint.
                self.saved, self._image = self._base
                changed = None
            else:
                self._base = (self.saved, self._image)
        record, self.saved = save(
            self.saved,
            workflow_id=self.session.run_id,
            node_id=node_id,
            old=self._image,
            new=image,
            changed=changed,
            now=self.session.clock.now(),
        )
        self._image = image
        pending.add_checkpoint(record, ends=ends)
        # On exit, a pending version may still be replaced, so nothing may build on it.
        may_pack = not self.session.opening.cadence.is_on_exit and not pending.is_under_way
        packed = pack(self.saved) if may_pack else None
        if packed is not None and pending.rewrite(packed[0]):
            self.saved = packed[1]


def _resume(session: Session, plan: GraphCode) -> Doing[GraphRun]:
    """Find out where the run is. A run without a checkpoint is at its beginning."""
    chain: list[CheckpointRecord] = []
    # A run that was only enqueued has never had a holder, and only a holder writes checkpoints.
    if session.found is not None and session.found.epoch > 0:
        chain = yield Read(lambda store: store.checkpoint_chain(session.run_id))
    if not chain:
        driven = GraphRun(session, plan, plan.first_state, positions.start(plan.graph))
        driven.save(ROOT_NODE)
        return driven
    image, saved = resume_image(chain)
    driven = GraphRun(session, plan, image["state"], Position.from_plain(image["position"]))
    driven.loaded(saved, {**image, "state": driven.state})
    return driven


def _visit_all(driven: GraphRun) -> Doing[None]:
    for visited in itertools.count():
        if driven.position.node is None:
            return
        if visited == driven.session.opening.most_nodes:
            raise HandedBack(driven.session.run_id)
        yield from _stop_if_told(driven.session)
        if driven.position.branches:
            yield from _visit_branches(driven)
        else:
            yield from _visit_next(driven)
        if driven.position.node is not None:
            # The writes of the last node are committed together with the end of the run.
            yield from driven.session.flush_if_heavy()


def _stop_if_told(session: Session) -> Doing[None]:
    """Between two nodes: stop if the driver was asked to stop, or if the run was cancelled."""
    told_to_stop = session.opening.told_to_stop
    try:
        told = told_to_stop is not None and told_to_stop()
    except Exception as error:
        # This says nothing about the run, so it is no failure of the run.
        raise HandedBack(session.run_id) from error
    if told:
        raise HandedBack(session.run_id)
    yield from stop_if_cancelled(session)


def _visit_next(driven: GraphRun) -> Doing[None]:
    graph, position = driven.plan.graph, driven.position
    node = _node(driven, position.node)
    scope, ending = yield from _visit(driven, driven.scope(node), node, position.visit(node))
    try:
        after = positions.move(graph, position, node, ending.choice)
    except InvalidGraph as error:
        yield from _fail(driven, scope, error)
        raise
    step = yield from steps.ended(scope, None, output_file=_output_file(ending, driven.state))
    changed = _changed(driven.state, ending)
    driven.state = _updated(driven.state, ending)
    driven.position = after
    driven.save(node.name, ends=step, changed=changed)


def _visit(
    driven: GraphRun,
    scope: Scope,
    node: Node,
    visit: int,
    state: Mapping[str, Any] | None = None,
) -> Doing[tuple[Scope, Ending]]:
    """Run one node. If it waits or is interrupted, it stays in progress; if it fails, mark it."""
    code, seen = driven.plan.code[node.name], driven.state if state is None else state
    opened = yield from steps.open_step(scope, node.step, visit)
    handed = code.hand_out(seen)
    outcome: Invoked = yield Visit(code.function, code.is_async, handed, opened)
    try:
        opened.session.stops.raise_if_stopped(opened.node_id)
        if outcome.error is not None:
            raise outcome.error
        return opened, code.read(handed, outcome.value, seen)
    except (RunBlocked, RunWaits):
        raise
    except Exception as error:
        if not is_ledger_trouble(error):
            yield from _fail(driven, opened, error)
        raise


def _output_file(ending: Ending, state: Mapping[str, Any]) -> str | None:
    return named_by_step(ending.changes, ending.additions, state)


def _fail(driven: GraphRun, scope: Scope, error: Exception) -> Doing[None]:
    failure = classify(error, effectful=False, now=driven.session.clock.now())
    yield from steps.close_step(scope, failure)


def _visit_branches(driven: GraphRun) -> Doing[None]:
    """Run all branches until they meet. Each keeps its own work, whatever its siblings do."""
    before = driven.position
    doings = tuple(_branch(driven, index) for index in range(len(before.branches)))
    outcomes: list[Invoked] = yield Together(doings)
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    if errors:
        only_waits = all(isinstance(one, HandedBack) or stops.is_wait(one) for one in errors)
        errors.sort(key=lambda error: _urgency(error, only_waits=only_waits))
        for other in errors[1:]:
            errors[0].add_note(f"Another branch ended with {type(other).__name__}: {other}")
        raise errors[0]
    update = _merged(driven)
    node_id = driven.position.node or ROOT_NODE
    driven.state = _overlaid(driven, update)
    driven.position = positions.join(driven.plan.graph, driven.position)
    driven.save(node_id)


def _branch(driven: GraphRun, index: int) -> Doing[None]:
    while (name := driven.position.branches[index].node) is not None:
        yield from _stop_if_told(driven.session)
        node = _node(driven, name)
        update = driven.position.branches[index].update
        seen = _overlaid(driven, update)
        visit = driven.position.visit(node, index=index)
        scope, ending = yield from _visit(driven, driven.scope(node, index), node, visit, seen)
        added = {key: [*update.get(key, ()), *items] for key, items in ending.additions.items()}
        update = {**update, **ending.changes, **added}
        try:
            # Siblings move at the same time, so this only checks that there is a way.
            _moved(driven, node, ending.choice, index, update)
        except InvalidGraph as error:
            yield from _fail(driven, scope, error)
            raise
        step = yield from steps.ended(scope, None, output_file=_output_file(ending, seen))
        with driven.guard:
            driven.position = _moved(driven, node, ending.choice, index, update)
            # The branch keeps its own changes to the position.
            driven.save(scope.node_id, ends=step, changed={})
        yield from driven.session.flush_if_heavy()


def _moved(
    driven: GraphRun, node: Node, choice: str | None, index: int, update: Mapping[str, Any]
) -> Position:
    graph, position = driven.plan.graph, driven.position
    return positions.move_branch(graph, position, node, choice, index=index, update=update)


def _merged(driven: GraphRun) -> dict[str, Any]:
    """Merge what the branches changed. Additions are joined; no two may change the same key."""
    graph, merged = driven.plan.graph, dict[str, Any]()
    for branch in driven.position.branches:
        for key, value in branch.update.items():
            if key in graph.append:
                merged[key] = [*merged.get(key, ()), *value]
            elif key in merged and values.encode(merged[key]) != values.encode(value):
                raise InvalidGraph(
                    f"Two branches of graph {graph.name!r} both changed {key!r} of the state, to "
                    "different values. The run stays where they meet. Let each branch change "
                    f"a different key, or declare the graph with append=({key!r},) if both add "
                    "to a list."
                )
            else:
                merged[key] = value
    return merged


def _overlaid(driven: GraphRun, update: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state with the changes of branches. Added items follow the existing ones."""
    append = driven.plan.graph.append
    added = {key: update[key] for key in update if key in append}
    changed = {key: freeze(value) for key, value in update.items()}
    return {**driven.state, **changed, **_longer(driven.state, added)}


def _updated(state: Mapping[str, Any], ending: Ending) -> dict[str, Any]:
    return {**state, **ending.changes, **_longer(state, ending.additions)}


def _longer(
    state: Mapping[str, Any], additions: Mapping[str, Sequence[Any]]
) -> dict[str, FrozenList]:
    """Return the lists of the state that have additions, with the additions at the end."""
    return {key: state.get(key, _NOTHING).grown(items) for key, items in additions.items()}


def _changed(state: Mapping[str, Any], ending: Ending) -> Delta:
    """Return the same change as a delta. Only what the node returned is compared."""
    return of_keys(
        {
            **{
                key: diff(state[key], value) if key in state else {"set": value}
                for key, value in ending.changes.items()
            },
            **{
                key: grown(len(state.get(key, ())), list(items))
                for key, items in ending.additions.items()
            },
        }
    )


def _node(driven: GraphRun, name: str | None) -> Node:
    node = driven.plan.graph.node(name or "")
    if node is None:
        raise InvalidGraph(
            f"Run {driven.session.run_id!r} is at node {name!r}, which graph "
            f"{driven.plan.graph.graph_id!r} does not have. Nothing was done. Deploy the code that "
            f"the run began with ({driven.plan.graph_id})."
        )
    return node


def _urgency(error: BaseException, *, only_waits: bool) -> int:
    """Rank the errors of branches: the lowest ends them all.

    A branch that was handed back could have continued. So could the run, if all others only wait.
    """
    if isinstance(error, HandedBack):
        return -1 if only_waits else 4
    return stops.urgency(error)
