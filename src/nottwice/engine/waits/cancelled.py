"""Was the run that is driven here cancelled? A cancellation is an event that its driver must find.

The driver looks for it between two nodes. To spare the database, it does not look at every node,
but a cancellation made in this process is found immediately.
"""

from __future__ import annotations

import math

from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Session
from nottwice.errors import RunAborted
from nottwice.model import values
from nottwice.model.run import CANCEL, EventRecord

LOOK_SECONDS = 0.05
"""How long a run that was cancelled elsewhere may continue from node to node."""


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


def stop_if_cancelled(session: Session) -> Doing[None]:
    """Raise RunAborted if the run was cancelled."""
    now, words = session.clock.now(), _Here.words
    looked_at, heard = session.looked_for_word or (-math.inf, 0)
    if words == heard and 0 <= now - looked_at < LOOK_SECONDS:
        return
    told: list[EventRecord] = yield Read(lambda store: store.events(session.run_id, CANCEL))
    session.look_for_word(now, words)
    if told:
        why = values.decode(told[0].json)
        raise RunAborted(
            f"Run {session.run_id!r} was cancelled by {why['by']}: {why['why']}. Nothing more was "
            "sent. Start a run with another id if it should be done after all."
        )
