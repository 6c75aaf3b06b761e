"""What does a person see first: which phase is a run in, and which step of it? (B2, D6)

A step outside of any other step is a phase, and the steps inside it belong to it. All of this is
derived from the marks that steps leave and, for steps to come, from the recorded graph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import field
from datetime import UTC, datetime, timedelta
from itertools import chain, compress, repeat
from operator import attrgetter, is_not
from typing import Any, TypeVar

from nottwice.model.call import CallRow, CallStatus, ResultKind
from nottwice.model.data.records import frozen_record
from nottwice.model.run import RunStatus, StepRecord, StepStatus
from nottwice.model.runs.output_file import NAME, named_in
from nottwice.model.runs.places import was_left
from nottwice.store.files.derived import Derived
from nottwice.store.rules import MemoryData

K = TypeVar("K")
V = TypeVar("V")
PENDING = "pending"
_ENDED = (RunStatus.COMPLETED, RunStatus.REMOVED)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Outputs = tuple[tuple[tuple[str, str], str], ...]
"""The file that a call named, after the visit that it belongs to; empty if it named none."""


@frozen_record(frozen=True, slots=True)
class Seen:
    """What the records of a run say about its phases, as computed for its last overview."""

    visits: Derived[StepRecord, tuple[str, str], dict[tuple[str, str], StepRecord]] = field(
        default_factory=Derived
    )
    """The last visit of each step, by its phase and its name in it. The last visit counts: a node
    of a loop can be in progress again."""
    outputs: Derived[CallRow, _Outputs, dict[tuple[str, str], str]] = field(default_factory=Derived)
    """The last file that was named in each visit, by the step's node and checkpoint."""

    def updated(self, data: MemoryData) -> Seen:
        """The same for the records of a later commit."""
        begun = _begun_steps(data)
        if not begun:
            return Seen()
        return Seen(
            self.visits.updated(
                begun,
                of_one=lambda step: phase_of(step.node_id),
                of_block=lambda steps, places: dict(zip(places, steps, strict=True)),
            ),
            self.outputs.updated(
                list(data.calls.values()),
                of_one=_output_file,
                of_block=lambda calls, found: dict(chain.from_iterable(found)),
            ),
        )


def overview(data: MemoryData, seen: Seen | None = None) -> dict[str, Any]:
    """The head of a run's file. ``data`` holds only this run; ``seen`` is up to date with it."""
    run = next(iter(data.runs.values()), None)
    phases = _phases(data, seen or Seen().updated(data))
    return {
        "workflow_version": None if run is None else run.version,
        "started_at": None if run is None else moment(run.created_at),
        "status": None if run is None else run.status.value,
        "phase": _current(phases),
        "phases": phases,
    }


def phase_of(node_id: str) -> tuple[str, str]:
    """The phase that a node belongs to, and the node's name in it; empty if it is the phase."""
    # A parallel branch of a graph puts its index before the node.
    node_id = re.sub(r"^/\[\d+\]/", "", node_id)
    ends = [place for mark in "/[" if (place := node_id.find(mark, 1)) > 0]
    end = min(ends, default=len(node_id))
    return node_id[:end], node_id[end:].removeprefix("/")


def _phases(data: MemoryData, seen: Seen) -> dict[str, Any]:
    phases: dict[str, dict[str, Any]] = {}
    inner: dict[str, dict[str, dict[str, Any]]] = {}
    for planned in _planned(data):
        phase, name = phase_of(planned)
        phases.setdefault(phase, {"status": PENDING})
        if name:
            inner.setdefault(phase, {})[name] = {"status": PENDING}
    outputs = _merged(seen.outputs.of_blocks)
    for (phase, name), step in _merged(seen.visits.of_blocks).items():
        phases.setdefault(phase, {"status": PENDING})
        mark = _mark(step, outputs.get((step.node_id, step.checkpoint_id)))
        if name:
            inner.setdefault(phase, {})[name] = mark
        else:
            phases[phase] = mark
    if any(run.status in _ENDED for run in data.runs.values()):
        # A branch that was not taken is no longer to come.
        inner = {phase: _begun(steps) for phase, steps in inner.items() if _begun(steps)}
        phases = {phase: phases[phase] for phase in phases if phase in inner | _begun(phases)}
    for phase, steps in inner.items():
        _sum_up(phases[phase], steps)
    return phases


