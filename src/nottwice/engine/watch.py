"""Does the code of a run have effects outside of tools? Checked at run time with NOTTWICE_WATCH.

`nottwice check` reads source. Some effects are not visible in source, such as those of a client
taken from a dict. A Python audit hook sees them here: files that are opened for writing or removed,
connections, programs. The hook looks only while the code of a run or a node executes, and not
inside a tool. ``warn`` reports each place once; ``error`` raises before the effect happens. An
audit hook cannot be removed. It is installed only when a run is opened with NOTTWICE_WATCH set, and
does nothing while the variable is unset. Promise kept here: P167.

The stack tells who caused an event. From the event outwards, the first frame of nottwice is either
the place that runs a node, or nottwice doing its own work, such as writing to a store. A context
variable would have to be set around every commit; the stack costs nothing until it is needed.
"""

from __future__ import annotations

import contextvars
import itertools
import linecache
import logging
import os
import sys
import sysconfig
import threading
import warnings
from types import FrameType
from typing import Any

from nottwice.engine.session import current_attempt, current_scope
from nottwice.errors import UndeclaredEffect, UsageError
from nottwice.model.tools.waiver import SPELLING, read_waivers

VARIABLE = "NOTTWICE_WATCH"
MODES = ("warn", "error")
log = logging.getLogger("nottwice")

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_SAID = {
    "os.exec": "starts a program",
    "os.posix_spawn": "starts a program",
    "os.spawn": "starts a program",
    "os.startfile": "starts a program",
    "os.system": "starts a shell",
    "os.link": "makes a link",
    "os.symlink": "makes a link",
    "os.remove": "removes a file",
    "os.rename": "renames a file",
    "os.rmdir": "removes a folder",
    "os.truncate": "truncates a file",
    "socket.connect": "opens a connection",
    "socket.sendto": "sends a datagram",
    "subprocess.Popen": "starts a program",
}
# These rooms call user code that is not a tool, so an outer frame must decide.
_PASSES_ON = tuple(f"nottwice.{room}." for room in ("agent", "cli", "graphs", "testing", "worker"))
_BETWEEN = ("nottwice.guard.scopes", "nottwice.__main__")
_RUNS_NODES = "nottwice.engine.drivers"
# A log is not an effect, a temporary file is not left behind, and compiled code is a cache.
_HARMLESS = ("logging", "logging.handlers", "tempfile")
_CACHING = ("_write_atomic", "_cache_bytecode")

_mode: str | None = None
_installed = False
_guard = threading.Lock()
_told: set[tuple[str, int, str]] = set()
_looking: contextvars.ContextVar[bool] = contextvars.ContextVar("nottwice_looking", default=False)


def heed_variable() -> None:
    """Start watching if NOTTWICE_WATCH is set, and stop if it no longer is."""
    global _mode, _installed
    wanted = os.environ.get(VARIABLE) or None
    if wanted is not None and wanted not in MODES:
        raise UsageError(
            f"{VARIABLE} is {wanted!r}. No run was opened. Set it to warn or error, or unset it."
        )
    if wanted is not None and not _installed:
        with _guard:
            if not _installed:
                sys.addaudithook(_hear)
                _installed = True
    _mode = wanted


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _mode is None or (event not in _SAID and event != "open"):
        return
    scope = current_scope.get()
    if scope is None or current_attempt.get() is not None or _looking.get():
        return
    said = _told_of(event, arguments)
    if said is None:
        return
    token = _looking.set(True)
    try:
        frame = _users_frame(sys._getframe(1))
        if frame is not None:
            _tell(said, event, frame, scope.session.run_id, _mode)
    finally:
        _looking.reset(token)


def _told_of(event: str, arguments: tuple[Any, ...]) -> str | None:
    """Describe the event without secrets: no program arguments, no data."""
    if event == "open":
        path, _, flags = arguments
        if not isinstance(flags, int) or not flags & _WRITES or isinstance(path, int):
            return None
        name = os.fsdecode(path)
        return None if name == os.devnull else f"opens {name!r} for writing"
    match event, arguments:
        case "subprocess.Popen", (program, *_):
            return f"starts the program {os.fsdecode(program or '')!r}"
        case "socket.connect" | "socket.sendto", (_, address):
            return f"{_SAID[event]} to {address!r}"
        case "os.remove" | "os.rmdir", (path, *_) if isinstance(path, str | bytes | os.PathLike):
            return f"removes {os.fsdecode(path)!r}"
        case _:
            return _SAID[event]


def _users_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame of user code that caused this. None: nottwice caused it."""
    first = found = None
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        code = frame.f_code
        if module.startswith("nottwice.") or module == "nottwice":
            if module == _RUNS_NODES and code.co_qualname.startswith("_visit"):
                break
            if not module.startswith(_PASSES_ON) and module not in _BETWEEN:
                return None
        elif module in _HARMLESS or code.co_name in _CACHING:
            return None
        else:
            first = first or frame
            if not _is_library(code.co_filename):
                if _is_waived(frame):
                    return None
                found = found or frame
        frame = frame.f_back
    return found or first


def _is_library(file: str) -> bool:
    installed = "site-packages" in file or "dist-packages" in file
    return installed or file.startswith(("<frozen", sysconfig.get_paths()["stdlib"] + os.sep))


def _is_waived(frame: FrameType) -> bool:
    """Whether the current line of this frame waives the check, with a reason (P166)."""
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)
    positions = frame.f_code.co_positions()
    first, last, *_ = next(itertools.islice(positions, frame.f_lasti // 2, None), (None, None))
    first = first or frame.f_lineno
    return read_waivers("".join(lines)).cover(first, last or first)


def _tell(said: str, event: str, frame: FrameType, run_id: str, mode: str) -> None:
    file, line = frame.f_code.co_filename, frame.f_lineno
    place = f"{os.path.relpath(file) if os.path.isabs(file) else file}:{line}"
    fix = (
        "Move it into a function with @nt.tool(...); or, if it has no effect, say why on that "
        f"line: {SPELLING}"
    )
    if mode == "error":
        raise UndeclaredEffect(
            f"The code of run {run_id!r} {said} at {place}, outside of any tool. It was not done, "
            f"because {VARIABLE} is 'error'. {fix}",
            place=place,
        )
    if (file, line, event) not in _told:
        _told.add((file, line, event))
        text = (
            f"The code of run {run_id!r} {said} at {place}, outside of any tool. It is done, and "
            f"a resumed run does it again. {fix}"
        )
        log.warning("%s", text)
        warnings.warn_explicit(text, RuntimeWarning, file, line)
