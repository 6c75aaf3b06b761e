"""A ledger whose tables are partitioned by run, as a distributed database keeps them.

PostgreSQL's hash partitions have the rule of the distributed databases that shard by a column: a
unique index must contain that column.
"""

from __future__ import annotations

import psycopg

_TABLES = """
SELECT c.relname FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
 WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' AND a.attname = 'workflow_id'
 ORDER BY c.relname
"""
_INDEXES = """
SELECT t.relname, i.relname, a.attname
  FROM pg_index AS x
  JOIN pg_class AS t ON t.oid = x.indrelid
  JOIN pg_class AS i ON i.oid = x.indexrelid
  LEFT JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = x.indkey[0]
 WHERE t.relnamespace = %s::regnamespace AND x.indisunique AND t.relname = ANY(%s)
 ORDER BY t.relname, i.relname
"""


def tables_of_runs(connection: psycopg.Connection, schema: str) -> list[str]:
    """The tables that hold rows of runs."""
    return [name for (name,) in connection.execute(_TABLES, (schema,))]


def unique_indexes(connection: psycopg.Connection, schema: str) -> dict[tuple[str, str], str]:
    """The first column of each unique index of these tables, by table and index."""
    found = connection.execute(_INDEXES, (schema, tables_of_runs(connection, schema)))
    return {(table, index): first for table, index, first in found}


def partition(connection: psycopg.Connection, schema: str, parts: int) -> None:
    """Partition the tables of an empty ledger by run, and leave the others as they are."""
    connection.execute(f'DROP INDEX "{schema}".reviews_id')
    connection.execute(f'CREATE INDEX reviews_id ON "{schema}".reviews (review_id)')
    for table in tables_of_runs(connection, schema):
        old, new = f'"{schema}"."{table}_whole"', f'"{schema}"."{table}"'
        connection.execute(f'ALTER TABLE {new} RENAME TO "{table}_whole"')
        connection.execute(
            f"CREATE TABLE {new} (LIKE {old} INCLUDING DEFAULTS INCLUDING CONSTRAINTS"
            " INCLUDING IDENTITY INCLUDING INDEXES) PARTITION BY HASH (workflow_id)"
        )
        for part in range(parts):
            connection.execute(
                f'CREATE TABLE "{schema}"."{table}_{part}" PARTITION OF {new}'
                f" FOR VALUES WITH (MODULUS {parts}, REMAINDER {part})"
            )
        connection.execute(f"DROP TABLE {old}")
