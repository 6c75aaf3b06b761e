"""Formats a time in UTC for texts. Any number that a ledger holds gets a date."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)


def utc(seconds: float) -> datetime:
    """Return the time as a datetime, clamped to the first or last one that datetime can express."""
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return _LAST if seconds > 0 or math.isnan(seconds) else _FIRST
