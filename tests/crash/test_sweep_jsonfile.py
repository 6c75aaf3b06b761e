"""The ledger of JSON files, killed everywhere, also between its own file operations."""

from __future__ import annotations

import pytest

from tests.crash.scenarios import GRAPHS, GUARD
from tests.crash.sweeping import assert_nothing_wrong

AGENTS = {**GUARD, **GRAPHS}


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize("name", ["all classes", "branches", "waits", "spawn"])
def test_killed_at_its_boundaries_nothing_happens_twice_and_nothing_is_lost(name: str) -> None:
    assert_nothing_wrong(name, AGENTS[name], store="jsonfile", level="boundaries", budget_seconds=1)


@pytest.mark.deep(part="sweeps")
@pytest.mark.parametrize("level", ["lines", "takeover"])
def test_a_sample_of_the_deeper_levels_finds_nothing_wrong(level: str) -> None:
    agent = AGENTS["all classes"]
    assert_nothing_wrong("all classes", agent, store="jsonfile", level=level, budget_seconds=0.7)
