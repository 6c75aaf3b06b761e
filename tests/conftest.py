"""What every test shares: property tests are judged by their answers, not by the clock."""

from __future__ import annotations

import signal
from collections.abc import Iterator

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
def _local_tools_end_with_their_test() -> Iterator[None]:
    """Forget the tools that a test has declared inside its functions.

    A name belongs to one tool for as long as its function lives (T1). What a test leaves alive,
    a traceback or a thread on its way out, must not refuse that name to the next one.
    """
    before = set(registry._tools)
    yield
    for name in set(registry._tools) - before:
        protected = registry.find_protected(name)
        if protected is None or "<locals>" in protected.__qualname__:
            del registry._tools[name]
