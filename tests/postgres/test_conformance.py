"""Does the PostgreSQL ledger keep the claims that every store keeps? (B3, B4, P22)

It does so as a user who may drive runs and nothing else (P60).
"""

from __future__ import annotations

from pathlib import Path

from nottwice.store.interface import Store
from nottwice.store.postgres import PostgresStore
from nottwice.testing.conformance import StoreConformance
from tests.postgres import server


class TestPostgres(StoreConformance):
    def open_store(self, place: Path, now: float) -> Store:
        return PostgresStore(server.LEDGERS.url("writer", place), now=now)

    def teardown_method(self) -> None:
        super().teardown_method()
        server.LEDGERS.give_back()
