"""How do all runs of a ledger stand, in figures that a store can count?"""

from __future__ import annotations

from nottwice.model.records import frozen_record
from nottwice.model.review import Review
from nottwice.model.run import RunRecord, RunStatus

DECIDED = "decided"
"""What a run waits for whose review is decided: that it is opened again."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """Runs of one version that stand alike, counted."""

    graph_id: str | None
    version: str | None
    """For runs without a graph: the version of their code, if they have one."""
    status: RunStatus
    queued: bool = False
    """They are only enqueued."""
    waits: tuple[str, ...] = ()
    """What they wait for, each kind once, in order; ``decided`` is a review with a decision."""
    ready: bool = False
    """They wait, and something of it has come."""
    runs: int
    oldest_at: float | None
    """When the oldest of them began; None: they are over."""


@frozen_record(frozen=True, slots=True)
class Tally:
    """All runs by version and standing, and the first of what needs a person or a resume."""

    groups: tuple[RunGroup, ...]
    ready: tuple[RunRecord, ...]
    """Waiting runs for which something has come, last changed first."""
    open_reviews: int
    decided_reviews: int
    """Decided, and not used yet."""
    reviews: tuple[Review, ...]
    """The oldest reviews that are open."""
