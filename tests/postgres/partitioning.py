"""A ledger whose tables are partitioned, as a distributed database keeps them.

PostgreSQL's hash partitions have the rule of the distributed databases that shard by a column: a
unique index must contain that column. The column is the run. The group of a run of one call is what
precedes the last slash of its id, so a hash of that part keeps a group together.
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

_BY_GROUP = """
CREATE FUNCTION "{schema}".hash_of_group(run_id text, seed bigint) RETURNS bigint
  LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
  RETURN hashtextextended(regexp_replace(run_id, '/[^/]*$', ''), seed);
CREATE OPERATOR CLASS "{schema}".by_group FOR TYPE text USING hash AS
  OPERATOR 1 =, FUNCTION 2 "{schema}".hash_of_group(text, bigint);
"""


def tables_of_runs(connection: psycopg.Connection, schema: str) -> list[str]:
    """The tables that hold rows of runs."""
    return [name for (name,) in connection.execute(_TABLES, (schema,))]


def unique_indexes(connection: psycopg.Connection, schema: str) -> dict[tuple[str, str], str]:
    """The first column of each unique index of these tables, by table and index."""
    found = connection.execute(_INDEXES, (schema, tables_of_runs(connection, schema)))
    return {(table, index): first for table, index, first in found}


def partition(
    connection: psycopg.Connection, schema: str, parts: int, *, by_group: bool = False
) -> None:
    """Partition the tables of an empty ledger by run or by group, and leave the others as they are.

    A hash of its own needs a superuser. The statements of nottwice stay as they are.
    """
    if by_group:
        connection.execute(_BY_GROUP.replace("{schema}", schema))
    key = f'workflow_id "{schema}".by_group' if by_group else "workflow_id"
    connection.execute(f'DROP INDEX "{schema}".reviews_id')
    connection.execute(f'CREATE INDEX reviews_id ON "{schema}".reviews (review_id)')
    for table in tables_of_runs(connection, schema):
        old, new = f'"{schema}"."{table}_whole"', f'"{schema}"."{table}"'
        connection.execute(f'ALTER TABLE {new} RENAME TO "{table}_whole"')
        connection.execute(
            f"CREATE TABLE {new} (LIKE {old} INCLUDING DEFAULTS INCLUDING CONSTRAINTS"
            f" INCLUDING IDENTITY INCLUDING INDEXES) PARTITION BY HASH ({key})"
        )
        for part in range(parts):
            connection.execute(
                f'CREATE TABLE "{schema}"."{table}_{part}" PARTITION OF {new}'
                f" FOR VALUES WITH (MODULUS {parts}, REMAINDER {part})"
            )
        connection.execute(f"DROP TABLE {old}")
