"""Is a planted secret in a table of PostgreSQL? With the agent of tests/test_canary.py (P101)."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.canary import SECRETS, UNMARKED, found_in
from tests.postgres import server
from tests.test_canary import Place, plant


def dump(name: Path) -> bytes:
    """Every row of every table of a ledger, as text."""
    schema, rows = server.schema_for(name), []
    with psycopg.connect(server.url()) as connection:
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [schema]
        ).fetchall()
        for (table,) in tables:
            query = sql.SQL("SELECT row_to_json(t)::text, t::text FROM {} AS t")
            found = connection.execute(query.format(sql.Identifier(schema, table)))
            rows += [text for row in found for text in row]
    assert len(tables) >= len(server.TABLES)
    return "\n".join(rows).encode()


def test_no_planted_secret_is_in_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, url = Place(tmp_path, monkeypatch), server.ledger_url(tmp_path)
    plant(place, url)
    assert found_in(dump(tmp_path), SECRETS) == set()
    assert place.found() == {}
    # The search finds a secret without a mark.
    assert place.program("unmarked", "open-1", url).exit_code == 0
    assert found_in(dump(tmp_path), {"unmarked": UNMARKED}) == {"unmarked"}
