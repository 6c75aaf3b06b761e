"""Has what a waiting run waits for come, so that advancing it is worth while?"""

from __future__ import annotations

from typing import assert_never

from nottwice.model.review import ReviewStatus
from nottwice.model.run import Life, RunRecord, RunStatus, Wait, WaitKind
from nottwice.store.interface import Store


def is_ready(store: Store, run_id: str, *, now: float) -> bool:
    """Whether a run can go on: it waits for nothing, or for something that has come."""
    run = store.load_run(run_id)
    return run is not None and can_go_on(store, run, now=now)


def can_go_on(store: Store, run: RunRecord, *, now: float) -> bool:
    """The same of a run that was loaded already."""
    if run.status.is_final:
        return False
    if run.status is not RunStatus.WAITING:
        return True
    return any(_has_come(store, run.workflow_id, wait, now) for wait in run.waits)


def _has_come(store: Store, run_id: str, wait: Wait, now: float) -> bool:
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
                # Somebody else drives it; its parent would only find it busy again.
                return False
            return is_ready(store, wait.subject, now=now)
        case WaitKind.TIMER:
            return False
        case _:
            assert_never(wait.kind)
