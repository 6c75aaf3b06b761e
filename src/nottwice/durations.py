"""How is a length of time written?

As text with a unit, ``"30s"``, or as a timedelta. An option whose name ends with ``seconds`` also
takes a number. How long to wait before another attempt may also be a number of seconds or the text
of a Retry-After header, because upstreams write it like that.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

Duration = str | timedelta
"""A duration: ``"24h"``, or a timedelta. A bare number would be read as hours and mean seconds."""
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|min|m|h|d|w)\s*")
# A fraction and a sign are outside the standard, but they are sent, and their meaning is plain.
# Only ASCII digits count: float() would also take "1_0", "1e3" and "nan".
_SECONDS = re.compile(r"[+-]?[0-9]{1,400}(\.[0-9]{1,400})?")


def read_duration(given: Duration) -> float | None:
    """Return the seconds of ``"30s"``, ``"24h"``, ``"7d"`` or a timedelta. Else None."""
    if isinstance(given, timedelta):
        return given.total_seconds()
    match = _DURATION.fullmatch(given)
    return None if match is None else float(match[1]) * _UNITS[match[2]]


def read_wait(value: object, *, now: float) -> float | None:
    """Return how long to wait, in seconds. The past is 0, and what says nothing is None."""
    if not isinstance(value, str | timedelta):
        return plain_seconds(value)
    seconds = read_duration(value)
    if seconds is None and isinstance(value, str):
        return parse_retry_after(value, now=now)
    return plain_seconds(seconds)


def parse_retry_after(text: str, *, now: float) -> float | None:
    """Read a Retry-After header, seconds or an HTTP date, as seconds from ``now``. Else None."""
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return plain_seconds(float(text))
    # Only here, because few upstreams send a date, and the module loads many others (P226).
    from email.utils import parsedate_tz

    try:
        parts = parsedate_tz(text)
        if parts is None:
            return None
        year, month, day, hour, minute, second = parts[:6]
        # A leap second is legal in a date and unknown to datetime.
        moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        return plain_seconds(moment.timestamp() - (parts[9] or 0) - now)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def plain_seconds(value: object) -> float | None:
    """Return a number of seconds as a float. Nonsense is None, the past is 0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        seconds = float(value)
    except OverflowError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
