"""Advance a run of a graph: claim it, visit node after node, save where it is, give it up (D5, D6).

This is the only loop. A node is a step; its end and the checkpoint that follows from it are
pending together and durable with the next commit of the run, of whatever kind, so a node with one
effect costs the two commits of that effect. Whatever was not durable when the process died is
done again from the last checkpoint, and every effect in it is answered by its receipt.
Promises kept here: P28, P175.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from nottwice.engine import ownership
from nottwice.engine.asks import Doing, Invoked, Join, Read, Together, Visit
from nottwice.engine.doubts import tampered
from nottwice.engine.hiding import classify
from nottwice.engine.session import Scope, Session
from nottwice.engine.stepping import steps
from nottwice.engine.waits import stops
from nottwice.engine.waits.cancelled import stop_if_cancelled
from nottwice.errors import InvalidGraph, LedgerTampered, RunAborted, RunBlocked, RunWaits
from nottwice.model import values
from nottwice.model.call import ROOT_NODE
from nottwice.model.failure import Failure, is_ledger_trouble
from nottwice.model.graphs import position as positions
from nottwice.model.graphs.graph import GraphDefinition, Node
from nottwice.model.graphs.mapping import nodes_at
from nottwice.model.graphs.position import Position
from nottwice.model.output_file import named_by_step
from nottwice.model.records import frozen_record
from nottwice.model.run import CheckpointRecord, RunRecord, RunStatus, StepRecord, Wait
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
    """Plain items that are added to lists of the state."""


class NodeCode(Protocol):
    """A node's function, and how state goes in and comes out of it."""

    @property
    def function(self) -> Any: ...

    @property
    def is_async(self) -> bool: ...

    def hand_out(self, state: Mapping[str, Any]) -> Any:
        """The state, whose parts are frozen, as the node sees it."""

    def read(self, handed: Any, returned: Any, state: Mapping[str, Any]) -> Ending:
        """What the node returned; raises if it broke its contract."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class GraphCode:
    """Everything that driving a graph needs, besides the run."""

    graph: GraphDefinition
    graph_id: str
    """As the run was bound to it: the version may be an earlier patch than the graph's."""
    code: Mapping[str, NodeCode]
    first_state: Mapping[str, Any]


class HandedBack(Exception):
    """Whoever drives a run was told to stop. Internal: the run is given up as it is."""


@frozen_record(frozen=True, slots=True)
class Advanced:
    """How a run was left: it waits, was aborted, is completed, or was handed back (``RUNNING``)."""

    status: RunStatus
    waits: tuple[Wait, ...] = ()
    state: Mapping[str, Any] | None = None
    """What a completed run ended with, if that was just now."""
    version: int = 0


def conduct(opening: ownership.Opening, plan: GraphCode) -> Doing[Advanced]:
    """Advance a run as far as it goes, and say how far that was.

    Durable: how far it came, when it returns. A node's own exception is raised after it was
    recorded as the failure of the run. Trouble with the ledger is raised, and is nobody's failure:
    the run was interrupted (P86).
    """
    try:
        session = yield from ownership.claim(opening)
    except RunBlocked as blocked:
        # A doubt that only a person can end, or a person aborted it: nothing else has happened.
        if isinstance(blocked, RunAborted):
            return Advanced(RunStatus.ABORTED)
        left: RunRecord | None = yield _load(opening.run_id)
        return Advanced(RunStatus.WAITING, () if left is None else left.waits)
    lost: InvalidGraph | None = None
    try:
        driven = yield from _resume(session, plan)
        if session.found is not None and session.found.failure is not None:
            lost = _lost(driven)
        if lost is None:
            yield from _visit_all(driven)
    except HandedBack:
        yield from _leave(session, None, None, status=RunStatus.RUNNING)
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
            left = yield _load(session.run_id)
            if left is not None and _is_stopped(left):
                return Advanced(left.status, left.waits)
        raise
    except BaseException:
        # The process is being stopped: the run was interrupted, it has not failed.
        yield from _leave(session, None, None, status=RunStatus.RUNNING)
        raise
    if lost is not None:
        # Nothing was done, and what the run failed with before still tells what is wrong with it.
        yield from ownership.put_back(session)
        raise lost
    yield from _leave(session, None, None)
    assert driven.saved is not None
    return Advanced(RunStatus.COMPLETED, (), driven.state, driven.saved.version)


def _lost(driven: GraphRun) -> InvalidGraph | None:
    """The error of a run that is at a node which the code does not have any more."""
    for name in nodes_at(driven.position):
        try:
            _node(driven, name)
        except InvalidGraph as error:
            return error
    return None


def _load(run_id: str) -> Read:
    return Read(lambda store: store.load_run(run_id))


def _is_stopped(left: RunRecord) -> bool:
    """Whether the run was left with a reason to wait on record, or aborted.

    Some errors that block a run have no review, such as a new effect in a step that is finished:
    nothing will ever end them but other code, so the run has failed.
    """
    return left.status in (RunStatus.WAITING, RunStatus.ABORTED)


def _leave(
    session: Session,
    error: BaseException | None,
    failure: Failure | None,
    *,
    status: RunStatus | None = None,
) -> Doing[None]:
    for one in session.in_flight.under_way():
        yield Join(one, ownership.DRAIN_SECONDS)
    yield from ownership.leave(session, error, failure, status=status)


