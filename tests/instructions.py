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
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return found
