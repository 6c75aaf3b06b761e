"""Types of the objects that nottwice returns and accepts, for annotations: ``nt.types.Receipt``.

You never create them yourself. ``Call``, ``Verification`` and ``Outcome``, which ``verify`` hooks
and nodes use most, are also in ``nottwice``.
"""

from __future__ import annotations

from nottwice.engine.calls.requests import Receipt
from nottwice.engine.clock import Clock
from nottwice.engine.upkeep.retention import RemovalReport
from nottwice.graphs.outcome import NodeMark, Outcome
from nottwice.graphs.progress import Progress
from nottwice.guard.declare import AsyncTool, SyncTool
from nottwice.guard.run import Run
from nottwice.guard.upkeep.on_record import RecordedCall, RecordedOpening, RecordedRun
from nottwice.model.call import Call
from nottwice.model.failure import Failure
from nottwice.model.review import Review
from nottwice.model.run import Wait
from nottwice.model.saving.cadence import Checkpoints
from nottwice.model.tool import Duration, Verification
from nottwice.store.interface import Store
from nottwice.versions.migrate_plan import Migration
from nottwice.worker.worker import WorkerStats

__all__ = [
    "AsyncTool",
    "Call",
    "Checkpoints",
    "Clock",
    "Duration",
    "Failure",
    "Migration",
    "NodeMark",
    "Outcome",
    "Progress",
    "Receipt",
    "RecordedCall",
    "RecordedOpening",
    "RecordedRun",
    "RemovalReport",
    "Review",
    "Run",
    "Store",
    "SyncTool",
    "Verification",
    "Wait",
    "WorkerStats",
]
