"""How much work is it, counted and not timed? A count is the same on a slow machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(work: Callable[[], object]) -> int:
    """Return how many instructions of Python code it takes. Loops in C count as one."""
    found = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal found
        frame.f_trace_opcodes = True
        found += event == "opcode"
        return trace

    before = sys.gettrace()
    try:
        # Python 3.12 counts instructions only if a function has asked for it before tracing began.
        sys.settrace(trace)
        _nothing()
        sys.settrace(trace)
        found = 0
        work()
    finally:
        sys.settrace(before)
    return found


def _nothing() -> None:
    pass
