"""Do takers of notices on PostgreSQL share an outbox without waiting for each other? (P332)"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg
from psycopg import sql

from nottwice.model.runs.notices import NOTICE_KINDS
from nottwice.store.postgres.store import PostgresStore
from nottwice.testing.conformance.samples import event, told
from tests.postgres import server
from tests.store.samples import NOW


def test_a_taker_skips_what_another_one_is_taking(tmp_path: Path) -> None:
    """The other taker has begun its transaction, and does not end it."""
    with (
        closing(PostgresStore(server.LEDGERS.url("writer", tmp_path), now=NOW)) as writer,
        closing(PostgresStore(server.LEDGERS.url("operator", tmp_path), now=NOW)) as store,
    ):
        _skip(tmp_path, writer, store)


def _skip(place: Path, writer: PostgresStore, store: PostgresStore) -> None:
    for number in range(3):
        writer.commit(told(event(f"e-{number}", f"run-{number}", sent_at=NOW + number)))
    first, *rest = [one.notice_id for one in writer.notices()]
    outbox = sql.Identifier(server.LEDGERS.schema(place), "outbox")
    with psycopg.connect(server.url()) as other:
        locked = sql.SQL("SELECT 1 FROM {} WHERE notice_id = %s FOR UPDATE").format(outbox)
        other.execute(locked, (first,))
        taken = store.take_notices(by="a", kinds=NOTICE_KINDS, now=0.0, lease_seconds=60.0, limit=9)
        assert [one.notice_id for one in taken] == rest
        other.rollback()
    (last,) = store.take_notices(by="b", kinds=NOTICE_KINDS, now=1e12, lease_seconds=60.0, limit=9)
    # The clock of the server counts, and not that of a taker that is years ahead.
    assert last.notice_id == first
    assert store.settle_notices([first], by="b", now=NOW) == [first]
