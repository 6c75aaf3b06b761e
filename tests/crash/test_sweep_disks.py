"""Our own agents on a disk that fails, and on what a loss of power leaves of it (P10, P31-P36)."""

from __future__ import annotations

import pytest

from tests.crash.scenarios import GRAPHS, GUARD
from tests.crash.sweeping import assert_nothing_wrong
from tests.testing.crash.watching import needs_strace

pytestmark = needs_strace
AGENTS = {**GUARD, **GRAPHS}
SWEPT = [
    ("all classes", "sqlite"),
    ("line", "sqlite"),
    ("all classes", "jsonfile"),
    ("fan-out", "jsonfile"),
]


@pytest.mark.parametrize(("name", "store"), SWEPT)
def test_a_sample_of_failing_calls_makes_nothing_happen_twice(name: str, store: str) -> None:
    assert_nothing_wrong(name, AGENTS[name], store=store, level="io", budget_seconds=1.5)


@pytest.mark.parametrize(("name", "store"), SWEPT)
def test_a_sample_of_power_cuts_loses_nothing_that_was_reported(name: str, store: str) -> None:
    assert_nothing_wrong(name, AGENTS[name], store=store, level="power", budget_seconds=1.5)
