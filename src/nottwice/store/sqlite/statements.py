"""The statements of the ledger on SQLite."""

from __future__ import annotations

from nottwice.store.statements import Statements, for_sqlite

SQL = Statements("shared.sql", "sqlite.sql", spell=for_sqlite)
