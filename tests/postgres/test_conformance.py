"""Does the PostgreSQL ledger keep the claims that every store keeps? (B3, B4, P22)"""

from __future__ import annotations

from pathlib import Path

from nottwice.store.interface import Store
from nottwice.store.postgres import PostgresStore
from nottwice.testing.conformance import StoreConformance
from tests.postgres import server


class TestPostgres(StoreConformance):
    def open_store(self, place: Path, now: float) -> Store:
        return PostgresStore(server.ledger_url(place), now=now)
