"""The statements of the ledger on SQLite."""

from __future__ import annotations

from nottwice.store.statements import Statements, for_sqlite

SQL = Statements("sqlite.sql", for_sqlite)
