"""Has what a run waits for arrived, so that the run can be advanced?"""

from __future__ import annotations

from typing import assert_never

from nottwice.model.review import ReviewStatus
from nottwice.model.run import Life, RunRecord, RunStatus, Wait, WaitKind
from nottwice.store.interface import Store


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
    match wait.kind:
        case WaitKind.REVIEW:
            review = store.load_review(wait.subject)
            return review is None or review.status is not ReviewStatus.OPEN
        case WaitKind.EVENT:
            events = store.events(run_id, wait.subject)
            return any(event.received_by is None for event in events)
        case WaitKind.CHILD:
            child = store.load_run(wait.subject)
            if child is None or child.status.is_final:
                return True
            if child.holder_id is not None and store.life_of(child.holder_id) is Life.ALIVE:
                # Another process drives it, so the parent would only find it busy again.
                return False
            return is_ready(store, wait.subject, now=now)
        case WaitKind.TIMER:
            return False
        case _:
            assert_never(wait.kind)
