"""Which lines of a traceback help? Those of the caller's program, and at most one of nottwice's.

The error message says what to do. A dozen engine frames above it only say how nottwice found the
problem, which does not help the reader to fix it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from nottwice.errors import NottwiceError

P = ParamSpec("P")
R = TypeVar("R")
_E = TypeVar("_E", bound=NottwiceError)
_OURS = __name__.partition(".")[0]


def without_our_frames(error: _E) -> _E:
    """Remove the frames in which nottwice found the error. The program's frames stay."""
    kept: list[TracebackType] = []
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] != _OURS:
            kept.append(trace)
        trace = trace.tb_next
    for index, each in enumerate(kept):
        each.tb_next = kept[index + 1] if index + 1 < len(kept) else None
    return error.with_traceback(kept[0] if kept else None)


def shows_one_frame(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function so that its errors show one frame of nottwice: this one."""

    @functools.wraps(function)
    def door(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except NottwiceError as error:
            raise without_our_frames(error) from error.__cause__

    @functools.wraps(function)
    async def async_door(*args: P.args, **kwargs: P.kwargs) -> Any:
        try:
            return await cast("Any", function)(*args, **kwargs)
        except NottwiceError as error:
            raise without_our_frames(error) from error.__cause__

    return cast("Any", async_door) if inspect.iscoroutinefunction(function) else door
