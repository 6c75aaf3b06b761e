"""How does a test kill a process around the effect of a recipe, and see what the next one does?

The child is forked from the test, so it has the same tools; it dies of a real SIGKILL, at a commit
or at a line. The test itself is the process that comes after.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import nottwice as nt
from nottwice.store.sqlite.store import SqliteStore
from tests.kill.stores import KillingStore

AROUND_THE_EFFECT = ("after intent", "before result", "after result")
RUN = "run"

Work = Callable[[], Any]


def work_on(ledger: Path, work: Work) -> Any:
    """Do the work in a run of its own, in this process."""
    with nt.run(RUN, store=str(ledger)):
        return work()


def kill_at(place: str, ledger: Path, work: Work) -> None:
    """Let a process die at the first commit of this kind."""

    def reach(reached: str) -> None:
        if reached == place:
            os.kill(os.getpid(), signal.SIGKILL)

    def child() -> None:
        store: Any = KillingStore(SqliteStore(str(ledger), now=time.time()), reach)
        with nt.Ledger(store).run(RUN):
            work()

    assert _forked(child) == -signal.SIGKILL, f"{place!r} was not reached"


def kill_at_lines(modules: tuple[ModuleType, ...], work: Work, *, every: int = 1) -> Iterator[int]:
    """Let a process die at the first line of these modules, another at the second, and so on.

    Yields after each death; ends with the first process that lives to the end.
    """
    files = {module.__file__ for module in modules}
    number = 1
    while True:
        if _forked(_traced(work, files, number)) == 0:
            assert number > 1, "no line was reached"
            return
        yield number
        number += every


def _traced(work: Work, files: set[str | None], number: int) -> Work:
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            seen += 1
            if seen == number:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def child() -> None:
        sys.settrace(trace)
        work()

    return child


def fork(child: Work) -> int:
    """The pid of a new process that does this; it ends with 1 if that fails."""
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def _forked(child: Work) -> int:
    """The exit code of a process that does this; what it raises is a failure of the test."""
    code = os.waitstatus_to_exitcode(os.waitpid(fork(child), 0)[1])
    assert code != 1, "the process failed by itself"
    return code
