"""Does a call cost more when the ledger is large? Closed runs should cost nothing.

There are two ledgers on one server: a small one, and one filled with closed runs by the server
itself. Calls of a new run are made in both, in turns, and the ratio is printed. The same is done
for a resume, and for the queries of a worker that looks for work. Ten million rows take about ten
gigabytes and ten minutes to create. The default is smaller.

    python bench/postgres_growth.py [--rows 1000000] [--small 10000] [--rounds 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg

import nottwice as nt
from nottwice.store.postgres.schema import in_schema
from tests.postgres.server import Server, with_words

CALLS_A_RUN = 10
CALLS = 200
ROUND_ROWS = 200_000


@nt.tool("unsafe_on_replay", name="bench_send")
def send(number: int) -> str:
    return "x" * 200


_RUNS = """
INSERT INTO nottwice.runs (workflow_id, status, epoch, created_at, updated_at, graph_id)
SELECT 'old-' || md5(n::text), 'completed', 1, n, n, 'bench@1.0.0'
  FROM generate_series(%s::bigint, %s::bigint) AS n
"""
_CALLS = """
INSERT INTO nottwice.tool_call_results (workflow_id, node_id, checkpoint_id, tool_name, input_hash,
       created_at, call_id, status, replay_class, attempt, attempt_id, holder_id, started_at,
       finished_at, args_json, result_kind, result_json)
SELECT 'old-' || md5((n / %s)::text), '/', 'start', 'bench_send', md5(n::text) || md5('a' || n),
       n, left(md5('c' || n), 32), 'DONE', 'unsafe_on_replay', 1, md5('t' || n), 'holder', n, n,
       '{"number":1}', 'plain', '"' || repeat('x', 200) || '"'
  FROM generate_series(%s::bigint, %s::bigint) AS n
"""


_INDEXES = """
SELECT format('ALTER TABLE %%s DROP CONSTRAINT %%I', conrelid::regclass, conname),
       format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', conrelid::regclass, conname,
              pg_get_constraintdef(oid))
  FROM pg_constraint WHERE contype = 'p' AND conrelid = ANY(%s::regclass[])
UNION ALL
SELECT format('DROP INDEX %%s', indexrelid::regclass), pg_get_indexdef(indexrelid)
  FROM pg_index WHERE NOT indisprimary AND indrelid = ANY(%s::regclass[])
"""


@contextmanager
def filling(connection: psycopg.Connection, tables: list[str]) -> Iterator[None]:
    """Drop the indexes of tables that are to be filled, and create them again."""
    connection.execute("SET synchronous_commit = off")
    connection.execute("SET maintenance_work_mem = '1GB'")
    indexes = connection.execute(_INDEXES, (tables, tables)).fetchall()
    for drop, _ in indexes:
        connection.execute(drop)
    yield
    for _, make in indexes:
        # The index of a partitioned table is shown as one of this table ONLY.
        connection.execute(make.replace(" ON ONLY ", " ON ", 1))
    # The server does this on its own later, which would disturb the measurement.
    for table in tables:
        connection.execute(f"VACUUM ANALYZE {table}")
    connection.execute("CHECKPOINT")


def fill(url: str, schema: str, rows: int) -> None:
    """Create closed runs of ten calls each, on the server, one batch at a time.

    The indexes are created after all rows, which takes a fraction of the time, because the rows do
    not come in the order of any index.
    """
    tables = [f"{schema}.runs", f"{schema}.tool_call_results"]
    with psycopg.connect(url, autocommit=True) as connection, filling(connection, tables):
        for start in range(0, rows, ROUND_ROWS):
            last = min(start + ROUND_ROWS, rows) - 1
            runs = (start // CALLS_A_RUN, last // CALLS_A_RUN)
            connection.execute(in_schema(_RUNS, schema), runs)
            connection.execute(in_schema(_CALLS, schema), (CALLS_A_RUN, start, last))
            print(f"\r{schema}: {last + 1:,} of {rows:,} rows", end="", file=sys.stderr)
    print(file=sys.stderr)


def call_seconds(ledger: nt.Ledger, run: str) -> float:
    """Return how long a call of a new run takes. A median, so that a busy disk counts less."""
    took = []
    with ledger.run(run):
        send(-1)
        for number in range(CALLS):
            began = time.perf_counter()
            send(number)
            took.append(time.perf_counter() - began)
    return median(took)


def look_seconds(ledger: nt.Ledger) -> float:
    """Return how long it takes a worker to find that there is nothing to do."""
    took = []
    for _ in range(CALLS):
        began = time.perf_counter()
        assert not ledger.store.ready_runs(begun=True, now=time.time(), limit=64)
        assert not ledger.store.ready_runs(begun=False, now=time.time(), limit=64)
        assert not ledger.store.holders_of_runs()
        took.append(time.perf_counter() - began)
    return median(took)


def resume_seconds(ledger: nt.Ledger, run: str) -> float:
    """Return how long it takes to open a run again and to return its receipts."""
    began = time.perf_counter()
    with ledger.run(run):
        for number in range(20):
            send(number)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description="calls in a small ledger and in a large one")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--small", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    server = Server()
    try:
        ledgers = {}
        for schema, rows in (("small", options.small), ("large", options.rows)):
            ledgers[schema] = nt.Ledger(with_words(server.url, schema=schema))
            fill(server.url, schema, rows)
        took: dict[str, list[float]] = {"small": [], "large": []}
        resumed: dict[str, list[float]] = {"small": [], "large": []}
        looked: dict[str, list[float]] = {"small": [], "large": []}
        for number in range(options.rounds):
            for schema, ledger in ledgers.items():
                took[schema].append(call_seconds(ledger, f"new {number}"))
                resumed[schema].append(resume_seconds(ledger, f"new {number}"))
                looked[schema].append(look_seconds(ledger))
        for ledger in ledgers.values():
            ledger.close()
    finally:
        server.end()
    figures = {
        "rows": options.rows,
        "against": options.small,
        "call in microseconds": {name: round(median(s) * 1e6) for name, s in took.items()},
        "ratio of a call": _ratio(took),
        "ratio of a resume": _ratio(resumed),
        "ratio of a look for work": _ratio(looked),
    }
    print(json.dumps(figures, indent=None if options.json else 2))


def _ratio(took: dict[str, list[float]]) -> float:
    pairs = zip(took["large"], took["small"], strict=True)
    return round(median(large / small for large, small in pairs), 2)


if __name__ == "__main__":
    main()
