"""Runs without a graph: which function resumes them, and which step does a call belong to? (P187)

A run opened by ``nt.run`` has no checkpoint to resume from. A resume runs the block from the start,
and every call in it finds its receipt. So one recording of such a run contains all of its steps,
and the block itself counts as a step around them. The caller names the function that opens the run.
A file never does.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.call import FIRST_CHECKPOINT, ROOT_NODE
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import Failure
from nottwice.model.run import RunRecord, RunStatus, StepRecord, StepStatus
from nottwice.testing.replay.visits import ReplayedVisit

BLOCK = ReplayedVisit(ROOT_NODE, FIRST_CHECKPOINT)
"""The whole block, as the step around all others."""
_IN_BRANCH = re.compile(r"(\[\d+\])+$")
_STANDS = {RunStatus.COMPLETED: StepStatus.DONE, RunStatus.FAILED: StepStatus.FAILED}


@frozen_record(frozen=True, slots=True)
class PlainProgram:
    """A function that starts or resumes runs. It takes the id of one, or nothing."""

    name: str
    function: Callable[..., Any]

    def resume(self, run_id: str) -> None:
        wants_id = bool(inspect.signature(self.function).parameters)
        result = self.function(run_id) if wants_id else self.function()
        if inspect.iscoroutine(result):
            asyncio.run(result)


class PlainVisits:
    """Finds the steps in which a run without a graph made its calls."""

    def __init__(self, places: Iterable[tuple[str, str]]) -> None:
        self._known = {*places, BLOCK}

    def around(self, node_id: str, checkpoint_id: str) -> ReplayedVisit | None:
        """Return the step itself, also for its branches, or else the block."""
        place = ReplayedVisit(_IN_BRANCH.sub("", node_id), checkpoint_id)
        return place if place in self._known else BLOCK

    def among(self, places: Iterable[tuple[str, str]]) -> list[ReplayedVisit]:
        """Return the places that follow each other, without those in parallel branches."""
        return [ReplayedVisit(*place) for place in places if "[" not in place[0]]


def programs(functions: Sequence[Callable[..., Any]]) -> list[PlainProgram]:
    """Return the functions with their names, which identify them in a recording."""
    found = [PlainProgram(getattr(one, "__name__", "work"), one) for one in functions]
    twice = {one.name for one in found if [each.name for each in found].count(one.name) > 1}
    if twice:
        raise UsageError(
            f"Two functions are named {min(twice)!r}. Nothing was done. Give each its own name, "
            "because recordings identify functions by name."
        )
    return found


def block_of(run: RunRecord) -> StepRecord:
    """Return the block of a run as a step with the status of the run."""
    return block_step(run.workflow_id, run.status, failure=run.failure, at=run.updated_at)


def block_step(
    run_id: str, status: RunStatus, *, at: float, failure: Failure | None = None
) -> StepRecord:
    stands = _STANDS.get(status, StepStatus.IN_PROGRESS)
    return StepRecord(run_id, *BLOCK, stands, 0, at, failure=failure)
