"""When do beats become durable (A3)? Replies of models and effects always are, at once.

What a cadence decides is how much of the rest, which costs nothing to do again, a crash can take.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field

from nottwice.engine.asks import Doing
from nottwice.engine.session import Session
from nottwice.errors import InvalidTool, UsageError
from nottwice.model.records import frozen_record
from nottwice.model.tool import parse_duration

EVERY_BEAT = "every_beat"
EFFECTS = "effects"


@dataclass(slots=True)
class _Kept:
    """What was committed last for one run in this process."""

    at: float
    beats: int = 0


@frozen_record(frozen=True, slots=True)
class Cadence:
    """Every so many beats, or every so many seconds; neither: with the next effect or reply."""

    beats: int | None = None
    seconds: float | None = None
    _kept: weakref.WeakKeyDictionary[Session, _Kept] = field(
        default_factory=weakref.WeakKeyDictionary, compare=False, repr=False
    )

    def keep(self, session: Session) -> Doing[None]:
        """Make the beats before this one durable if it is time.

        Durable: those, when it returns, if it was.
        """
        if self.beats is None and self.seconds is None:
            return
        now = session.clock.now()
        kept = self._kept.get(session)
        if kept is None:
            # Nothing was done in this process yet.
            self._kept[session] = _Kept(now)
            return
        kept.beats += 1
        if not self._is_time(kept, now):
            return
        if session.riding:
            yield from session.commit()
        self._kept[session] = _Kept(now)

    def _is_time(self, kept: _Kept, now: float) -> bool:
        if self.beats is not None:
            return kept.beats >= self.beats
        assert self.seconds is not None
        # A clock that was put back must not keep anything from being written.
        return not kept.at <= now < kept.at + self.seconds


def read_cadence(given: object) -> Cadence:
    """A cadence as it is written: a word, a number of beats, or a duration such as ``"30s"``."""
    if given == EVERY_BEAT:
        return Cadence(beats=1)
    if given == EFFECTS:
        return Cadence()
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return Cadence(beats=given)
    try:
        if isinstance(given, str):
            return Cadence(seconds=parse_duration(given, what="cadence"))
    except InvalidTool:
        pass
    raise UsageError(
        f"cadence={given!r} does not say when beats become durable. Nothing happened. Write "
        f"{EVERY_BEAT!r}, {EFFECTS!r}, a number of beats, or a time such as '30s'."
    )
