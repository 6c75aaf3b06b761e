"""Has what a run waits for arrived, so that the run can be advanced?"""

from __future__ import annotations

from nottwice.model.run import Life, RunRecord, RunStatus, Wait, WaitKind
from nottwice.store.interface import Store
from nottwice.store.rules import has_arrived


def is_ready(store: Store, run_id: str, *, now: float) -> bool:
    """Whether a run can continue: it waits for nothing, or for something that has arrived."""
    run = store.load_run(run_id)
    return run is not None and can_go_on(store, run, now=now)


def can_go_on(store: Store, run: RunRecord, *, now: float) -> bool:
    """Like ``is_ready``, for a run that is already loaded."""
    if run.status.is_final:
        return False
    if run.status is not RunStatus.WAITING:
        return True
    return any(_has_arrived(store, run.workflow_id, wait, now) for wait in run.waits)


def _has_arrived(store: Store, run_id: str, wait: Wait, now: float) -> bool:
    if wait.until is not None and wait.until <= now:
        return True
    if has_arrived(
        wait,
        review=store.load_review,
        events=lambda name: store.events(run_id, name),
        run=store.load_run,
    ):
        return True
    return wait.kind is WaitKind.CHILD and _can_drive(store, wait.subject, now)


def _can_drive(store: Store, child_id: str, now: float) -> bool:
    """Whether the parent can advance this child itself. One that is held would only be busy."""
    child = store.load_run(child_id)
    if child is None:
        return True
    if child.holder_id is not None and store.life_of(child.holder_id) is Life.ALIVE:
        return False
    return can_go_on(store, child, now=now)
