"""For tests that watch a process from outside. They are skipped where it is not possible."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nottwice.testing.crash.course import Lab
from nottwice.testing.crash.faults.tracing import why_no_tracing
from nottwice.testing.crash.scenario import Scenario
from nottwice.testing.crash.stage import Stage
from nottwice.testing.crash.sweep import fast_folder
from tests.store.abilities import may_skip_tracing
from tests.testing.crash.tools import ANSWERS, agent

needs_strace = pytest.mark.skipif(
    may_skip_tracing() and why_no_tracing() is not None, reason=str(why_no_tracing())
)


@contextmanager
def lab_of(store: str = "agent.db") -> Iterator[Lab]:
    """A lab for the small agent."""
    scenario = Scenario(work=lambda: agent(store), tools=ANSWERS)
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        yield Lab(scenario, Stage(scenario), Path(folder))
