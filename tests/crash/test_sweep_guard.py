"""Plain runs, killed everywhere: all three classes, retries, branches, async, waiting (P31–P36)."""

from __future__ import annotations

import pytest

from tests.crash.scenarios import GRAPHS, GUARD
from tests.crash.sweeping import assert_nothing_wrong


@pytest.mark.sampled(part="sweeps", keep=3)
@pytest.mark.parametrize("name", GUARD)
def test_killed_at_its_boundaries_nothing_happens_twice_and_nothing_is_lost(name: str) -> None:
    verdict = assert_nothing_wrong(
        name, GUARD[name], store="sqlite", level="boundaries", budget_seconds=1.5
    )
    assert verdict.effects


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("level", ["double", "lines", "takeover"])
@pytest.mark.parametrize("name", ["all classes", "late"])
def test_a_sample_of_the_deeper_levels_finds_nothing_wrong(name: str, level: str) -> None:
    assert_nothing_wrong(name, GUARD[name], store="sqlite", level=level, budget_seconds=0.7)


@pytest.mark.deep(part="sweeps")
def test_branches_and_event_loops_overtaken_in_the_middle_do_nothing_twice() -> None:
    for name in ("branches", "async"):
        assert_nothing_wrong(
            name, GUARD[name], store="sqlite", level="takeover", budget_seconds=0.7
        )


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("level", ["boundaries", "double", "lines", "takeover", "power"])
@pytest.mark.parametrize("name", ["all classes", "line"])
def test_with_a_key_a_run_adds_up_wherever_it_was_killed(
    name: str, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the ledger after each crash covers every seal and every head (P97)."""
    monkeypatch.setenv("NOTTWICE_KEY", bytes(range(32)).hex())
    agent = {**GUARD, **GRAPHS}[name]
    assert_nothing_wrong(name, agent, store="sqlite", level=level, budget_seconds=0.7)
