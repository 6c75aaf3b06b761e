"""Do stores count what is in progress, also of processes that were killed? (P311)"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.runs.limits import LimitUse, Meter
from nottwice.store.interface import Store
from nottwice.store.limits import LOOK_AGAIN_SECONDS
from nottwice.store.memory import MemoryStore
from nottwice.store.sqlite.store import SqliteStore
from tests.store.samples import NOW


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "sqlite":
        opened: Any = SqliteStore(tmp_path / "ledger.db", now=NOW)
    else:
        pytest.importorskip("psycopg")
        from nottwice.store.postgres.store import PostgresStore
        from tests.postgres import server

        opened = PostgresStore(server.ledger_url(tmp_path), now=NOW)
    yield opened
    opened.close()


def use(store: Store, name: str, *limits: nt.Limit, holder: str | None = None) -> LimitUse:
    meters = [Meter(f"tool {limit.tool}", limit) for limit in limits]
    return LimitUse(name, holder or store.holder().holder_id, meters)


def test_no_more_are_in_progress_than_allowed(store: Any) -> None:
    limit = nt.Limit(tool="send", concurrency=2)
    first, second, third = (use(store, name, limit) for name in "abc")
    assert store.acquire(first, now=NOW) is None
    assert store.acquire(second, now=NOW) is None
    assert store.acquire(third, now=NOW) == (LOOK_AGAIN_SECONDS, third.meters[0])
    # Asked again, because the answer was lost, it is the same use.
    assert store.acquire(second, now=NOW) is None
    store.end_use(first)
    assert store.acquire(third, now=NOW) is None
    assert store.acquire(use(store, "d", limit), now=NOW) is not None


def test_no_more_begin_in_a_time_than_allowed(store: Any) -> None:
    limit = nt.Limit(tool="send", rate="2/1h")
    for name in "ab":
        one = use(store, name, limit)
        assert store.acquire(one, now=NOW) is None
        store.end_use(one)
    full = store.acquire(use(store, "c", limit), now=NOW + 60)
    assert full is not None
    assert 3500 < full[0] <= 3600
    resumed = LimitUse("d", store.holder().holder_id, full[1:], begins=False)
    assert store.acquire(resumed, now=NOW + 60) is None
    if isinstance(store, SqliteStore):
        assert full[0] == 3540.0
        assert store.acquire(use(store, "c", limit), now=NOW + 3601) is None


def test_all_or_nothing_is_counted(store: Any) -> None:
    wide, narrow = nt.Limit(tool="wide", concurrency=9), nt.Limit(tool="narrow", concurrency=1)
    assert store.acquire(use(store, "a", narrow), now=NOW) is None
    assert store.acquire(use(store, "b", wide, narrow), now=NOW) is not None
    for number in range(9):
        assert store.acquire(use(store, f"w{number}", wide), now=NOW) is None


def test_what_a_process_that_is_gone_left_in_progress_does_not_count(store: Any) -> None:
    limit = nt.Limit(tool="send", concurrency=1)
    assert store.acquire(use(store, "a", limit, holder="gone"), now=NOW) is None
    assert store.acquire(use(store, "b", limit), now=NOW) is None
    assert store.acquire(use(store, "c", limit), now=NOW) is not None


def test_a_store_that_keeps_no_limits_says_so() -> None:
    store = MemoryStore()
    with pytest.raises(nt.errors.UsageError, match="keeps no limits"):
        store.acquire(use(store, "a", nt.Limit(tool="send", concurrency=1)), now=NOW)
