"""Does a failing disk show what an engine that does not listen to its disk would lose?"""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from nottwice.errors import StoreError
from nottwice.store.interface import Commit
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing import crash_test
from nottwice.testing.crash.faults.failing import FULL, LIMITED, WAYS, FailingDisk
from nottwice.testing.crash.faults.small_disk import can_mount
from nottwice.testing.crash.scenario import CrashTestRefused
from tests.testing.crash.tools import ANSWERS, agent
from tests.testing.crash.watching import lab_of, needs_strace

pytestmark = needs_strace


@pytest.mark.parametrize("store", ["agent.db", "file:agent"])
def test_a_disk_that_fails_makes_nothing_happen_twice_and_loses_nothing(store: str) -> None:
    verdict = crash_test(lambda: agent(store), tools=ANSWERS, levels=["io"], budget="2s")
    assert not verdict.failures, "\n".join(verdict.lines())
    assert verdict.examined >= 5


def test_the_plan_has_every_kind_of_call_that_a_store_makes() -> None:
    called: dict[str, set[str]] = {}
    for store in ("agent.db", "file:agent"):
        with lab_of(store) as lab:
            points = FailingDisk().plan(lab).points
        assert any(way == LIMITED for _, way, _ in points)
        ways = [WAYS[way - 1] for _, way, _ in points if way < LIMITED]
        called[store] = {way.names[0] for way in ways}
        assert {(way.error, way.from_then_on) for way in ways} == {
            (error, on) for error in ("EIO", "ENOSPC") for on in (False, True)
        }
    assert {"pwrite64", "fdatasync", "open"} <= called["agent.db"]
    assert {"write", "fsync", "rename", "mkdir", "open"} <= called["file:agent"]


def way_of(call: str, error: str, *, from_then_on: bool) -> int:
    return next(
        number
        for number, way in enumerate(WAYS, 1)
        if (way.names[0], way.error, way.from_then_on) == (call, error, from_then_on)
    )


def test_an_engine_that_does_not_listen_to_its_disk_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commit = SqliteStore.commit

    def deaf(self: Any, one: Commit) -> None:
        with contextlib.suppress(StoreError):
            commit(self, one)

    monkeypatch.setattr(SqliteStore, "commit", deaf)
    way = way_of("pwrite64", "EIO", from_then_on=True)
    with lab_of("agent.db") as lab:
        # The first half of the writes makes the ledger; the commits of the work come after it.
        every = [point for point in FailingDisk().plan(lab).points if point[1] == way]
    points = every[len(every) // 2 :: 4]
    verdict = crash_test(agent, tools=ANSWERS, levels=["io"], points=points)
    broken = {one.invariant for failure in verdict.failures for one in failure.violations}
    assert {"intent before effect", "no effect twice"} <= broken


def test_a_call_that_does_not_come_is_not_counted() -> None:
    way = way_of("fsync", "EIO", from_then_on=False)
    with pytest.raises(CrashTestRefused, match="without reaching the chosen point"):
        crash_test(agent, tools=ANSWERS, levels=["io"], points=[(1, way, 9999), (7, way, 1)])


def test_a_limit_to_the_size_of_files_lets_nothing_happen_twice() -> None:
    points = [(1, LIMITED, at) for at in (1, 12, 20)]
    verdict = crash_test(agent, tools=ANSWERS, levels=["io"], points=points)
    assert (verdict.examined, verdict.failures) == (3, ())


@pytest.mark.skipif(not can_mount(), reason="a disk of one's own takes the rights of root")
@pytest.mark.parametrize(("store", "full"), [("agent.db", (4, 30, 50)), ("file:agent", (1, 2, 3))])
def test_a_disk_that_is_full_lets_nothing_happen_twice(store: str, full: tuple[int, ...]) -> None:
    points = [(1, FULL, at) for at in (*full, 999)]
    verdict = crash_test(lambda: agent(store), tools=ANSWERS, levels=["io"], points=points)
    assert verdict.failures == ()
    # The last one has room enough, so nothing happens there.
    assert verdict.examined == 3


def test_a_point_of_another_level_is_refused() -> None:
    with pytest.raises(CrashTestRefused, match="three numbers"):
        crash_test(agent, tools=ANSWERS, levels=["io"], points=[(12,)])
