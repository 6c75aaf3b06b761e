"""Is a ledger the same behind a pooler that hands connections around? (B3)"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.store.interface import Store
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance import StoreConformance, check_store
from tests.postgres import server
from tests.postgres.cutting import can_cut
from tests.postgres.pooling import Pooler, pooler

POOLER = "NOTTWICE_TEST_POOLER"
CLAIMS = [
    "test_a_commit_makes_everything_in_it_visible_at_once",
    "test_of_many_concurrent_claims_one_wins",
    "test_of_two_runs_that_use_a_key_at_once_for_two_things_one_is_refused",
    "test_commits_of_many_threads_all_arrive",
    "test_threads_that_write_one_run_lose_nothing_of_each_other",
    "test_a_decision_or_an_event_while_a_run_is_released_is_not_missed",
    "test_a_killed_holder_is_never_called_alive_and_its_commits_stay",
]


class BehindPooler(StoreConformance):
    def open_store(self, place: Path, now: float) -> Store:
        schema = server.LEDGERS.schema(place)
        url = f"postgresql://test_writer@/postgres?host={os.environ[POOLER]}&schema={schema}"
        return PostgresStore(url, now=now)

    def teardown_method(self) -> None:
        super().teardown_method()
        server.LEDGERS.give_back()


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pooler]:
    if not can_cut():
        pytest.skip("the pooler is for a server of our own")
    with pooler() as one:
        monkeypatch.setenv(POOLER, str(one.folder))
        yield one


def test_a_store_behind_a_pooler_keeps_what_every_store_keeps(behind: Pooler) -> None:
    assert list(check_store(BehindPooler, claims=CLAIMS)) == []
    assert behind.transactions > 100


def test_a_ledger_is_made_and_driven_behind_a_pooler(behind: Pooler, tmp_path: Path) -> None:
    @nt.tool("unsafe_on_replay", name="pooled_send")
    def send(to: str) -> str:
        return f"sent to {to}"

    with nt.Ledger(behind.url(server.schema_for(tmp_path))) as ledger:
        for _ in range(2):
            with ledger.run("run"):
                assert [send(f"{number}") for number in range(5)][-1] == "sent to 4"
        assert len(ledger.store.calls("run")) == 5