class GraphRun:
    """A run of a graph while it is driven: where it is, and what has been saved of that."""

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
        """What the last saved checkpoint holds."""
        self._base: tuple[Saved | None, Any] = (None, None)
        """The last checkpoint that is known to be durable; only used if the rest is squashed."""

    def scope(self, node: Node, index: int | None = None) -> Scope:
        """What a node is opened in."""
        return Scope(self.session, positions.around(node, index), self.plan.graph_id)

    def loaded(self, saved: Saved, image: Any) -> None:
        self.saved, self._image = saved, image
        self._base = (saved, image)

    def save(
        self, node_id: str, *, ends: StepRecord | None = None, changed: Delta | None = None
    ) -> None:
        """Add a checkpoint to the pending writes, together with the end of the step before it.

        ``changed``: what changed in the state, where that is known; a state of megabytes need not
        be compared with itself then.
        """
        image = {"state": self.state, "position": self.position.to_plain()}
        pending = self.session.pending
        if changed is not None and self._image is not None:
            moved = diff(self._image["position"], image["position"])
            changed = of_keys({"state": changed, "position": moved})
        alone = not self.position.branches
        if self.session.cadence.is_on_exit and self.saved is not None:
            if alone and pending.has_checkpoint(self.saved.version):
                # The one before is not needed any more, and is replaced. Not while there are
                # branches: the commit of another one may be writing the one before.
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
        # On exit, a pending version may still be replaced by another one: no foundation.
        may_pack = not self.session.cadence.is_on_exit and not pending.is_under_way
        packed = pack(self.saved) if may_pack else None
        if packed is not None and pending.rewrite(packed[0]):
            self.saved = packed[1]


def _resume(session: Session, plan: GraphCode) -> Doing[GraphRun]:
    """Find out where the run is; a run without a checkpoint is at its beginning."""
    chain: list[CheckpointRecord] = []
    if session.found is not None:
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
    while driven.position.node is not None:
        yield from _stop_if_told(driven.session)
        if driven.position.branches:
            yield from _visit_branches(driven)
        else:
            yield from _visit_next(driven)
        if driven.position.node is not None:
            # What the last node leaves is written together with the end of the run.
            yield from driven.session.flush_if_heavy()


def _stop_if_told(session: Session) -> Doing[None]:
    """Between two nodes: its driver is to stop; or somebody cancelled it and left word."""
    if session.told_to_stop():
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
    """Run one node. One that waits or is interrupted stays in progress; a failed one is marked."""
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
    """Run all branches to where they meet; each keeps what it has, whatever its siblings do."""
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
            # Siblings move meanwhile, so this only tells whether there is a way.
            _moved(driven, node, ending.choice, index, update)
        except InvalidGraph as error:
            yield from _fail(driven, scope, error)
            raise
        step = yield from steps.ended(scope, None, output_file=_output_file(ending, seen))
        with driven.guard:
            driven.position = _moved(driven, node, ending.choice, index, update)
            # The branch keeps what it changed in the position.
            driven.save(scope.node_id, ends=step, changed={})
        yield from driven.session.flush_if_heavy()


def _moved(
    driven: GraphRun, node: Node, choice: str | None, index: int, update: Mapping[str, Any]
) -> Position:
    graph, position = driven.plan.graph, driven.position
    return positions.move_branch(graph, position, node, choice, index=index, update=update)


def _merged(driven: GraphRun) -> dict[str, Any]:
    """What the branches changed, together: additions add up, and no two may change one thing."""
    graph, merged = driven.plan.graph, dict[str, Any]()
    for branch in driven.position.branches:
        for key, value in branch.update.items():
            if key in graph.append:
                merged[key] = [*merged.get(key, ()), *value]
            elif key in merged and values.encode(merged[key]) != values.encode(value):
                raise InvalidGraph(
                    f"Two branches of graph {graph.name!r} both changed {key!r} of the state, each "
                    "in its own way. The run stays where they meet. Let each change a part of its "
                    f"own, or declare the graph with append=({key!r},) if it is a list that both "
                    "add to."
                )
            else:
                merged[key] = value
    return merged


def _overlaid(driven: GraphRun, update: Mapping[str, Any]) -> dict[str, Any]:
    """The state with what branches changed; what is added to lists comes after what is there."""
    append = driven.plan.graph.append
    added = {key: update[key] for key in update if key in append}
    changed = {key: freeze(value) for key, value in update.items()}
    return {**driven.state, **changed, **_longer(driven.state, added)}


def _updated(state: Mapping[str, Any], ending: Ending) -> dict[str, Any]:
    return {**state, **ending.changes, **_longer(state, ending.additions)}


def _longer(
    state: Mapping[str, Any], additions: Mapping[str, Sequence[Any]]
) -> dict[str, FrozenList]:
    """The lists of the state that something is added to, with that behind them."""
    return {key: state.get(key, _NOTHING).grown(items) for key, items in additions.items()}


def _changed(state: Mapping[str, Any], ending: Ending) -> Delta:
    """The same as a delta. Only what the node returned is compared with what was there."""
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
    """Which error ends the branches, as ever; but one that was handed back could have gone on.

    So could the run, if all others only wait.
    """
    if isinstance(error, HandedBack):
        return -1 if only_waits else 4
    return stops.urgency(error)
