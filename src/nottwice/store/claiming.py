"""What does a worker ask for, and what does it get, if a store claims many runs at once? (P308)

Only a store that many machines share does this. Elsewhere a worker reads which runs are ready and
claims one after the other.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from nottwice.model.data.records import frozen_record
from nottwice.model.run import RunRecord, RunStatus, Standing


@frozen_record(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Which runs a worker wants to claim: those that can continue, ready longest first."""

    at: float
    most: int
    graphs: Collection[str]
    """The graphs that it has the code for, each as ``name@major.minor.``, for every patch."""
    besides: Collection[str] = ()
    """Ids of runs to leave alone."""
    begun_first: int = 3
    """How many runs that were begun come before the first new one. After it, three for each."""


@frozen_record(frozen=True, slots=True)
class ClaimedRun:
    """A run that was claimed for this process, in one statement with others."""

    found: RunRecord
    """The run as it was before."""
    run: RunRecord | None
    """The run as it is now; None: it could not be claimed, because it is sealed and there is no
    key."""
    standing: Standing
    """What there is to reconcile, as of the claim."""


def claimed(found: RunRecord, holder_id: str, at: float) -> RunRecord:
    """The run that a claim leaves behind."""
    return replace(
        found,
        status=RunStatus.RUNNING,
        epoch=found.epoch + 1,
        holder_id=holder_id,
        updated_at=at,
        claimed_at=at,
        failure=None,
        waits=(),
    )
