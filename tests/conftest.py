"""What every test shares: property tests are judged by their answers, not by the clock."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from nottwice.guard import registry

# Two workers on a small machine make single examples slow at random; a deadline would report
# the machine and not the code.
settings.register_profile("nottwice", deadline=None, max_examples=50)
settings.load_profile("nottwice")

# Whoever starts tests in the background of a script starts them deaf to Ctrl-C, and so would be
# every process that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _tools_end_with_the_test_that_declares_them() -> Iterator[None]:
    """Forget the tools that a test has declared, unless a module that it imported has them.

    A name belongs to one tool for as long as its function lives (T1). What a test leaves alive,
    a traceback or a thread on its way out, must not refuse that name to the next one, nor answer
    for it.
    """
    before = set(registry._tools)
    yield
    for name in set(registry._tools) - before:
        if not _is_in_its_module(registry.find_protected(name)):
            del registry._tools[name]


def _is_in_its_module(protected: Any) -> bool:
    place = sys.modules.get(getattr(protected, "__module__", ""))
    return protected is not None and vars(place or object).get(protected.__name__) is protected
