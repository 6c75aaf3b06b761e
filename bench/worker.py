"""How many short runs a second go through workers, one process and four?

A run has two nodes, of which one makes one unsafe call that does nothing; so it is four commits to
a ledger in SQLite with WAL and synchronous=FULL: claim, intent, receipt, release. The runs are put
down before the workers start, and the clock runs from the first claim to the last release, both as
the ledger has them. Printed beside it: the same runs one after the other with `graph.run` in one
process, and what one idle worker costs.

    python bench/worker.py [--runs 2000] [--concurrency 32] [--processes 1 4] [--json]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import nottwice as nt

IDLE_SECONDS = 5.0
BEGAN_AND_ENDED = "SELECT min(claimed_at), max(updated_at), count(*) FROM runs WHERE epoch > 0"
NOT_COMPLETED = "SELECT count(*) FROM runs WHERE status <> 'completed'"


@nt.tool("unsafe_on_replay")
def act(number: int) -> int:
    """Nothing, so that what is measured is ours."""
    return number


flow = nt.Graph("short", version="1.0.0")


@flow.node
def first(state: dict[str, Any]) -> dict[str, Any]:
    return {"answer": act(number=state["number"])}


@flow.node
def second(state: dict[str, Any]) -> dict[str, Any]:
    return {"done": True}


def app_in(path: Path) -> nt.App:
    return nt.App(graphs=[flow], store=path)


def enqueue(path: Path, runs: int) -> float:
    """Put the runs down. Answer: how many a second."""
    inputs = {f"run-{number}": {"number": number} for number in range(runs)}
    began = time.perf_counter()
    app_in(path).enqueue_all("short", inputs)
    return runs / (time.perf_counter() - began)


def by_workers(path: Path, processes: int, concurrency: int) -> float:
    """Let workers do all of them. Answer: runs a second."""
    words = [sys.executable, __file__, "--work", str(path), "--concurrency", str(concurrency)]
    workers = [subprocess.Popen(words) for _ in range(processes)]
    for worker in workers:
        if worker.wait() != 0:
            raise SystemExit("a worker failed")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        began, ended, runs = connection.execute(BEGAN_AND_ENDED).fetchone()
        if connection.execute(NOT_COMPLETED).fetchone() != (0,):
            raise SystemExit("not all runs were completed")
    return float(runs / ((ended - began) / 1_000_000))


def one_by_one(path: Path, runs: int) -> float:
    """The same runs one after the other, without a worker. Answer: runs a second."""
    app = app_in(path)
    began = time.perf_counter()
    for number in range(runs):
        app.run("short", f"run-{number}", {"number": number})
    return runs / (time.perf_counter() - began)


def idle_share(path: Path) -> float:
    """What a worker costs that has nothing to do, on a ledger of runs that are over."""
    worker = nt.Worker(app_in(path), concurrency=32)
    thread = threading.Thread(target=worker.run)
    thread.start()
    # What it does once, when it starts, is not what an idle one costs.
    time.sleep(1)
    used, began = time.process_time(), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    share = (time.process_time() - used) / (time.perf_counter() - began)
    worker.stop()
    thread.join()
    return share


def measure(folder: Path, given: argparse.Namespace) -> dict[str, float]:
    figures = {"one by one, runs/s": one_by_one(folder / "alone.db", min(given.runs, 500))}
    for processes in given.processes:
        path = folder / f"{processes}.db"
        figures["put down, runs/s"] = enqueue(path, given.runs)
        figures[f"{processes} process(es), runs/s"] = by_workers(path, processes, given.concurrency)
    figures["an idle worker, % of one core"] = 100 * idle_share(path)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Short runs a second through workers.")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        nt.Worker(app_in(given.work), concurrency=given.concurrency).run(until_idle=True)
    else:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            figures = measure(Path(folder), given)
        if given.json:
            print(json.dumps(figures))
        else:
            print(f"{given.runs} short runs, {given.concurrency} at once, {os.cpu_count()} cores")
            for name, figure in figures.items():
                print(f"  {name:<32} {figure:10.2f}")


if __name__ == "__main__":
    main()