def _merged(blocks: Iterable[dict[K, V]]) -> dict[K, V]:
    """One dict of all. Each key stays where it was first, with its last value."""
    merged: dict[K, V] = {}
    for block in blocks:
        merged.update(block)
    return merged


def _begun_steps(data: MemoryData) -> list[StepRecord]:
    """The steps that the run began and did not leave behind, in the order of their ordinals."""
    steps = sorted(data.steps.values(), key=attrgetter("ordinal"))
    bound = next((run.graph_id for run in data.runs.values()), None)
    not_done = map(is_not, map(attrgetter("status"), steps), repeat(StepStatus.DONE))
    if any(was_left(step, bound) for step in compress(steps, not_done)):
        return [step for step in steps if not was_left(step, bound)]
    return steps


def _sum_up(phase: dict[str, Any], steps: dict[str, dict[str, Any]]) -> None:
    """Add what the steps of a phase show to the phase itself."""
    if phase["status"] == PENDING:
        phase["status"] = _status_of(steps)
        errors = [step["error"] for step in steps.values() if "error" in step]
        if phase["status"] == StepStatus.FAILED.value and errors:
            phase["error"] = errors[-1]
        ends = [step["completed_at"] for step in steps.values() if step.get("completed_at")]
        if phase["status"] == StepStatus.DONE.value and ends:
            phase["completed_at"] = max(ends, key=datetime.fromisoformat)
    files = [step[NAME] for step in steps.values() if NAME in step]
    if files:
        phase.setdefault(NAME, files[-1])
    phase["step"] = _current(steps)
    phase["steps"] = steps


def _begun(marks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: mark for name, mark in marks.items() if mark["status"] != PENDING}


def _planned(data: MemoryData) -> list[str]:
    """The nodes of the graph that the run is bound to, in its order."""
    run = next(iter(data.runs.values()), None)
    graph = data.graphs.get(run.graph_id) if run is not None and run.graph_id else None
    try:
        nodes = json.loads(graph.json)["nodes"] if graph is not None else []
        return [node["name"] for node in nodes if isinstance(node["name"], str)]
    except (ValueError, LookupError, TypeError, RecursionError):
        # The phases of a graph with another shape appear when they start.
        return []


def _mark(step: StepRecord, output_file: str | None) -> dict[str, Any]:
    """One visit of a step. An output file named by the step itself wins over that of a call."""
    mark: dict[str, Any] = {"status": step.status.value}
    if step.finished_at is not None:
        mark["completed_at"] = moment(step.finished_at)
    if step.output_file is not None or output_file is not None:
        mark[NAME] = step.output_file or output_file
    if step.failure is not None:
        mark["error"] = f"{step.failure.error_type}: {step.failure.message}"
    return mark


def _status_of(steps: dict[str, Any]) -> str:
    """The status of a phase that has no mark itself and consists only of its steps."""
    found: set[str] = {step["status"] for step in steps.values()}
    for status in (StepStatus.IN_PROGRESS.value, StepStatus.FAILED.value):
        if status in found:
            return status
    if len(found) > 1:
        return StepStatus.IN_PROGRESS.value
    return next(iter(found))


def _current(marks: dict[str, Any]) -> str | None:
    """Where the work is: in progress, else failed, else still to come, else the last one done."""
    for status in (StepStatus.IN_PROGRESS.value, StepStatus.FAILED.value):
        found = [name for name, mark in marks.items() if mark["status"] == status]
        if found:
            return found[-1]
    to_come = [name for name, mark in marks.items() if mark["status"] == PENDING]
    if to_come:
        return to_come[0]
    return next(reversed(marks), None)


def _output_file(row: CallRow) -> _Outputs:
    """The file that a result names, if any."""
    result = row.result
    if row.status is not CallStatus.DONE or result is None:
        return ()
    if result.kind is ResultKind.NOT_KEPT or f'"{NAME}"' not in result.json:
        return ()
    name = named_in(_parsed(result.json))
    if name is None:
        return ()
    # Parallel branches of a step belong to the step.
    node_id = re.sub(r"(?<=.)(\[\d+\])+$", "", row.identity.node_id)
    return (((node_id, row.identity.checkpoint_id), name),)


def _parsed(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def moment(seconds: float) -> str | None:
    """A time as ISO 8601, in UTC; None if it is outside of the calendar."""
    try:
        return (_EPOCH + timedelta(microseconds=round(seconds * 1_000_000))).isoformat()
    except OverflowError:
        return None
