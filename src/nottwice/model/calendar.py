"""A moment in UTC for texts: whatever number a ledger holds, it has a date to be shown."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def utc(seconds: float) -> datetime:
    """The moment; before or beyond all calendars, their first or last one."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return _LAST if seconds > 0 or math.isnan(seconds) else _FIRST
