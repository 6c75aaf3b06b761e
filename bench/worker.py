"""How many short runs a second go through workers, one process and four?

A run has two nodes, of which one makes one unsafe call that does nothing; so it is four durable
commits: claim, intent, receipt, release. The runs are put down before the workers start, and the
clock runs from the first claim to the last release, both as the ledger has them. Printed beside it:
the same runs one after the other with `graph.run` in one process, and what one idle worker costs.
The ledger is in SQLite; or on a PostgreSQL that --store names, in schemas of its own.

    python bench/worker.py [--runs 2000] [--concurrency 32] [--processes 1 4] [--json]
                           [--store postgresql://…]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import nottwice as nt

IDLE_SECONDS = 5.0


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


def app_in(place: str) -> nt.App:
    return nt.App(graphs=[flow], store=place)


def enqueue(place: str, runs: int) -> float:
    """Put the runs down. Answer: how many a second."""
    inputs = {f"run-{number}": {"number": number} for number in range(runs)}
    began = time.perf_counter()
    app_in(place).enqueue_all("short", inputs)
    return runs / (time.perf_counter() - began)


def by_workers(place: str, processes: int, concurrency: int) -> float:
    """Let workers do all of them. Answer: runs a second."""
    words = [sys.executable, __file__, "--work", place, "--concurrency", str(concurrency)]
    workers = [subprocess.Popen(words) for _ in range(processes)]
    for worker in workers:
        if worker.wait() != 0:
            raise SystemExit("a worker failed")
    with nt.open(place) as ledger:
        runs = ledger.store.runs()
    if any(run.status.value != "completed" for run in runs):
        raise SystemExit("not all runs were completed")
    began = min(run.claimed_at or 0.0 for run in runs)
    return len(runs) / (max(run.updated_at for run in runs) - began)


def one_by_one(place: str, runs: int) -> float:
    """The same runs one after the other, without a worker. Answer: runs a second."""
    app = app_in(place)
    began = time.perf_counter()
    for number in range(runs):
        app.run("short", f"run-{number}", {"number": number})
    return runs / (time.perf_counter() - began)


def idle_share(place: str) -> float:
    """What a worker costs that has nothing to do, on a ledger of runs that are over."""
    worker = nt.Worker(app_in(place), concurrency=32)
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


def measure(given: argparse.Namespace, folder: Path) -> dict[str, float]:
    def place(name: object) -> str:
        if given.store is None:
            return str(folder / f"{name}.db")
        return f"{given.store}{'&' if '?' in given.store else '?'}schema=bench_{folder.name}_{name}"

    figures = {"one by one, runs/s": one_by_one(place("alone"), min(given.runs, 500))}
    for processes in given.processes:
        ledger = place(processes)
        figures["put down, runs/s"] = enqueue(ledger, given.runs)
        how_many = by_workers(ledger, processes, given.concurrency)
        figures[f"{processes} process(es), runs/s"] = how_many
    figures["an idle worker, % of one core"] = 100 * idle_share(ledger)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Short runs a second through workers.")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--store", help="a PostgreSQL, instead of SQLite")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work is not None:
        nt.Worker(app_in(given.work), concurrency=given.concurrency).run(until_idle=True)
    else:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            figures = measure(given, Path(folder))
        if given.json:
            print(json.dumps(figures))
        else:
            print(f"{given.runs} short runs, {given.concurrency} at once, {os.cpu_count()} cores")
            for name, figure in figures.items():
                print(f"  {name:<32} {figure:10.2f}")


if __name__ == "__main__":
    main()
