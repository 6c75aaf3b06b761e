"""How many runs of a ledger are in which state, in figures that a store can count?"""

from __future__ import annotations

from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review
from nottwice.model.run import RunRecord, RunStatus

DECIDED = "decided"
"""The wait of a run whose review is decided: it must be opened again."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunGroup:
    """The number of runs of one version in the same situation."""

    graph_id: str | None
    version: str | None
    """For runs without a graph: the version of their code, if they have one."""
    status: RunStatus
    queued: bool = False
    """Whether they are only enqueued."""
    waits: tuple[str, ...] = ()
    """What they wait for, each kind once, in order. ``decided``: a review with a decision."""
    ready: bool = False
    """Whether they wait and something they wait for has arrived."""
    runs: int
    oldest_at: float | None
    """When the oldest of them began. None: they have ended."""


@frozen_record(frozen=True, slots=True)
class Tally:
    """All runs by version and situation, and the first of those that need a person or a resume."""

    groups: tuple[RunGroup, ...]
    ready: tuple[RunRecord, ...]
    """Waiting runs for which something has arrived, last changed first."""
    open_reviews: int
    decided_reviews: int
    """Decided, but not used yet."""
    reviews: tuple[Review, ...]
    """The most dangerous open reviews, and of these the oldest first."""


@frozen_record(frozen=True, slots=True)
class ReadyCount:
    """How many runs of a graph a worker could pick up now (P313)."""

    graph_id: str
    runs: int
    """At most as many as were asked for."""
    oldest_at: float
    """Since when the first of them has been ready."""
