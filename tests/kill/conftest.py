"""Where do the processes, the World and the ledgers of these tests come from?"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.testing import World
from tests.kill.processes import Case, Nursery

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    # Not in pytest's own folder: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="nottwice-") as folder:
        started = Nursery(Path(folder))
        yield started
        started.end()


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World.start() as started:
        yield started


@pytest.fixture
def case(nursery: Nursery, world: World, tmp_path: Path) -> Iterator[Case]:
    made = Case(nursery, world, tmp_path / "ledger.db", f"effect-{next(_numbers)}")
    yield made
    made.close()
