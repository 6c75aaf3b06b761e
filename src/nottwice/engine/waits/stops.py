"""What has stopped a part of a run, and what must not happen after it (D11, H1).

A wait (for a question, an approval, a timer, an event or a child run) ends its block with an
exception. Code may swallow the exception, so the wait is noted here. Until it is over, every new
effect in its scope, and in every scope that is not another parallel branch, is refused with the
same exception. No step finishes with a wait in it. Promise kept here: P23.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from nottwice.errors import (
    ApprovalNeeded,
    BudgetSpent,
    NottwiceError,
    QuestionOpen,
    RunAborted,
    RunBlocked,
    RunStoppedByPolicy,
    RunWaits,
)
from nottwice.model.call import CallIdentity
from nottwice.model.data.records import frozen_record
from nottwice.model.failure import is_ledger_trouble
from nottwice.model.review import Review
from nottwice.model.run import Wait, WaitKind
from nottwice.model.runs.places import branch_path


def is_wait(error: BaseException | None) -> bool:
    """Whether an exception only says that the run waits: nothing failed, nothing is in doubt."""
    return isinstance(error, RunWaits | QuestionOpen | ApprovalNeeded | BudgetSpent)


def urgency(error: BaseException) -> int:
    """Rank the errors of several branches. The lowest rank ends them all.

    What a person has ended comes first, then what a person must decide. Next comes trouble with the
    ledger, where nothing else is certain. Then come failures, and last what only takes time.
    """
    if isinstance(error, RunAborted):
        return -1
    if isinstance(error, RunBlocked):
        return 0
    if is_ledger_trouble(error):
        return 1
    return 3 if isinstance(error, RunWaits) else 2


@frozen_record(frozen=True, slots=True)
class Stop:
    """A wait that code of this process ran into. Nothing new happens after it."""

    wait: Wait
    error: NottwiceError


class Stops:
    """What has stopped parts of one run, and what people were asked because of it."""

    def __init__(self) -> None:
        self.ended: RunStoppedByPolicy | RunAborted | None = None
        """The error with which a policy stopped the whole run, or a person ended it. Nothing new
        happens after it, even if the code swallows it."""
        self.asked: dict[CallIdentity, Review] = {}
        """Unused questions and approvals, as this process last saw them."""
        self._guard = threading.Lock()
        self._stops: dict[CallIdentity, Stop] = {}
        self._places: dict[tuple[str, bool], dict[CallIdentity, None]] = {}

    def __bool__(self) -> bool:
        return bool(self._stops)

    def __contains__(self, identity: object) -> bool:
        return identity in self._stops

    def note(self, identity: CallIdentity, error: NottwiceError, wait: Wait) -> None:
        """Stop the part of the run that waits for this, until it asks again and gets it."""
        with self._guard:
            self._stops[identity] = Stop(wait, error)
            for path in _reach(identity.node_id):
                self._places.setdefault(path, {})[identity] = None

    def lift(self, identity: CallIdentity) -> None:
        """Remove a stop: what the run waited for has arrived and is used."""
        self.forget(identity)
        self.proceed(identity)

    def proceed(self, identity: CallIdentity) -> None:
        """Remove a stop: what the run waited for has arrived, but is not used yet."""
        if identity not in self._stops:
            return
        with self._guard:
            del self._stops[identity]
            for path in _reach(identity.node_id):
                self._places[path].pop(identity, None)

    def end(self, error: RunStoppedByPolicy | RunAborted) -> None:
        """Stop the whole run."""
        self.ended = error

    @property
    def aborted(self) -> RunAborted | None:
        """The error with which a person ended the run."""
        return self.ended if isinstance(self.ended, RunAborted) else None

    def raise_if_aborted(self) -> None:
        """Raise if a person has ended the run."""
        if self.aborted is not None:
            raise self.aborted.with_traceback(None)

    def ask(self, review: Review) -> None:
        """Note what a person was asked, or how that has changed."""
        self.asked[review.identity] = review

    def forget(self, identity: CallIdentity) -> None:
        """Forget a question or approval that is used or closed."""
        self.asked.pop(identity, None)

    def raise_if_stopped(self, node_id: str, *, but: CallIdentity | None = None) -> None:
        """Raise if the code is behind a wait, or if the whole run was stopped.

        ``but``: the call that asks. Its own wait does not stop it.
        """
        if self.ended is not None:
            raise self.ended.with_traceback(None)
        if not self._stops:
            return
        with self._guard:
            found = next((one for one in self._stopping(node_id) if one != but), None)
            stop = None if found is None else self._stops[found]
        if stop is not None:
            raise stop.error.with_traceback(None)

    def waits(self, reviews: Iterable[Review] = ()) -> tuple[Wait, ...]:
        """Return every reason why the run waits, once each: its stops, and these reviews."""
        waits = [stop.wait for stop in list(self._stops.values())]
        known = {wait.subject for wait in waits if wait.kind is WaitKind.REVIEW}
        waits += [wait_for(review) for review in reviews if review.review_id not in known]
        return tuple(waits)

    def _stopping(self, node_id: str) -> Iterator[CallIdentity]:
        """Yield what stops the code at a node: waits in its branch, inside it and around it."""
        path = branch_path(node_id)
        yield from self._places.get((path[-1], False), ())
        for outer in path:
            yield from self._places.get((outer, True), ())


# A thousand branches may wait, and every effect of every branch looks here. So stops are found by
# place: every branch around a stop knows of it, because code outside the branch comes after it, and
# so does every branch inside.


def _reach(node_id: str) -> Iterator[tuple[str, bool]]:
    """Yield the places that see a stop: its own branch, marked, and those around it."""
    path = branch_path(node_id)
    yield path[-1], True
    for outer in path:
        yield outer, False


def wait_for(review: Review) -> Wait:
    """Return a review as a reason to wait."""
    return Wait(WaitKind.REVIEW, review.review_id, review.identity.node_id)
