"""Has somebody cancelled the run that is driven here? Whoever did could only leave word.

It is looked for between two nodes. Of a hundred nodes in a moment not each has to ask a database;
but word that was left in this very process is found at once.
"""

from __future__ import annotations

import math

from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Session
from nottwice.errors import RunAborted
from nottwice.model import values
from nottwice.model.run import CANCEL, EventRecord

LOOK_SECONDS = 0.05
"""How long a run that was cancelled elsewhere may go on from node to node."""


class _Here:
    """This process."""

    words = 0
    """How often somebody has told some run to stop."""


def left_word() -> None:
    """Somebody in this process has told some run to stop."""
    _Here.words += 1


def words_left() -> int:
    """How often that was so far: to be asked before it is looked what there is."""
    return _Here.words


def stop_if_cancelled(session: Session) -> Doing[None]:
    """Raise RunAborted if somebody cancelled the run."""
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
