"""Does the PostgreSQL ledger keep the claims that every store keeps? (B3, B4, P22)

It does so as a user who may drive runs and nothing else (P60); to remove takes one more role.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.model.sealing.keyring import make_key, make_keyring
from nottwice.model.sealing.seal import Seals
from nottwice.store.interface import Store
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance import StoreConformance, claims_of
from nottwice.testing.conformance.removals import Removals
from tests.fakes import FakeClock
from tests.postgres import server
from tests.store.samples import NOW

SEALS = Seals(make_keyring([make_key(bytes(range(32)))]))


class TestPostgres(StoreConformance):
    def open_store(self, place: Path, now: float) -> Store:
        return PostgresStore(server.LEDGERS.url("writer", place), now=now)

    def teardown_method(self) -> None:
        super().teardown_method()
        server.LEDGERS.give_back()


@pytest.mark.deep(part="sweeps")
class TestSealedPostgres(TestPostgres):
    """Every claim also holds with a key (P97)."""

    def open_store(self, place: Path, now: float) -> Store:
        return PostgresStore(server.LEDGERS.url("writer", place), now=now, seals=SEALS)


class TestRemovals(Removals):
    def open_store(self, place: Path, now: float) -> Store:
        return PostgresStore(server.LEDGERS.url("keeper", place), now=now)

    def teardown_method(self) -> None:
        super().teardown_method()
        server.LEDGERS.give_back()


for _claim in claims_of(TestRemovals):
    # Not what a writer may do.
    setattr(TestPostgres, _claim, None)
    setattr(TestSealedPostgres, _claim, None)


def test_who_drives_runs_cannot_remove_them(tmp_path: Path) -> None:
    store = PostgresStore(server.LEDGERS.url("writer", tmp_path), now=NOW)
    clock = FakeClock(NOW)
    with nt.Ledger(store, clock=clock) as ledger:
        with ledger.run("run"):
            look(what="it")
        clock.advance(100 * 86_400)
        with pytest.raises(nt.errors.StoreError, match="nottwice_keeper"):
            nt.remove_expired(ledger)
        assert len(store.calls("run")) == 1
        run = store.load_run("run")
        assert run is not None
        assert run.status.value == "completed"
    server.LEDGERS.give_back()


@nt.tool("pure", name="postgres_look")
def look(what: str) -> str:
    return what
