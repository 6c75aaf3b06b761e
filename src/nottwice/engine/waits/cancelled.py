"""Was the run that is driven here cancelled? A cancellation is an event that its driver must find.

The driver looks for it when it claims the run, before every new effect and between two nodes. To
spare the database, it does not look if it has just looked, but a cancellation made in this process
is found immediately. Promise kept here: P415.
"""

from __future__ import annotations

import math

from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Session
from nottwice.errors import RunAborted
from nottwice.model import values
from nottwice.model.run import CANCEL, EventRecord

LOOK_SECONDS = 0.05
"""How long a run that was cancelled elsewhere may continue."""


class _Here:
    """This process."""

    words = 0
    """How many cancellations this process has made, of any run."""


def left_word() -> None:
    """Note that this process has cancelled a run."""
    _Here.words += 1


def words_left() -> int:
    """Return how many cancellations there were. Read it before looking at the ledger."""
    return _Here.words


def stop_if_cancelled(session: Session, *, looks_now: bool = False) -> Doing[None]:
    """Raise RunAborted if the run was cancelled. ``looks_now``: even if it has just looked."""
    now, words = session.clock.now(), _Here.words
    looked_at, heard = session.looked_for_word or (-math.inf, 0)
    if words == heard and 0 <= now - looked_at < LOOK_SECONDS and not looks_now:
        return
    yield from _stop_if_told(session, session.run_id)
    session.look_for_word(now, words)


def stop_if_parent_was_cancelled(session: Session) -> Doing[None]:
    """Raise RunAborted in a new child run if its parent was cancelled.

    A cancellation reaches the children that it finds. This one began at the same moment.
    """
    parent_id = session.run.parent_id
    if session.found is None and parent_id is not None:
        yield from _stop_if_told(session, parent_id)


def _stop_if_told(session: Session, run_id: str) -> Doing[None]:
    told: list[EventRecord] = yield Read(lambda store: store.events(run_id, CANCEL))
    if told:
        why = values.decode(told[0].json)
        aborted = RunAborted(
            f"Run {run_id!r} was cancelled by {why['by']}: {why['why']}. Nothing more was "
            "sent. Start a run with another id if it should be done after all."
        )
        session.stops.end(aborted)
        raise aborted
