"""Runs without a graph: which function resumes them, and which step does a call belong to? (P187)

What ``nt.run`` opens has no checkpoint to resume from: a resume runs the block from its beginning,
and every call in it finds its receipt. So one recording of such a run holds all of its steps, and
the block itself counts as a step around them. The function that opens the run is named by the
caller, never by a file.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.call import FIRST_CHECKPOINT, ROOT_NODE
from nottwice.model.failure import Failure
from nottwice.model.records import frozen_record
from nottwice.model.run import RunRecord, RunStatus, StepRecord, StepStatus
from nottwice.testing.replay.visits import Visit

BLOCK = Visit(ROOT_NODE, FIRST_CHECKPOINT)
"""The whole block, as the step that is around all others."""
_IN_BRANCH = re.compile(r"(\[\d+\])+$")
_STANDS = {RunStatus.COMPLETED: StepStatus.DONE, RunStatus.FAILED: StepStatus.FAILED}


@frozen_record(frozen=True, slots=True)
class Program:
    """A function that starts or resumes runs; it takes the id of one, or nothing."""

    name: str
    function: Callable[..., Any]

    def resume(self, run_id: str) -> None:
        wants_id = bool(inspect.signature(self.function).parameters)
        result = self.function(run_id) if wants_id else self.function()
        if inspect.iscoroutine(result):
            asyncio.run(result)


class PlainVisits:
    """Finds the steps that calls of a run without a graph were made in."""

    def __init__(self, places: Iterable[tuple[str, str]]) -> None:
        self._known = {*places, BLOCK}

    def around(self, node_id: str, checkpoint_id: str) -> Visit | None:
        """The step itself, for branches in it, too; else the block."""
        place = Visit(_IN_BRANCH.sub("", node_id), checkpoint_id)
        return place if place in self._known else BLOCK

    def among(self, places: Iterable[tuple[str, str]]) -> list[Visit]:
        """Those places that follow each other: not what branches do side by side."""
        return [Visit(*place) for place in places if "[" not in place[0]]


def programs(functions: Sequence[Callable[..., Any]]) -> list[Program]:
    """The functions by their names, by which a recording tells them apart."""
    found = [Program(getattr(one, "__name__", "work"), one) for one in functions]
    twice = {one.name for one in found if [each.name for each in found].count(one.name) > 1}
    if twice:
        raise UsageError(
            f"Two functions are named {min(twice)!r}. Nothing was done. Give each a name of its "
            "own: recordings are told apart by them."
        )
    return found


def block_of(run: RunRecord) -> StepRecord:
    """The block of a run as a step that stands as the run does."""
    return block_step(run.workflow_id, run.status, failure=run.failure, at=run.updated_at)


def block_step(
    run_id: str, status: RunStatus, *, at: float, failure: Failure | None = None
) -> StepRecord:
    stands = _STANDS.get(status, StepStatus.IN_PROGRESS)
    return StepRecord(run_id, *BLOCK, stands, 0, at, failure=failure)
