"""When does a step of a DBOS workflow that has to wait look again?

When its time has come, or within a second after a person has decided a review that it waits for.
The step of a workflow that was cancelled ends without a record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from dbos import DBOS, error

from nottwice.engine.clock import SystemClock
from nottwice.errors import NottwiceError, StoreError
from nottwice.guard.ledger import Ledger
from nottwice.hosts.verdict import verdict
from nottwice.model.review import ReviewStatus

POLL_SECONDS = 1.0
MOST_SECONDS = 3600.0
"""A look claims the run, which is a commit. So the looks become rarer, down to one an hour."""
log = logging.getLogger("nottwice.dbos")


class StepWait:
    """The waits of one call, one after the other."""

    def __init__(self, workflow_id: str, ledger: Callable[[], Ledger], look_again: float) -> None:
        self._workflow_id, self._ledger, self._look_again = workflow_id, ledger, look_again
        self._until, self._looks = 0.0, 0
        self._reviews: dict[str, ReviewStatus | None] = {}
        """The reviews that it waits for, as it knows them."""

    def begin(self, problem: NottwiceError) -> None:
        """Begin to wait until the call can be made, or raise what ends it permanently."""
        said = verdict(problem, look_again=self._look_again)
        assert said is not None
        if said.retry_in is None:
            raise problem
        grown = said.retry_in * 2 ** min(self._looks, 12) if said.what == "person" else 0.0
        seconds = min(max(grown, said.retry_in, 0.1), MOST_SECONDS)
        log.info("%s waits up to %.1f s: %s", self._workflow_id, seconds, said.reason)
        self._until = SystemClock.now() + seconds
        self._reviews = {one: self._reviews.get(one, ReviewStatus.OPEN) for one in said.reviews}
        self._looks += 1

    @property
    def pause_seconds(self) -> float:
        """How long to sleep before asking again whether the wait is over."""
        return min(max(self._until - SystemClock.now(), 0.0), POLL_SECONDS)

    def is_over(self) -> bool:
        """Whether to look now. Raises if the workflow was cancelled."""
        if (ended := self.end()) is not None:
            raise ended
        return self._has_news() or SystemClock.now() >= self._until

    def end(self) -> BaseException | None:
        """Return what ends the step: its workflow was cancelled, or its time is over. None: the
        step may wait."""
        try:
            found = DBOS.get_workflow_status(self._workflow_id)
        except error.DBOSException:
            return self._ended("DBOS was shut down")
        except Exception as problem:
            # What a step raises is recorded permanently, and a database may come back.
            log.info("%s waits: DBOS's database did not answer: %s", self._workflow_id, problem)
            self._until = max(self._until, SystemClock.now() + POLL_SECONDS)
            return None
        if found is None or found.status == "CANCELLED":
            return self._ended("it was cancelled, or its time was over")
        return None

    def _has_news(self) -> bool:
        """Whether a review was decided, or a decision used, since it last looked."""
        try:
            found = {one: self._ledger().store.load_review(one) for one in self._reviews}
        except StoreError:
            return False
        before = self._reviews
        self._reviews = {one: None if it is None else it.status for one, it in found.items()}
        return self._reviews != before

    def _ended(self, why: str) -> BaseException:
        text = f"Workflow {self._workflow_id} no longer waits: {why}. Nothing was sent."
        ended: BaseException = error.DBOSWorkflowCancelledError(text)
        return ended
