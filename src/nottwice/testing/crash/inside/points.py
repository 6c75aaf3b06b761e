"""Where can a child meet its fault? Points are counted inside the child.

There are two kinds of points: boundaries (before and after everything durable and every effect) and
executed lines of nottwice itself. Both are counted from outside, unknown to production code.
"""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import nottwice
from nottwice.model.data.records import frozen_record
from nottwice.testing.crash.inside.link import ChildLink

_PACKAGE = str(Path(nottwice.__file__).parent) + os.sep
_OUR_OWN = str(Path(__file__).parent.parent) + os.sep


class PointKind(enum.Enum):
    """What is counted."""

    BOUNDARY = "boundary"
    LINE = "line"


@frozen_record(frozen=True, slots=True)
class CrashFault:
    """What happens to a child at one of its points: SIGKILL, or SIGSTOP and a later wake."""

    at: int
    stops: bool = False


class Points:
    """The points that this process has passed, and what happens at one of them."""

    def __init__(
        self,
        link: ChildLink,
        counts: PointKind,
        fault: CrashFault | None = None,
        *,
        passed: int = 0,
    ) -> None:
        """``passed``: points that earlier processes of the same life have passed."""
        self._link = link
        self._counts = counts
        self._fault = fault
        self._guard = threading.Lock()
        self._on = False
        self.first = passed
        self.boundaries: list[str] = []
        self.lines = 0

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count, and meet the fault, inside this block only."""
        self._on = True
        tracing = self._counts is PointKind.LINE
        if tracing:
            threading.settrace(self._trace)
            sys.settrace(self._trace)
        try:
            yield
        finally:
            if tracing:
                sys.settrace(None)
                threading.settrace(None)
            self._on = False

    def reach(self, name: str) -> None:
        """Pass a boundary, or die there."""
        if not self._on:
            return
        with self._guard:
            self.boundaries.append(name)
            number = self.first + len(self.boundaries)
        if self._counts is PointKind.BOUNDARY:
            self._meet(number, name)

    @contextlib.contextmanager
    def around(self, what: str) -> Iterator[None]:
        """A point before and a point after. The second exists only if nothing was raised."""
        self.reach(f"before {what}")
        yield
        self.reach(f"after {what}")

    @property
    def passed(self) -> int:
        """How many points of the counted kind have been passed, including earlier processes."""
        by_lines = self._counts is PointKind.LINE
        return self.first + (self.lines if by_lines else len(self.boundaries))

    def _meet(self, number: int, name: str) -> None:
        fault = self._fault
        if fault is None or fault.at != number:
            return
        if not fault.stops:
            self._link.tell("dying", at=name)
            os.kill(os.getpid(), signal.SIGKILL)
        self._link.stop(at=name)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Follow the frames of nottwice, except those of the testing room."""
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE) or file.startswith(_OUR_OWN):
            return None
        return self._trace_lines

    def _trace_lines(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and self._on:
            with self._guard:
                self.lines += 1
                number = self.first + self.lines
            if self._fault is not None and self._fault.at == number:
                file = frame.f_code.co_filename.removeprefix(_PACKAGE)
                name = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}"
                self._meet(number, name)
        return self._trace_lines
