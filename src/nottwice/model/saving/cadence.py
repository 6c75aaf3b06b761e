"""When do pending writes become durable? The words of ``checkpoints=`` (D6, A3).

Intents, receipts, replies of models, reviews and events never wait. What waits is cheap to produce
again: pure results, step marks, checkpoints. It is written with the next commit of its run. These
words say when it gets a separate commit. Promise kept here: P152.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from nottwice.errors import InvalidTool, UsageError
from nottwice.model.data.records import frozen_record
from nottwice.model.tool import parse_duration

Checkpoints = str | int | timedelta
"""One of three words, a number of steps, or a time; see ``WORDS``."""
SOON_SECONDS = 0.1
"""How long pending writes wait for a separate commit by default (D14)."""
WORDS = "'effects', 'every_step', 'on_exit', a number of steps, or a time such as '30s'"


@frozen_record(frozen=True, slots=True)
class Cadence:
    """How long pending writes wait for a separate commit, and at which steps they do not wait."""

    waits_seconds: float | None = SOON_SECONDS
    """None: until the run's next commit, however late that is."""
    steps: int | None = None
    """Pending writes are committed whenever this many steps were entered. None: at no step."""

    @property
    def is_on_exit(self) -> bool:
        return self.waits_seconds is None


AT_EFFECTS = Cadence()
_CADENCES = {
    "effects": AT_EFFECTS,
    "every_step": Cadence(steps=1),
    "on_exit": Cadence(waits_seconds=None),
}


def read_cadence(given: Any, *, what: str) -> Cadence:
    """Read ``checkpoints=``, the same for runs, graphs and agents. ``what``: who declares it."""
    if isinstance(given, str) and given in _CADENCES:
        return _CADENCES[given]
    if isinstance(given, int) and not isinstance(given, bool) and given > 0:
        return Cadence(steps=given)
    if isinstance(given, str | timedelta):
        try:
            return Cadence(waits_seconds=parse_duration(given, what="checkpoints"))
        except InvalidTool:
            # Its message about durations would hide the allowed words.
            pass
    raise UsageError(
        f"{what} has checkpoints={given!r}, which does not say when checkpoints become durable. "
        f"Nothing happened. Write {WORDS}."
    )
