"""Three ways of keeping state do the same tasks with the same results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.testing.compare.journey import Journey
from nottwice.testing.compare.tasks import TaskKind, suite
from nottwice.testing.compare.ways import WAYS, _journeys
from nottwice.testing.world import World

FAMILIES = {task.family: task for task in suite()}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World.start() as world:
        yield world
    _journeys.clear()


@pytest.mark.parametrize("family", FAMILIES)
def test_without_a_kill_all_ways_do_the_same(family: str, world: World, tmp_path: Path) -> None:
    task, done = FAMILIES[family], {}
    for name, way in WAYS.items():
        folder = tmp_path / name
        folder.mkdir()
        before = world.count()
        done[name] = way(task, Journey(folder, name=f"{name} {family}", url=world.url))
        assert world.count() > before
    asks = any(beat.kind is TaskKind.ASK for beat in task.beats)
    assert done["in memory"] == done["act, then save"]
    # A run that asks a person waits for the answer.
    assert done["nottwice"] == (None if asks else done["in memory"])
