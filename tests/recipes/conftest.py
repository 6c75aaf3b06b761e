"""The upstreams that recipes are tested against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.recipes.servers import Tracker, started


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "agent.db"


@pytest.fixture(scope="module")
def tracker_process() -> Iterator[Tracker]:
    with started("http") as port:
        yield Tracker(port)


@pytest.fixture
def tracker(tracker_process: Tracker) -> Tracker:
    tracker_process.forget()
    return tracker_process
