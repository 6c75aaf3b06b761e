"""Writes that wait for the next commit of a run (D14).

Step marks, results of pure tools, evidence and checkpoints are not committed on their own. They are
kept here and written together with the next effect, which is durable only with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.review import Evidence
from nottwice.model.run import CheckpointRecord, StepRecord
from nottwice.store.interface import CallWrite, Commit


class PendingWrites:
    """Records that are not durable yet and are written with the next commit of the run.

    They are removed only after COMMIT. Two commits may both write them, which is harmless.
    """

    def __init__(self, when_first: Callable[[], None] = lambda: None) -> None:
        """``when_first`` is called when the first write becomes pending."""
        self._when_first = when_first
        self.has_any = False
        """Whether anything is pending. Every commit reads it, so it is not computed."""
        self._guard = threading.Lock()
        self._calls: dict[CallIdentity, CallWrite] = {}
        self._steps: dict[tuple[str, str], StepRecord] = {}
        self._evidence: dict[Evidence, None] = {}
        self._checkpoints: dict[int, CheckpointRecord] = {}
        self._under_way = 0

    def add_call(self, write: CallWrite) -> None:
        """Add a row. It replaces the pending row of its call and follows the same stored row."""
        identity = write.row.identity
        with self._guard:
            was_empty, self.has_any = not self.has_any, True
            pending = self._calls.get(identity)
            self._calls[identity] = replace(write, after=pending.after) if pending else write
        if was_empty:
            self._when_first()

    def add_step(self, step: StepRecord) -> None:
        with self._guard:
            was_empty, self.has_any = not self.has_any, True
            self._steps[(step.node_id, step.checkpoint_id)] = step
        if was_empty:
            self._when_first()

    def add_evidence(self, item: Evidence) -> None:
        with self._guard:
            was_empty, self.has_any = not self.has_any, True
            self._evidence[item] = None
        if was_empty:
            self._when_first()

    def add_checkpoint(
        self, checkpoint: CheckpointRecord, *, ends: StepRecord | None = None
    ) -> None:
        """Add a checkpoint together with the step that it ends. Neither is added alone."""
        with self._guard:
            was_empty, self.has_any = not self.has_any, True
            self._checkpoints[checkpoint.version] = checkpoint
            if ends is not None:
                self._steps[(ends.node_id, ends.checkpoint_id)] = ends
        if was_empty:
            self._when_first()

    def rewrite(self, checkpoints: Iterable[CheckpointRecord]) -> bool:
        """Replace checkpoints that were rewritten, all or none.

        Nothing is replaced while a commit is running: it may hold the old ones and end later.
        """
        with self._guard:
            if self._under_way:
                return False
            self._checkpoints.update((one.version, one) for one in checkpoints)
            self.has_any = self.has_any or bool(self._checkpoints)
            return True

    def has_checkpoint(self, version: int) -> bool:
        return version in self._checkpoints

    def find_call(self, identity: CallIdentity) -> CallRow | None:
        write = self._calls.get(identity)
        return write.row if write else None

    def find_step(self, node_id: str, checkpoint_id: str) -> StepRecord | None:
        return self._steps.get((node_id, checkpoint_id))

    def __bool__(self) -> bool:
        return self.has_any

    def __len__(self) -> int:
        alone = len(self._evidence) + len(self._checkpoints)
        return len(self._calls) + len(self._steps) + alone

    @property
    def is_under_way(self) -> bool:
        """Whether a commit is writing what was pending when it began."""
        return self._under_way > 0

    def take(self) -> PendingBatch:
        """Return what a commit writes that begins now. Call ``over`` when the commit has ended."""
        with self._guard:
            self._under_way += 1
            return PendingBatch(
                tuple(self._calls.values()),
                tuple(self._steps.values()),
                tuple(self._evidence),
                tuple(self._checkpoints.values()),
            )

    def over(self) -> None:
        with self._guard:
            self._under_way -= 1

    def written(self, commit: Commit) -> None:
        """Forget what this commit made durable."""
        with self._guard:
            for write in commit.calls:
                identity = write.row.identity
                pending = self._calls.get(identity)
                if pending is write:
                    del self._calls[identity]
                elif pending is not None:
                    self._calls[identity] = replace(pending, after=write.row.state)
            for step in commit.steps:
                where = (step.node_id, step.checkpoint_id)
                if self._steps.get(where) is step:
                    del self._steps[where]
            for item in commit.evidence:
                self._evidence.pop(item, None)
            for checkpoint in commit.checkpoints:
                if self._checkpoints.get(checkpoint.version) is checkpoint:
                    del self._checkpoints[checkpoint.version]
            self.has_any = len(self) > 0


class PendingBatch(NamedTuple):
    """Everything that is pending at one moment."""

    calls: tuple[CallWrite, ...]
    steps: tuple[StepRecord, ...]
    evidence: tuple[Evidence, ...]
    checkpoints: tuple[CheckpointRecord, ...]
