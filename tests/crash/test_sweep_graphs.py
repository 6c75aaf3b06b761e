"""Graphs, killed everywhere: a line, a loop, branches, child runs, questions, timers, events."""

from __future__ import annotations

import pytest

from tests.crash.scenarios import GRAPHS
from tests.crash.sweeping import assert_nothing_wrong


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("name", GRAPHS)
def test_killed_at_its_boundaries_nothing_happens_twice_and_nothing_is_lost(name: str) -> None:
    verdict = assert_nothing_wrong(
        name, GRAPHS[name], store="sqlite", level="boundaries", budget_seconds=1
    )
    assert verdict.effects


@pytest.mark.deep(part="sweeps")
@pytest.mark.parametrize(("name", "level"), [("spawn", "double"), ("fan-out", "lines")])
def test_a_sample_of_the_deeper_levels_finds_nothing_wrong(name: str, level: str) -> None:
    assert_nothing_wrong(name, GRAPHS[name], store="sqlite", level=level, budget_seconds=0.7)
