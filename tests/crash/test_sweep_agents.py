"""Agents, killed everywhere and again while they resume: nothing twice, nothing lost (P68)."""

from __future__ import annotations

import pytest

from tests.crash.agents import AGENTS
from tests.crash.sweeping import assert_nothing_wrong


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize("name", AGENTS)
def test_killed_at_its_boundaries_nothing_happens_twice_and_nothing_is_lost(name: str) -> None:
    verdict = assert_nothing_wrong(
        name, AGENTS[name], store="sqlite", level="boundaries", budget_seconds=1
    )
    assert verdict.effects


@pytest.mark.deep(part="sweeps")
@pytest.mark.parametrize("level", ["double", "takeover"])
def test_a_sample_of_the_deeper_levels_finds_nothing_wrong(level: str) -> None:
    agent = AGENTS["agent with a budget"]
    assert_nothing_wrong(
        "agent with a budget", agent, store="sqlite", level=level, budget_seconds=0.6
    )
