"""Does every named statement exist, in the dialect of its database?"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from nottwice.store import effects, tables
from nottwice.store.postgres.statements import SQL as POSTGRES
from nottwice.store.sqlite.schema import bring_forward
from nottwice.store.sqlite.statements import SQL as SQLITE
from nottwice.store.statements import Statements, for_postgres
from tests.tidy.source import ROOT

STORE = ROOT / "src" / "nottwice" / "store"
BOTH = {"SQLite": SQLITE, "PostgreSQL": POSTGRES}
NAMES = re.compile(r'"([a-z]+(?:_[a-z]+)+|calls|step|steps|run|runs|graph|graphs|events?)"')


def named_in(*files: str) -> set[str]:
    """What a module names that could be a statement."""
    texts = ((STORE / file).read_text(encoding="utf-8").partition("\nclass ")[2] for file in files)
    return {name for text in texts for name in NAMES.findall(text)}


@pytest.mark.parametrize("name", sorted(set(SQLITE)))
def test_sqlite_understands_every_statement(name: str) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        bring_forward(connection, "here")
        connection.execute(SQLITE["limits_table"])
        sql = SQLITE.where(name)
        asked = set(re.findall(r"(?<!:):([a-z_]+)", sql))
        given: Any = dict.fromkeys(asked) if asked else (None,) * sql.count("?")
        connection.execute("EXPLAIN " + sql, given)


def test_no_statement_is_left_half_filled_in() -> None:
    for statements in BOTH.values():
        for name in statements:
            assert not re.search(r"\{(?!where\})|\}(?<!\{where\})", statements[name]), name


def test_a_statement_that_is_there_for_one_database_only_is_used_by_it_alone() -> None:
    """What the shared modules name is there for both."""
    shared = named_in("sql_store.py", "sql_plan.py") & (set(SQLITE) | set(POSTGRES))
    assert len(shared) > 40
    hooks = {"remove_call", "remove_calls"}
    assert shared - set(SQLITE) - hooks == set() == shared - set(POSTGRES) - hooks


def test_columns_of_a_table_are_filled_in() -> None:
    assert tables.STEPS.columns in SQLITE["steps"]
    assert f"({tables.STEPS.columns})" in POSTGRES["put_step"]
    assert ":claimed_at" in SQLITE["put_run"]
    assert f"VALUES ({', '.join('?' * len(tables.STEPS.names))})" in SQLITE["put_step"]
    assert "t.call_id" in SQLITE["all_calls_in_doubt"]


def test_rows_of_a_batch_are_passed_as_one_array_for_each_column() -> None:
    assert "unnest(%s::text[], %s::text[]," in POSTGRES["write_intents"]
    assert POSTGRES["write_intents"].count("[]") == len(effects.INTENT) + 2
    assert "SET status = w.status, finished_at = w.finished_at," in POSTGRES["write_receipts"]
    assert "SELECT w.workflow_id, w.node_id," in POSTGRES["write_intents"]


def test_a_file_of_statements_may_have_words_of_its_own() -> None:
    words = {"digest": "abc"}
    calls = Statements("postgres_calls.sql", spell=for_postgres, words=words)
    assert "nottwice.holds_run_abc(%s::bigint, %s::text, %s::text)" in calls["holds_run"]
    assert "(workflow_id text, status text, epoch bigint," in calls["claim_ready"]


def test_the_driver_of_postgres_is_told_the_types_of_columns() -> None:
    neutral = "SELECT :wake_at, :limit, :runs::text[], a::json, '12:30' WHERE b = :seal"
    spelled = for_postgres(neutral)
    assert spelled == (
        "SELECT %(wake_at)s::bigint, %(limit)s, %(runs)s::text[], a::json, '12:30'"
        " WHERE b = %(seal)s::text"
    )


def test_conditions_are_put_where_a_statement_has_room_for_them() -> None:
    for statements in BOTH.values():
        assert "epoch = 0" not in statements.where("runs")
        assert statements.where("count_runs", ["_only_queued"]).count(" AND epoch = 0") == 4
        assert "{where}" not in statements.where("groups", ["_of_graph"])


def test_one_column_has_one_type_whatever_its_table() -> None:
    """A parameter that is named like a column is cast to its type."""
    types: dict[str, set[str]] = {}
    for table in tables.ALL:
        for name, kind in table.postgres_types.items():
            types.setdefault(name, set()).add(kind)
    assert {name: kinds for name, kinds in types.items() if len(kinds) > 1} == {}


def test_a_file_of_statements_is_part_of_the_package() -> None:
    assert len(Statements("shared.sql", "sqlite.sql", spell=str)) == len(SQLITE) > 100
