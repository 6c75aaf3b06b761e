"""Which moments around a commit can a test choose to die at?

``KillingStore`` wraps the seam for durability: it says what kind of commit is about to be made,
and what kind has just become durable. Production code knows nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

from nottwice.model.call import CallStatus
from nottwice.model.review import ReviewStatus
from nottwice.store.claiming import ClaimedRun, ClaimRequest
from nottwice.store.interface import Commit, Store


class KillingStore:
    """A store that calls ``reach`` with ``before …`` and ``after …`` for every commit."""

    location: str

    def __init__(self, store: Store, reach: Callable[[str], None]) -> None:
        self._store = store
        self._reach = reach
        self.location = store.location

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def claim_ready(self, wanted: ClaimRequest) -> list[ClaimedRun]:
        self._reach("before claims")
        found = self._store.claim_ready(wanted)
        if found:
            self._reach("after claims")
        return found

    def commit(self, commit: Commit) -> None:
        for kind in kinds_of(commit):
            self._reach(f"before {kind}")
        self._store.commit(commit)
        for kind in kinds_of(commit):
            self._reach(f"after {kind}")

    def commit_soon(self, commit: Commit) -> Future[None]:
        for kind in kinds_of(commit):
            self._reach(f"before {kind}")
        future = self._store.commit_soon(commit)

        def after(done: Future[None]) -> None:
            if done.exception() is None:
                for kind in kinds_of(commit):
                    self._reach(f"after {kind}")

        # The first callback: the process that waits for the commit has not been told yet.
        future.add_done_callback(after)
        return future


def kinds_of(commit: Commit) -> Iterator[str]:
    """What a commit is about, in the words of the tests."""
    if commit.claim is not None:
        yield "claim"
    effects = [write.row for write in commit.calls if write.row.replay_class.effectful]
    if any(row.status is CallStatus.PENDING for row in effects):
        yield "intent"
    if any(row.status is not CallStatus.PENDING for row in effects):
        yield "result"
    statuses = {write.review.status for write in commit.reviews}
    if ReviewStatus.OPEN in statuses:
        yield "review"
    if ReviewStatus.DECIDED in statuses:
        yield "decision"
    if ReviewStatus.USED in statuses:
        yield "use"
    if any(write.row.identity.tool_name == "nottwice.sleep" for write in commit.calls):
        yield "timer"
    for event_write in commit.events:
        yield "sending" if event_write.event.received_by is None else "taking"
    if commit.run is not None and commit.run.release:
        yield "release"
