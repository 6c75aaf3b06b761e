"""Which lines of a traceback help? Those of the caller's program, and one of ours at most.

The sentence of an error says what to do. A dozen frames of the engine above it say how nottwice
found out, which helps nobody who has to act on it.
"""

from __future__ import annotations

from types import TracebackType
from typing import TypeVar

from nottwice.errors import NottwiceError

_E = TypeVar("_E", bound=NottwiceError)
_OURS = __name__.partition(".")[0]


def without_our_frames(error: _E) -> _E:
    """The error without the frames in which nottwice found it. Those of the program stay."""
    kept: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] != _OURS:
            kept.append(trace)
        trace = trace.tb_next
    for index, each in enumerate(kept):
        each.tb_next = kept[index + 1] if index + 1 < len(kept) else None
    return error.with_traceback(kept[0] if kept else None)
