"""How was a run left, and when is it worth advancing it again? For schedulers that are not ours.

Promise kept here: P238.
"""

from __future__ import annotations

from nottwice.engine.asks import Doing, Read
from nottwice.engine.host import Host
from nottwice.graphs.outcome import Status, status_text
from nottwice.graphs.readiness import can_go_on
from nottwice.graphs.running import open_reviews
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review
from nottwice.model.run import RunRecord, Wait, WaitKind
from nottwice.store.interface import Store


@frozen_record(frozen=True, slots=True, kw_only=True)
class Progress:
    """How ``app.advance`` left a run."""

    run_id: str
    status: Status
    """``waiting``, ``completed``, ``aborted``, ``removed``; ``running``: it was handed back and can
    be advanced again now."""
    waits: tuple[Wait, ...] = ()
    """Everything that the run waits for: reviews, timers, events, child runs."""
    reviews: tuple[Review, ...] = ()
    """What a person must decide, in this run or its child runs."""
    look_again_at: float | None = None
    """When to advance it again, in seconds since 1970. None: the run has ended, or only a decision,
    an event or another process can let it continue; ``nt.events`` reports these."""

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return self.status in ("completed", "aborted", "removed")

    def __repr__(self) -> str:
        waits = ", ".join(f"{wait.kind.value} {wait.subject}" for wait in self.waits)
        return f"<Progress of {self.run_id!r}: {self.status}{f' for {waits}' if waits else ''}>"


def progress_of(host: Host, run_id: str) -> Doing[Progress]:
    """Read how a run was left."""

    def look(store: Store) -> Progress:
        run = store.load_run(run_id)
        assert run is not None
        if run.status.is_final:
            return Progress(run_id=run_id, status=status_text(run))
        return Progress(
            run_id=run_id,
            status=status_text(run),
            waits=run.waits,
            reviews=tuple(open_reviews(store, run_id)),
            look_again_at=_look_again_at(store, run, now=host.clock.now()),
        )

    left: Progress = yield Read(look)
    return left


def _look_again_at(store: Store, run: RunRecord, *, now: float) -> float | None:
    if run.status.is_final:
        return None
    if can_go_on(store, run, now=now):
        return now
    moments = [wait.until for wait in run.waits]
    for wait in run.waits:
        child = store.load_run(wait.subject) if wait.kind is WaitKind.CHILD else None
        if child is not None and child.holder_id is None:
            moments.append(_look_again_at(store, child, now=now))
    return min((moment for moment in moments if moment is not None), default=None)
