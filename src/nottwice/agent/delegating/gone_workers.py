"""What did a worker do, if it was removed before its boss got its report (A5, L5)?

The worker's run is in the ledger, with its receipts. If it has ended, the model is told how. If
not, the boss waits: a later deploy may have the worker again, and the run would continue. A model
that believed otherwise would meanwhile do the same work in another way. A review asks people to
deploy the worker or to abort its run. Promise kept here: P230.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nottwice.agent.calls import wording
from nottwice.agent.messages import ToolCall
from nottwice.agent.state import RunState, is_state
from nottwice.agent.toolbox import run_wide
from nottwice.engine.asks import Doing, Read
from nottwice.engine.doubts.blocking import written_call
from nottwice.engine.session import Scope
from nottwice.engine.stepping.steps import SPAWN
from nottwice.graphs.children import lost_child, may_be_resumed, spawn_identity
from nottwice.model import values
from nottwice.model.call import CallIdentity, CallRow, CallStatus, own_branch
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import not_believed
from nottwice.model.failure import Failure
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.run import RunRecord, RunStatus
from nottwice.model.saving.image import load_image
from nottwice.store.interface import Store

_OVER = (RunStatus.COMPLETED, RunStatus.FAILED, RunStatus.ABORTED)


def on_record(
    scope: Scope, told: Mapping[str, str], missing: Mapping[int, ToolCall]
) -> Doing[dict[int, GoneWorker]]:
    """Return what the workers did for these calls, by the index of the call.

    ``told``: what became of earlier calls, by receipt. Raises RunWaits if a worker has not ended.
    Durable: the review about it, when it raises.
    """
    run_id, found = scope.session.run_id, dict[int, GoneWorker]()
    if not missing:
        return found
    children: list[RunRecord] = yield Read(lambda store: store.children(run_id))
    for index, call in missing.items():
        child = next((one for one in children if _is_asked_for(one, call)), None)
        if child is None:
            continue
        identity = _spawned_by(scope, call.name, child)
        if told.get(identity.call_id, "unavailable") != "unavailable":
            continue
        if child.status not in _OVER:
            child = yield from lost_child(scope, identity, child)
        found[index] = yield Read(_reader(call.name, identity.call_id, child))
    return found


def _spawned_by(scope: Scope, name: str, child: RunRecord) -> CallIdentity:
    """Return the call that handed over the task, as ``acting`` would build it with the worker."""
    with not_believed(f"The input of run {child.workflow_id!r}"):
        began_with = values.decode_object(child.given_input())
    whole = run_wide(scope)
    branch = own_branch(spawn_identity(whole, name, began_with)[0]).node_id
    place = Scope(whole.session, branch, whole.checkpoint_id)
    return spawn_identity(place, name, began_with)[0]


def _reader(name: str, receipt_id: str, child: RunRecord) -> Any:
    return lambda store: _read(store, name, receipt_id, child)


@frozen_record(frozen=True, slots=True)
class GoneWorker:
    """The ended run of a removed worker."""

    name: str
    receipt_id: str
    status: RunStatus
    failure: Failure | None
    answer: str
    """Its report; empty if there is none."""
    done: tuple[str, ...]
    """Its effects and those of its own workers, written as calls."""
    unknown: tuple[str, ...]
    """Calls that may or may not have happened."""

    @property
    def outcome(self) -> str:
        """What became of it, as one of the values in ``RunState.asked``."""
        if self.status is RunStatus.COMPLETED:
            return "done"
        return "unavailable" if may_be_resumed(self.failure) else "failed"

    def text(self, known: Sequence[str], most_characters: int) -> str:
        """Return what the model is told about it: like every report of a worker, in full."""
        report = self.answer or f"{self.name} has finished its task."
        if self.status is not RunStatus.COMPLETED:
            report = wording.worker_ended(
                self.name, self.failure, stopped=self.status is RunStatus.ABORTED
            )
        return wording.worker_gone(self.name, report, self.done, self.unknown, known)


def _is_asked_for(child: RunRecord, call: ToolCall) -> bool:
    """Whether a run works on the task that a call hands over."""
    if child.graph_id is None or split_graph_id(child.graph_id)[0] != call.name:
        return False
    with not_believed(f"The input of run {child.workflow_id!r}"):
        return bool(
            values.decode_object(child.given_input()).get("goal") == call.arguments.get("goal")
        )


def _read(store: Store, name: str, receipt_id: str, child: RunRecord) -> GoneWorker:
    chain = store.checkpoint_chain(child.workflow_id)
    plain = load_image(chain)["state"] if chain else {}
    answer = wording.report_of(RunState(plain)) if is_state(plain) else ""
    rows = list(_effects(store, child.workflow_id))
    return GoneWorker(
        name=name,
        receipt_id=receipt_id,
        status=child.status,
        failure=child.failure,
        answer=answer,
        done=tuple(_written(row) for row in rows if row.status is CallStatus.DONE),
        unknown=tuple(_written(row) for row in rows if row.status.in_doubt),
    )


def _effects(store: Store, run_id: str) -> Iterator[CallRow]:
    for row in store.calls(run_id):
        if row.replay_class.effectful and row.identity.tool_name != SPAWN:
            yield row
    for child in store.children(run_id):
        yield from _effects(store, child.workflow_id)


def _written(row: CallRow) -> str:
    return written_call(row.identity.tool_name, values.decode_object(row.args_json))
