"""How fast are protected calls on PostgreSQL, measured against bare INSERTs on the same server?

The server is started for this and removed afterwards. One unsafe call is two durable commits, an
intent and a receipt. A bare INSERT is one. Ratios are taken per round, so that a busy machine
affects both. Nothing is tuned to make a point: the tool does nothing.

    python bench/postgres.py [--rounds 3] [--calls 300] [--runs 64] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg

import nottwice as nt
from tests.postgres.server import Server, with_words

BODY = "x" * 500


@nt.tool("unsafe_on_replay", name="bench_send")
def send(number: int) -> str:
    return BODY


def raw(url: str, count: int, threads: int) -> float:
    """Return bare INSERTs per second, each a transaction, with one connection per thread."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE IF NOT EXISTS bare (worker int, number int, body text,"
            " PRIMARY KEY (worker, number))"
        )
        connection.execute("TRUNCATE bare")
    connections = [psycopg.connect(url, autocommit=True) for _ in range(threads)]

    def work(worker: int) -> None:
        for number in range(count):
            connections[worker].execute(
                "INSERT INTO bare VALUES (%s, %s, %s)", (worker, number, BODY)
            )

    seconds = _seconds(work, threads)
    for connection in connections:
        connection.close()
    return count * threads / seconds


def calls(url: str, count: int, runs: int) -> float:
    """Return protected unsafe calls per second, of concurrent runs in one process."""
    with nt.Ledger(url) as ledger:
        opened = [ledger.run(f"run {number}") for number in range(runs)]

        def work(worker: int) -> None:
            with opened[worker]:
                for number in range(count):
                    send(number)

        return count * runs / _seconds(work, runs)


def _seconds(work: object, threads: int) -> float:
    assert callable(work)
    began = time.perf_counter()
    if threads == 1:
        work(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description="protected calls on PostgreSQL")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    server = Server()
    found: dict[str, list[float]] = {name: [] for name in ("raw", "one run", "many runs")}
    try:
        for number in range(options.rounds):
            each = max(1, options.calls // 8)
            found["raw"].append(raw(server.url, options.calls, 1))
            one = with_words(server.url, schema=f"one_{number}")
            found["one run"].append(calls(one, options.calls, 1))
            many = with_words(server.url, schema=f"many_{number}")
            found["many runs"].append(calls(many, each, options.runs))
    finally:
        server.end()
    rows = [
        {
            "what": name,
            "per second": round(median(rates)),
            "ratio to raw": round(
                median(rate / bare for rate, bare in zip(rates, found["raw"], strict=True)), 2
            ),
        }
        for name, rates in found.items()
    ]
    if options.json:
        print(json.dumps({"rounds": options.rounds, "runs": options.runs, "figures": rows}))
        return
    for row in rows:
        print(f"{row['what']:<10} {row['per second']:>8}/s  {row['ratio to raw']:>5} of raw")


if __name__ == "__main__":
    main()
