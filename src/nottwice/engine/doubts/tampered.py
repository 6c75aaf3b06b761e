"""A run whose rows are not as nottwice wrote them is not trusted and waits for a person (L9).

When a sealed run is opened, the store first checks that all its rows fit their seals. If they do
not, the run is released immediately, with a review that says what is wrong. No doubt is settled and
no code of the run is executed. A row that turns out to be wrong later stops the run too. The review
closes by itself when everything fits again, because the rows were restored or a person vouched for
them.
Promise kept here: P98.
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from nottwice.engine.asks import Doing, Read, Write
from nottwice.engine.doubts.blocking import decide_command
from nottwice.engine.session import Session
from nottwice.engine.waits import stops
from nottwice.errors import LedgerTampered
from nottwice.model import values
from nottwice.model.call import FIRST_CHECKPOINT, ROOT_NODE, CallIdentity
from nottwice.model.review import Review, ReviewKind, ReviewStatus
from nottwice.model.run import RunStatus
from nottwice.model.tool import OWN_PREFIX
from nottwice.store.interface import Commit, ReviewWrite, RunUpdate

_ABOUT = f"{OWN_PREFIX}seal"
_MOST_SHOWN = 3


def look_at_seals(session: Session) -> Doing[None]:
    """Raise LedgerTampered if the rows of an existing run do not fit their seals."""
    if session.found is None:
        return
    flaws: list[str] = yield Read(lambda store: store.flaws(session.run_id))
    if flaws:
        more = [f"and {len(flaws) - _MOST_SHOWN:,} more"] if flaws[_MOST_SHOWN:] else []
        raise LedgerTampered(
            "; ".join([one.rstrip(".") for one in flaws[:_MOST_SHOWN]] + more) + "."
        )
    if session.found.status is RunStatus.WAITING:
        yield from _close(session)


def hold(session: Session, found: LedgerTampered, *, release: bool) -> Doing[LedgerTampered]:
    """Make the run wait for a person, and return the error that says so.

    ``release``: also release the run. Durable: the review and the run's status, when this returns.
    """
    now = session.clock.now()
    wanted = _review(session.run_id, str(found), now=now)
    known: Review | None = yield Read(lambda store: store.load_review(wanted.review_id))
    writes: tuple[ReviewWrite, ...] = ()
    if known is None:
        writes = (ReviewWrite(wanted),)
    elif known.status is not ReviewStatus.OPEN:
        # It was repaired, and is broken again in the same way.
        again = replace(
            known,
            status=ReviewStatus.OPEN,
            version=known.version + 1,
            decision=None,
            closed_by=None,
            closed_at=None,
        )
        writes = (ReviewWrite(again, known.version),)
    waits = (stops.wait_for(wanted),)
    update = RunUpdate(RunStatus.WAITING, now, waits=waits, release=release, saved=session.saved)
    session.note_review()
    # Pending writes are left out: they would build on rows that are not trusted.
    run_id, fence = session.run_id, session.fence
    yield Write(Commit(workflow_id=run_id, fence=fence, reviews=writes, run=update))
    session.say("ask a person", wanted.identity, f"review={wanted.review_id}")
    command = decide_command(wanted.review_id, session.store.location)
    audit = _audit_command(run_id)
    place = command.partition(" --store ")[2]
    flaw = str(found).rstrip(".")
    return LedgerTampered(
        f"Run {run_id!r} cannot be trusted: {flaw}. Nothing was sent, and nothing in doubt was "
        f"settled. The run waits for a person. To see everything that does not fit: {audit} "
        f"--verify --store {place}. Then restore it from a backup, vouch for it as it is ({audit} "
        f"--adopt --why TEXT --store {place}), or decide with: {command}",
        review_id=wanted.review_id,
        run_id=session.run_id,
        command=command,
    )


def _audit_command(run_id: str) -> str:
    return f"nottwice audit {shlex.quote(run_id)}"


def _close(session: Session) -> Doing[None]:
    """Close the reviews, because everything fits again."""
    now = session.clock.now()
    for review in (yield Read(lambda store: store.open_reviews(session.run_id))):
        if review.kind is ReviewKind.CORRUPT and review.status is ReviewStatus.OPEN:
            closed = review.closed("seals that fit", now=now)
            yield from session.commit(reviews=(ReviewWrite(closed, review.version),))


def _review(run_id: str, flaws: str, *, now: float) -> Review:
    identity = CallIdentity(
        run_id, ROOT_NODE, FIRST_CHECKPOINT, _ABOUT, values.hash_of({"flaws": flaws})
    )
    return Review(
        # Derived from the subject, so that the next process to open the run asks the same question.
        review_id=identity.call_id[:8],
        kind=ReviewKind.CORRUPT,
        status=ReviewStatus.OPEN,
        identity=identity,
        call_id=identity.call_id,
        attempt_id="",
        summary=f"it cannot be trusted: {flaws}",
        opened_at=now,
    )
