"""What has stopped a part of a run, and what is not done behind it (D11, H1).

A wait (a question, an approval, a timer, an event, a child run) ends its block with an exception.
Code may swallow that; so the wait is noted here, and until it is over every new effect in its
scope, and in every scope that is not another parallel branch, is refused with the same exception.
No step finishes with a wait in it. Promise kept here: P23.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Scope, Session, Stop
from nottwice.errors import (
    ApprovalNeeded,
    BudgetSpent,
    NottwiceError,
    QuestionOpen,
    RunBlocked,
    RunWaits,
)
from nottwice.model.call import CallIdentity
from nottwice.model.failure import is_ledger_trouble
from nottwice.model.places import branch_path, is_inside, is_visit_of
from nottwice.model.review import Review, ReviewStatus
from nottwice.model.run import Wait, WaitKind
from nottwice.store.interface import Outdated, ReviewWrite


def is_wait(error: BaseException | None) -> bool:
    """Whether an exception only says that the run waits: nothing failed and nothing is in doubt."""
    return isinstance(error, RunWaits | QuestionOpen | ApprovalNeeded | BudgetSpent)


def urgency(error: BaseException) -> int:
    """Which of several branches' errors ends them all: the lowest.

    What a person must decide comes first; then trouble with the ledger, in which nothing else can
    be told for sure; then what failed; and last what only takes time.
    """
    if isinstance(error, RunBlocked):
        return 0
    if is_ledger_trouble(error):
        return 1
    return 3 if isinstance(error, RunWaits) else 2


def note(session: Session, identity: CallIdentity, error: NottwiceError, wait: Wait) -> None:
    """Stop the part of the run that asked for this, until it asks again and gets it."""
    with session.guard:
        session.stops[identity] = Stop(wait, error)
        for path in _reach(identity.node_id):
            session.stopped.setdefault(path, {})[identity] = None


def lift(session: Session, identity: CallIdentity) -> None:
    """What was waited for is there."""
    session.asked.pop(identity, None)
    go_on(session, identity)


def go_on(session: Session, identity: CallIdentity) -> None:
    """What was waited for is there, though not used yet."""
    if identity not in session.stops:
        return
    with session.guard:
        del session.stops[identity]
        for path in _reach(identity.node_id):
            session.stopped[path].pop(identity, None)


def raise_if_stopped(scope: Scope, *, but: CallIdentity | None = None) -> None:
    """Refuse to go on behind a wait, or in a run that a policy has stopped.

    ``but`` is who asks, and is not stopped by its own wait.
    """
    session = scope.session
    if session.denied is not None:
        raise session.denied.with_traceback(None)
    if not session.stops:
        return
    with session.guard:
        found = next((one for one in _stopping(session, scope.node_id) if one != but), None)
        stop = None if found is None else session.stops[found]
    if stop is not None:
        raise stop.error.with_traceback(None)


# A thousand branches may wait, and every effect of every branch looks here. So a stop is found by
# where it is: every branch around it knows of it (whoever is outside is behind it), and so does
# every branch inside of it.


def _reach(node_id: str) -> Iterator[tuple[str, bool]]:
    """The places from which a stop is seen: its own branch, marked, and those around it."""
    path = branch_path(node_id)
    yield path[-1], True
    for outer in path:
        yield outer, False


def _stopping(session: Session, node_id: str) -> Iterator[CallIdentity]:
    """What stops the code at a node: waits in its branch, inside of it, and in those around."""
    path = branch_path(node_id)
    yield from session.stopped.get((path[-1], False), ())
    for outer in path:
        yield from session.stopped.get((outer, True), ())


def waits_of(session: Session, reviews: Iterable[Review] = ()) -> tuple[Wait, ...]:
    """Every reason why the run waits, each once: what stopped it here, and these reviews."""
    waits = [stop.wait for stop in list(session.stops.values())]
    known = {wait.subject for wait in waits if wait.kind is WaitKind.REVIEW}
    waits += [wait_for(review) for review in reviews if review.review_id not in known]
    return tuple(waits)


def wait_for(review: Review) -> Wait:
    """A review as a reason to wait."""
    return Wait(WaitKind.REVIEW, review.review_id, review.identity.node_id)


def pending_review(session: Session, identity: CallIdentity) -> Doing[Review | None]:
    """The question or approval about this call that nobody has used yet, as it is now.

    Only the holder asks, and it knows what was open when it claimed the run; what people decide
    since is looked up, for this one alone.
    """
    known = session.asked.get(identity)
    if known is None:
        return None
    now: Review | None = yield _stored(known)
    if now is None or now.status not in (ReviewStatus.OPEN, ReviewStatus.DECIDED):
        session.asked.pop(identity, None)
        return None
    session.asked[identity] = now
    return now


def close_unasked(scope: Scope) -> Doing[None]:
    """Close the questions and approvals of a step that finishes without asking for them.

    The code has changed, or took another way. A person must not be left with a question whose
    answer nobody waits for. Durable: when it returns.
    """
    session = scope.session
    visit = scope.steps[0].record
    for identity, review in list(session.asked.items()):
        inside = is_inside(identity.node_id, visit.node_id)
        if inside and is_visit_of(identity.checkpoint_id, visit.checkpoint_id):
            yield from _close(session, review, by=f"step {visit.node_id!r}, which did not ask")
            session.asked.pop(identity, None)


def _close(session: Session, review: Review, *, by: str) -> Doing[None]:
    while True:
        now: Review | None = yield _stored(review)
        if now is None or now.status not in (ReviewStatus.OPEN, ReviewStatus.DECIDED):
            return
        closed = now.closed(by, now=session.clock.now())
        try:
            yield from session.commit(reviews=(ReviewWrite(closed, now.version),))
        except Outdated:
            # Somebody decides at this very moment. It is kept, and closed all the same.
            continue
        return


def _stored(review: Review) -> Read:
    return Read(lambda store: store.load_review(review.review_id))
