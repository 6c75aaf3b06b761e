"""Is the user's code only being inspected? Then importing it must not start anything.

A command such as `nottwice check` imports a module to see what it declares, and importing runs the
module's top level. A run opened there would have effects that the user did not ask for. So while a
command imports, everything that starts or changes a run is refused, in every thread. In threads
that the module started, it is refused after the import, too. Promise kept here: P141.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import weakref
from collections.abc import Iterator
from types import FrameType

from nottwice.errors import WorkDuringImport

_OWN = "nottwice"
_BETWEEN = {"contextlib", "asyncio", "threading", "concurrent", "importlib", "runpy"}
_refused: list[WorkDuringImport] | None = None
"""What was refused during the current import; None if there is none."""
_started: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
"""Threads that modules started while they were imported."""
_at_exit = False
"""Whether Python ends and is about to call what modules registered while they were imported."""


@contextlib.contextmanager
def importing() -> Iterator[None]:
    """Refuse all work inside. Afterwards raise what was refused, even if the module caught it."""
    global _refused
    before = set(threading.enumerate())
    refused = _refused = []
    try:
        yield
    finally:
        _refused = None
        _started.update(each for each in threading.enumerate() if each not in before)
        # Python calls first what was registered last: this, then what the module registered.
        atexit.unregister(_refuse_at_exit)
        atexit.register(_refuse_at_exit)
    if refused:
        raise refused[0]


def check_not_importing(what: str) -> None:
    """Raise WorkDuringImport if this code runs only because a command imports it."""
    if _refused is None and not _at_exit and threading.current_thread() not in _started:
        return
    error = WorkDuringImport(
        f"{what} at {_line()}, while a command imports that code only to inspect it. Nothing was "
        "started, and nothing was sent. Put the code that starts your program below this line: "
        'if __name__ == "__main__":'
    )
    if _refused is not None:
        _refused.append(error)
    raise error


def _refuse_at_exit() -> None:
    global _at_exit
    _at_exit = True


def _line() -> str:
    """Return the top-level line that leads here; in a thread, the innermost line of user code."""
    frame: FrameType | None = sys._getframe(1)
    innermost = None
    while frame is not None:
        if not _is_ours(frame):
            innermost = innermost or _place(frame)
            if frame.f_code.co_name == "<module>":
                return _place(frame)
        frame = frame.f_back
    return innermost or "an unknown line"


def _is_ours(frame: FrameType) -> bool:
    top = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return top == _OWN or top in _BETWEEN


def _place(frame: FrameType) -> str:
    return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
