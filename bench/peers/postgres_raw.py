"""The same number of rows, committed one by one: what PostgreSQL itself can do."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg

BODY = "x" * 500


def open_rows(folder: Path) -> tuple[str, Callable[..., float]]:
    """Make one INSERT per step, each in its own transaction, with a connection per thread."""
    url = (folder / "url").read_text()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE steps (run text, step int, body text, PRIMARY KEY (run, step))"
        )
    mine = threading.local()

    def run(run_id: str, steps: int, *, dies: int = -1) -> float:
        if not hasattr(mine, "connection"):
            mine.connection = psycopg.connect(url, autocommit=True)
        began = time.perf_counter()
        for number in range(steps):
            mine.connection.execute("INSERT INTO steps VALUES (%s, %s, %s)", (run_id, number, BODY))
        return time.perf_counter() - began

    return "one INSERT a step", run


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import graph_worker

    graph_worker.serve({"rows": open_rows})
