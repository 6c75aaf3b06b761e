"""How does a worker find its runs if a million others wait? On one PostgreSQL, on this machine.

A ledger is filled with runs of 20 graphs: most are queued, and one of ten sleeps until a time. A
worker of one graph works in it, ten runs at a time, and then one that finds nothing to do. Printed
are how long a claim takes and a look that finds nothing, as the workers see it, how many rows of
runs their statements read by walking through a table, and the sizes of the indexes. A table of a
thousand rows is walked through once, when the runs of the worker are enqueued.

With --parts the tables are also partitioned, by run and by group, as a distributed database shards
them, beside one shard of them alone. The partitions are on one server, so that nothing here shows
the price of a network or of a distributed transaction.

    python bench/waiting.py [--runs 1000 100000 1000000] [--parts 16] [--claims 50] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg

import nottwice as nt
from bench.postgres_growth import filling
from nottwice.store.postgres.schema import in_schema
from tests.postgres.partitioning import partition
from tests.postgres.server import Server, with_words

MOST = 10
ROUND_RUNS = 500_000
WORKER = "bench_worker"
"""The name by which the server knows the connections of a worker."""

_RUNS = """
INSERT INTO nottwice.runs (workflow_id, status, epoch, created_at, updated_at, graph_id, input_json,
                           wake_at, ready_at)
SELECT 'run-' || md5(n::text), 'running', sleeps::int, n, n, 'graph' || n %% 20 || '@1.0.0', '{}',
       CASE WHEN sleeps THEN %(later)s + n END, CASE WHEN sleeps THEN %(later)s + n ELSE n END
  FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS n,
       LATERAL (SELECT n / 20 %% 10 = 0 AS sleeps) AS one
"""
_SIZES = """
SELECT coalesce(sum(pg_relation_size(c.oid)) FILTER (WHERE c.relkind = 'r'), 0),
       coalesce(sum(pg_relation_size(c.oid)) FILTER (WHERE c.relname ~ 'pkey'), 0),
       coalesce(sum(pg_relation_size(c.oid)) FILTER (WHERE c.relkind = 'i'), 0)
  FROM pg_class AS c
 WHERE c.relnamespace = %s::regnamespace AND c.relname ~ '^runs(_[0-9]+)?($|_)'
"""
_WALKED = """
SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables
 WHERE schemaname = %s AND relname ~ '^runs(_[0-9]+)?$'
