"""How are moments, counts and foreign texts written for people and for programs?

Promise: nothing that a run, a tool or a person wrote can steer a terminal or forge a line. Such
text passes through `safe`, which leaves printable characters on one line.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, tzinfo

from nottwice.engine.hiding import hide
from nottwice.model.data.calendar import utc
from nottwice.model.data.printable import one_line

MOST_CHARACTERS = 200


def safe(text: object) -> str:
    """The text on one line, with everything escaped that a terminal could take for a command.

    Secrets that this process knows are covered.
    """
    return one_line(hide(str(text)))


def shorten(text: object, most: int = MOST_CHARACTERS) -> str:
    """The safe text, cut where it is too long to read."""
    shown = safe(hide(str(text))[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def utc_text(seconds: float | None) -> str | None:
    """A moment for people, in UTC."""
    return local_text(seconds, UTC)


def local_text(seconds: float | None, zone: tzinfo | None = None) -> str | None:
    """A moment for people, in the zone of this machine. A heading says which one that is."""
    if seconds is None:
        return None
    moment = utc(seconds).astimezone(zone or local_zone(seconds))
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


def moment_text(seconds: float | None) -> str | None:
    """A moment for people, with its zone."""
    return None if seconds is None else f"{local_text(seconds)} {local_zone(seconds)}"


def second_text(seconds: float) -> str:
    """A moment for people to the second, with its zone."""
    return f"{(local_text(seconds) or '').partition('.')[0]} {local_zone(seconds)}"


def local_zone(seconds: float | None) -> tzinfo:
    """The zone of this machine at a moment, with a fixed offset: a table uses one for all rows."""
    if seconds is None:
        return UTC
    try:
        zone = utc(seconds).astimezone().tzinfo
    except (OverflowError, OSError, ValueError):
        # The moment is near the first or the last one that a date can express.
        zone = None
    return zone or UTC


def iso_text(seconds: float | None) -> str | None:
    """A moment for programs: ISO 8601 in UTC, with microseconds."""
    if seconds is None:
        return None
    moment = utc(seconds).replace(tzinfo=None)
    return moment.isoformat(timespec="microseconds") + "Z"


def age_text(seconds: float) -> str:
    """How long ago something was, in the largest unit that fits."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return f"{max(0, int(seconds))} s ago"


def count_text(counts: Iterable[tuple[str, int]]) -> str:
    """The figures that are not zero, as in ``1 waiting, 5 completed``."""
    return ", ".join(f"{number} {name}" for name, number in counts if number) or "none"


def count_noun(number: int, one: str, several: str | None = None) -> str:
    """A number with its noun, as in ``1 run`` and ``2 runs``."""
    return f"{number} {one if number == 1 else several or one + 's'}"
