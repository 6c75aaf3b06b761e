"""Engines that lose a part of what distinguishes two calls, two visits or two children."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from nottwice.engine import advance
from nottwice.engine.pending import PendingWrites
from nottwice.graphs import children
from nottwice.guard import request
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.graphs import position
from nottwice.model.run import CheckpointRecord, StepRecord
from nottwice.store.sqlite.store import SqliteStore
from tests.crash.controls.agents import MAILS, SAME_EVERYWHERE
from tests.crash.controls.control import Control, swap
from tests.crash.scenarios import GRAPHS


def without(axis: str) -> Callable[[], None]:
    """Calls that differ in this axis only are taken for one."""

    def broken(*axes: str) -> CallIdentity:
        return CallIdentity(*axes)._replace(**{axis: "any"})

    def breaks() -> None:
        swap(request, "CallIdentity", broken)

    return breaks


def any_run() -> None:
    """A receipt of another run is taken for one of this run."""
    whole = SqliteStore.load_call

    def broken(self: SqliteStore, identity: CallIdentity) -> CallRow | None:
        runs = [identity.workflow_id, *(run.workflow_id for run in self.runs())]
        found = (whole(self, identity._replace(workflow_id=run_id)) for run_id in runs)
        return next((row for row in found if row is not None), None)

    swap(SqliteStore, "load_call", broken)


def a_checkpoint_without_the_end_of_its_step() -> None:
    whole = PendingWrites.add_checkpoint

    def broken(
        self: PendingWrites, one: CheckpointRecord, *, ends: StepRecord | None = None
    ) -> None:
        whole(self, one)

    swap(PendingWrites, "add_checkpoint", broken)


def a_checkpoint_with_the_state_before() -> None:
    def broken(state: Any, ending: Any) -> dict[str, Any]:
        return dict(state)

    swap(advance, "_updated", broken)
    swap(advance, "_changed", lambda state, ending: {})


def visits_are_not_counted() -> None:
    swap(position.Position, "visit", lambda self, node, *, index=None: 1)


def a_child_has_another_id_each_time() -> None:
    swap(children, "child_run_id", lambda parent, identity: f"{parent}.{secrets.token_hex(8)}")


AXES: dict[str, Callable[[], None]] = {
    "run": any_run,
    "node": without("node_id"),
    "checkpoint": without("checkpoint_id"),
    "tool": without("tool_name"),
    "arguments": without("input_hash"),
}

IDENTITY = (
    *(
        Control(
            name=f"the identity of a call does not hold its {axis}",
            breaks=breaks,
            agent=MAILS if axis == "arguments" else SAME_EVERYWHERE,
            level="boundaries",
            invariant="same world",
        )
        for axis, breaks in AXES.items()
    ),
    Control(
        name="a checkpoint goes without the end of its step",
        breaks=a_checkpoint_without_the_end_of_its_step,
        agent=GRAPHS["line"],
        level="boundaries",
        invariant="same ledger",
    ),
    Control(
        name="a checkpoint holds the state before its step",
        breaks=a_checkpoint_with_the_state_before,
        agent=GRAPHS["line"],
        level="boundaries",
        invariant="same ledger",
    ),
    Control(
        name="the visits of a node are not counted",
        breaks=visits_are_not_counted,
        agent=GRAPHS["loop"],
        level="boundaries",
        invariant="every run ends",
    ),
    Control(
        name="a child run gets a new id each time",
        breaks=a_child_has_another_id_each_time,
        agent=GRAPHS["spawn"],
        level="boundaries",
        invariant="no effect twice",
    ),
)
