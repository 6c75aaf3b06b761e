"""A run that is migrated, killed everywhere: whatever it does happens once, and all of it does."""

from __future__ import annotations

import pytest

from tests.crash.scenarios import GRAPHS
from tests.crash.sweeping import assert_nothing_wrong


@pytest.mark.parametrize("store", ["sqlite", "jsonfile"])
def test_killed_at_its_boundaries_nothing_happens_twice_and_nothing_is_lost(store: str) -> None:
    verdict = assert_nothing_wrong(
        "migrated", GRAPHS["migrated"], store=store, level="boundaries", budget_seconds=2
    )
    assert verdict.effects


@pytest.mark.parametrize("level", ["double", "lines", "takeover"])
def test_a_sample_of_the_deeper_levels_finds_nothing_wrong(level: str) -> None:
    assert_nothing_wrong(
        "migrated", GRAPHS["migrated"], store="sqlite", level=level, budget_seconds=1
    )
