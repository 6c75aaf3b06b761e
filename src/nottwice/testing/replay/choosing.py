"""Which checkpoints of a ledger are worth keeping? The newest, and some of every kind.

Checkpoints of one kind come from the same graph and node, of runs with the same status. First, the
newest of each kind is taken, rare kinds first, then the next of each, until there are enough. So a
path that few runs take is included, however many runs take the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from nottwice.model.call import ROOT_NODE
from nottwice.model.data.records import frozen_record
from nottwice.model.run import CheckpointRecord, RunRecord, RunStatus
from nottwice.store.interface import Store

MOST_RUNS = 2_000
"""How many runs are considered: those that changed last."""
# Aborted runs are not resumed, and removed runs have no receipts.
_NO_USE = (RunStatus.ABORTED, RunStatus.REMOVED)


@frozen_record(frozen=True, slots=True)
class Candidate:
    """A checkpoint that can be recorded."""

    run: RunRecord
    checkpoint: CheckpointRecord
    """Without its state."""

    @property
    def kind(self) -> tuple[str, str, str]:
        """What makes checkpoints alike: graph, node and status of the run."""
        node = re.sub(r"^/\[\d+\]/", "", self.checkpoint.node_id)
        return (self.run.graph_id or self.run.version or "", node, self.run.status.value)

    @property
    def age(self) -> tuple[float, str, int]:
        return (self.checkpoint.created_at, self.run.workflow_id, self.checkpoint.version)


def candidates(store: Store, *, plain: bool = False) -> list[Candidate]:
    """Return every checkpoint from which a run has something left to do, except those of forks.

    Forks are not resumed for their own sake. A checkpoint after the last node has no calls left, so
    any code would pass it (P185). ``plain``: include runs without a graph, each as one checkpoint
    after its last step.
    """
    return [
        Candidate(run, checkpoint)
        for run in store.runs(limit=MOST_RUNS)
        if (plain or run.graph_id is not None) and run.origin is None and run.status not in _NO_USE
        for checkpoint in _with_work_left(store, run)
    ]


def _with_work_left(store: Store, run: RunRecord) -> list[CheckpointRecord]:
    """Return all checkpoints of a run, without the final one if the run is completed."""
    if run.graph_id is None:
        last = store.last_visits(run.workflow_id)[-1:]
        after = last[0].step.node_id if last else ROOT_NODE
        return [CheckpointRecord(run.workflow_id, 0, 0, after, "", run.updated_at)]
    found = list(store.checkpoints(run.workflow_id))
    if found and run.status is RunStatus.COMPLETED:
        found.remove(max(found, key=lambda one: one.version))
    return found


def choose(found: Iterable[Candidate], number: int) -> list[Candidate]:
    """Choose ``number`` of them, some of every kind, the same ones for the same ledger."""
    kinds: dict[tuple[str, str, str], list[Candidate]] = {}
    for candidate in found:
        kinds.setdefault(candidate.kind, []).append(candidate)
    queues = [
        _varied(kinds[kind]) for kind in sorted(kinds, key=lambda kind: (len(kinds[kind]), kind))
    ]
    chosen: list[Candidate] = []
    while len(chosen) < number and any(queues):
        for queue in queues:
            if queue and len(chosen) < number:
                chosen.append(queue.pop(0))
    return chosen


def _varied(alike: list[Candidate]) -> list[Candidate]:
    """Sort newest first, but with one of each run before the second of any run."""
    of_run: dict[str, int] = {}
    ranked = []
    for candidate in sorted(alike, key=lambda one: one.age, reverse=True):
        rank = of_run[candidate.run.workflow_id] = of_run.get(candidate.run.workflow_id, 0) + 1
        ranked.append((rank, candidate))
    return [candidate for _, candidate in sorted(ranked, key=lambda one: one[0])]
