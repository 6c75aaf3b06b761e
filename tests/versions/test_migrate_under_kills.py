"""A migration that is killed everywhere: every effect of the run happens exactly once.

On SQLite it is one of the graphs that ``tests/crash/test_sweep_graphs.py`` kills at its boundaries.
"""

from __future__ import annotations

import pytest

from tests.crash.scenarios import GRAPHS
from tests.crash.sweeping import assert_nothing_wrong


def test_killed_at_its_boundaries_nothing_happens_twice_and_nothing_is_lost() -> None:
    verdict = assert_nothing_wrong(
        "migrated", GRAPHS["migrated"], store="jsonfile", level="boundaries", budget_seconds=1
    )
    assert verdict.effects


@pytest.mark.parametrize("level", ["lines", "takeover"])
def test_a_sample_of_the_deeper_levels_finds_nothing_wrong(level: str) -> None:
    assert_nothing_wrong(
        "migrated", GRAPHS["migrated"], store="sqlite", level=level, budget_seconds=0.7
    )