"""


def fill(url: str, schema: str, runs: int) -> float:
    """Fill the table of runs; returns the seconds that it took."""
    began = time.perf_counter()
    later = int(time.time() * 1e6) + 10**15
    with (
        psycopg.connect(url, autocommit=True) as connection,
        filling(connection, [f"{schema}.runs"]),
    ):
        for start in range(0, runs, ROUND_RUNS):
            last = min(start + ROUND_RUNS, runs) - 1
            given = {"later": later, "first": start, "last": last}
            connection.execute(in_schema(_RUNS, schema), given)
            print(f"\r{schema}: {last + 1:,} of {runs:,} runs", end="", file=sys.stderr)
    print(file=sys.stderr)
    return time.perf_counter() - began


@contextmanager
def timed(word: str) -> Iterator[list[float]]:
    """The seconds that each statement with this word in it takes, as its sender sees it."""
    took: list[float] = []
    execute = psycopg.Connection.execute

    def measured(self: Any, query: Any, *given: Any, **more: Any) -> Any:
        began = time.perf_counter()
        try:
            return execute(self, query, *given, **more)
        finally:
            if word in str(query):
                took.append(time.perf_counter() - began)

    psycopg.Connection.execute = measured  # type: ignore[method-assign]
    try:
        yield took
    finally:
        psycopg.Connection.execute = execute  # type: ignore[method-assign]


def claim_milliseconds(url: str, claims: int) -> float:
    """How long a worker of one graph takes to claim up to ten runs: the median."""
    flow: nt.Graph[Any] = nt.Graph("graph7", version="1.0.0")
    together = threading.Barrier(MOST)
    left = claims

    def only(state: dict[str, Any]) -> None:
        # Ten end together, so that the next ten are claimed together.
        nonlocal left
        if together.wait() == 0:
            left -= 1
            if not left:
                worker.stop()

    flow.node(name="only")(only)
    with nt.Ledger(url) as ledger, timed("claim_ready") as took:
        app = nt.App(graphs=[flow], store=ledger)
        # A small ledger has not enough for all claims.
        app.enqueue_all("graph7", {f"more-{number}": {} for number in range(claims * MOST)})
        worker = nt.Worker(app, concurrency=MOST)
        worker.run()
    return round(median(took[5:]) * 1e3, 2)


def look_milliseconds(url: str, looks: int) -> float:
    """How long a worker takes to find that none of its runs is ready: the median."""
    flow: nt.Graph[Any] = nt.Graph("other", version="1.0.0")
    flow.node(name="only")(lambda state: None)
    took = []
    with nt.Ledger(url) as ledger:
        worker = nt.Worker(nt.App(graphs=[flow], store=ledger), concurrency=MOST)
        for _ in range(looks):
            began = time.perf_counter()
            assert worker.run(until_idle=True).taken == 0
            took.append(time.perf_counter() - began)
    return round(median(took[5:]) * 1e3, 2)


def rows_walked(url: str, schema: str) -> int:
    """How many rows of runs were read by walking through a table, so far."""
    still = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    with psycopg.connect(url, autocommit=True) as connection:
        # A connection counts what it has read when it ends.
        while connection.execute(still, (WORKER,)).fetchone() != (0,):
            time.sleep(0.01)
        row = connection.execute(_WALKED, (schema,)).fetchone()
    assert row is not None
    return int(row[0])


def sizes(url: str, schema: str) -> dict[str, int]:
    """The sizes of the table of runs and its indexes, in megabytes."""
    with psycopg.connect(url) as connection:
        row = connection.execute(_SIZES, (schema,)).fetchone()
    assert row is not None
    names = ("rows", "primary key", "all indexes")
    return {name: int(size) // 2**20 for name, size in zip(names, row, strict=True)}


def measure(
    server: Server, schema: str, runs: int, parts: int, claims: int, *, by_group: bool = False
) -> dict[str, object]:
    url = with_words(server.url, schema=schema, application_name=WORKER)
    nt.Ledger(url).close()
    if parts:
        with psycopg.connect(server.url) as connection:
            partition(connection, schema, parts, by_group=by_group)
    seconds = fill(server.url, schema, runs)
    before = rows_walked(server.url, schema)
    figures: dict[str, object] = {
        "runs": runs,
        "partitions": parts,
        "by": "group" if by_group else "run",
        "filled, runs per second": round(runs / seconds),
        "megabytes": sizes(server.url, schema),
        "claim of ten runs, milliseconds": claim_milliseconds(url, claims),
        "look that finds nothing, milliseconds": look_milliseconds(url, claims),
    }
    figures["rows read in sequence"] = rows_walked(server.url, schema) - before
    print(figures, file=sys.stderr)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="waiting runs, whole and in partitions")
    parser.add_argument("--runs", type=int, nargs="+", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--parts", type=int, default=0)
    parser.add_argument("--claims", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    told = parser.parse_args()
    server = Server()
    figures = []
    try:
        for runs in told.runs:
            figures.append(measure(server, f"whole_{runs}", runs, 0, told.claims))
            if told.parts:
                shard = runs // told.parts
                figures.append(measure(server, f"shard_{runs}", shard, 0, told.claims))
                for by_group in (False, True):
                    schema = f"parted_{runs}_{'group' if by_group else 'run'}"
                    figures.append(
                        measure(server, schema, runs, told.parts, told.claims, by_group=by_group)
                    )
    finally:
        server.end()
    print(json.dumps(figures, indent=None if told.json else 2))


if __name__ == "__main__":
    main()
