"""How long are the records of a run kept? (L8)

All periods start at the end of a run, or of the last run of its family: a run and its child runs
are kept and removed together. So a row outlives its run, however long the run took, by at least the
longest pause that is allowed before the run is opened again. The row of a key also outlives the
upstream's memory of the key. Promise kept here: P87.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import timedelta

from nottwice.errors import InvalidTool, UsageError
from nottwice.model.call import CallRow
from nottwice.model.data.records import frozen_record
from nottwice.model.replay_class import STRICTEST, ReplayClass, stricter
from nottwice.model.tool import Duration, Tool, parse_duration

LONGEST_PAUSE_SECONDS = 14 * 86_400.0
"""How long a run that waits for people may rest without any setting."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long things are kept after their run has ended; each at least 14 days.

    ``checkpoints``: all versions but the last. ``pure``, ``keyed``, ``unsafe``: the rows of a
    class, unless their tool sets ``keep=``. ``failed``: everything of a run that failed and could
    be resumed. Durations such as ``"90d"``, or timedeltas.
    """

    checkpoints: Duration = "30d"
    pure: Duration = "60d"
    keyed: Duration = "180d"
    unsafe: Duration = "365d"
    failed: Duration = "90d"

    def __post_init__(self) -> None:
        for field in fields(self):
            seconds = _period(field.name, getattr(self, field.name))
            object.__setattr__(self, field.name, timedelta(seconds=seconds))
        names = {kind.kept_as for kind in ReplayClass}
        shortest = min((self.seconds_of(name), name) for name in names)
        if self.shortest_seconds > shortest[0]:
            raise UsageError(
                f"Checkpoints would be kept longer than rows ({shortest[1]}), and a checkpoint "
                "without its receipts would make effects a second time. Nothing was removed. Keep "
                "rows at least as long."
            )

    @staticmethod
    def of(period: Duration) -> Retention:
        """Return the same period for everything, whatever its class."""
        same = timedelta(seconds=_period("older than", period))
        return Retention(checkpoints=same, pure=same, keyed=same, unsafe=same, failed=same)

    def seconds_of(self, name: str) -> float:
        """Return how long one of these is kept."""
        return parse_duration(getattr(self, name), what=name)

    @property
    def shortest_seconds(self) -> float:
        """The shortest period. Before it has passed, nothing is due."""
        return self.seconds_of("checkpoints")

    def due_at(self, row: CallRow, *, tool: Tool | None, ended_at: float) -> float:
        """Return when a row may be removed, if its family ended at ``ended_at``."""
        kind = row.replay_class if tool is None else stricter(row.replay_class, tool.replay_class)
        if row.status.in_doubt and kind.effectful:
            # It may have happened, so it is kept as long as the strictest class.
            kind = STRICTEST
        seconds = self.seconds_of(kind.kept_as)
        if tool is not None and tool.keep_seconds is not None:
            seconds = max(tool.keep_seconds, LONGEST_PAUSE_SECONDS)
        return max(ended_at + seconds, _window_closes_at(row, tool))


def _window_closes_at(row: CallRow, tool: Tool | None) -> float:
    """Return until when the upstream may know the key. Some count from its last use."""
    if row.key is None:
        return 0.0
    declared = 0.0 if tool is None else tool.window_seconds or 0.0
    return max(row.key_since or 0.0, row.started_at) + max(row.window_seconds or 0.0, declared)


def _period(name: str, given: Duration) -> float:
    try:
        seconds = parse_duration(given, what=name)
    except InvalidTool as error:
        raise UsageError(f"{error} Nothing was removed.") from None
    if seconds < LONGEST_PAUSE_SECONDS:
        raise UsageError(
            f"{name}={given!r} is too short: a run that waits for people may rest for 14 days "
            "before it is opened again, and would then repeat everything. Nothing was removed. "
            "Keep things for at least 14d."
        )
    return seconds
