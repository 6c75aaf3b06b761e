"""A ledger on SQLite in memory, for tests that look at single statements."""

from __future__ import annotations

import sqlite3

from nottwice.store.interface import Claim, Commit
from nottwice.store.sealing import Sealing
from nottwice.store.sqlite.plan import write
from nottwice.store.sqlite.schema import bring_forward
from tests.store.samples import run_record


def new_ledger() -> sqlite3.Connection:
    """An empty one, with a run that ``holder`` holds."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    bring_forward(connection, "here")
    apply(connection, Commit(workflow_id="run", claim=Claim(run_record())))
    return connection


def apply(connection: sqlite3.Connection, commit: Commit) -> None:
    """Commit the long way; raise if it is refused."""
    refused = write(connection, commit, Sealing(None, location="agent.db"))
    if refused is not None:
        raise refused


def dump(connection: sqlite3.Connection) -> list[str]:
    """All that it holds."""
    return list(connection.iterdump())
