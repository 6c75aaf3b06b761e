"""How many short runs per second can workers complete, with one process and with four?

A run has two nodes. One of them makes one unsafe call that does nothing. That is four durable
commits: claim, intent, receipt, release. The runs are enqueued before the workers start. The time
is measured from the first claim to the last release, both as recorded in the ledger. For
comparison, it prints the same runs one after the other with `graph.run` in one process, and the
cost of one idle worker. The ledger is in SQLite, or in new schemas on a PostgreSQL that --store
names.

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
    """Do nothing, so that only our own cost is measured."""
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
    """Enqueue the runs. Return how many per second."""
    inputs = {f"run-{number}": {"number": number} for number in range(runs)}
    began = time.perf_counter()
    app_in(place).enqueue_all("short", inputs)
    return runs / (time.perf_counter() - began)


def by_workers(place: str, processes: int, concurrency: int) -> float:
    """Let workers run all of them. Return runs per second."""
    words = [sys.executable, __file__, "--work", place, "--concurrency", str(concurrency)]
    workers = [subprocess.Popen(words) for _ in range(processes)]
    for worker in workers:
        if worker.wait() != 0:
            raise SystemExit("a worker failed")
    with nt.Ledger(place) as ledger:
        runs = ledger.store.runs()
    if any(run.status.value != "completed" for run in runs):
        raise SystemExit("not all runs were completed")
    began = min(run.claimed_at or 0.0 for run in runs)
    return len(runs) / (max(run.updated_at for run in runs) - began)


def one_by_one(place: str, runs: int) -> float:
    """Run the same runs one after the other, without a worker. Return runs per second."""
    app = app_in(place)
    began = time.perf_counter()
    for number in range(runs):
        app.run("short", f"run-{number}", {"number": number})
    return runs / (time.perf_counter() - began)


def idle_share(place: str) -> float:
    """Return the cost of an idle worker, on a ledger of finished runs."""
    worker = nt.Worker(app_in(place), concurrency=32)
    thread = threading.Thread(target=worker.run)
    thread.start()
    # Exclude what it does once at its start.
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
        figures["enqueue, runs/s"] = enqueue(ledger, given.runs)
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
            print(f"{given.runs} short runs, {given.concurrency} parallel, {os.cpu_count()} cores")
            for name, figure in figures.items():
                print(f"  {name:<32} {figure:10.2f}")


if __name__ == "__main__":
    main()
