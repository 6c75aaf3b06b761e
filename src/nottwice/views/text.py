"""How are moments, counts and foreign texts written for people and for programs?

Promise: nothing that a run, a tool or a person wrote can steer a terminal or forge a line. Such
text passes through `safe`, which leaves printable characters on one line.
"""

from __future__ import annotations

from collections.abc import Iterable

from nottwice.engine.hiding import hide
from nottwice.model.calendar import utc
from nottwice.model.printable import one_line

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
    if seconds is None:
        return None
    moment = utc(seconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d}"


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
