"""Does a run stay as light as at its start, however long it gets?

Eight graphs run through the public API, as a user writes them, on SQLite with a commit after every
step, each as a plain dict and as a pydantic model. A list grows by 500 bytes per step: it prints
the cost of step 10,000 against step 100, in time and in bytes, and how long versions take to load.
Then a step changes one number beside a list and a dict of records, one record of the list, or one
record of the dict: it prints the cost beside 10,000 records against 100. The node makes a copy of
the list or dict. It is included, and then printed alone, with the ratio of the rest. Everything is
measured ten times within a minute, because a machine that others share is fast and slow by turns.

    python bench/graphs.py [--steps 10000] [--folder DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

import nottwice as nt

EARLY = 100
WINDOW = 60
"""How many steps are taken together: their median counts."""
WINDOWS = 10
"""How many times a step is measured. The least disturbed time counts, early and late."""
LOADS = 15


class State(BaseModel):
    """The typed form of the state that the plain graphs keep in a dict."""

    step: int = 0
    notes: list[str] = []
    records: list[dict[str, Any]] = []
    table: dict[str, dict[str, Any]] = {}


class Cost(NamedTuple):
    """What a visit of the node costs."""

    seconds: float
    cpu_seconds: float
    copy_seconds: float
    """CPU time of the node itself, which is nearly all its copy of a list or dict."""

    @property
    def nottwice_seconds(self) -> float:
        return self.cpu_seconds - self.copy_seconds


Costs = list[Cost]
Change = Callable[[int, Any], dict[str, Any]]
"""What a step changes, given its number and the parts of the state."""


def note(number: int) -> str:
    """About 500 bytes."""
    return f"{number:06d} " + "x" * 490


def record(number: int) -> dict[str, Any]:
    """About 500 bytes with some structure."""
    return {"number": number, "text": note(number)}


def grow(step: int, state: Any) -> dict[str, Any]:
    """Add one note the way most people would write it first."""
    return {"step": step, "notes": [*state["notes"], note(step)]}


def count(step: int, state: Any) -> dict[str, Any]:
    """Change one number, whatever else the state holds."""
    return {"step": step}


def replace_item(step: int, state: Any) -> dict[str, Any]:
    """Change one record of a list, in a copy."""
    records = list(state["records"])
    records[step % len(records)] = record(-step)
    return {"step": step, "records": records}


def replace_value(step: int, state: Any) -> dict[str, Any]:
    """Change one record of a dict, in a copy."""
    return {"step": step, "table": {**state["table"], str(step % EARLY): record(-step)}}


def beside(records: int) -> dict[str, Any]:
    """Return a state with that many records in a list, and as many in a dict."""
    found = [record(number) for number in range(records)]
    table = {str(each["number"]): each for each in found}
    return {"step": 0, "notes": [], "records": found, "table": table}


def measure_size(folder: Path, kind: type, change: Change, records: int) -> dict[str, float]:
    """Compare the cost of the same step beside many records and beside few."""
    given = {size: beside(size) for size in (EARLY, records)}
    runs: dict[int, list[Costs]] = {size: [] for size in given}
    for number in range(WINDOWS):
        for size in given:
            store = folder / f"{kind.__name__}-{change.__name__}-{size}.{number}.db"
            runs[size].append(run_steps(store, kind, change, given[size], EARLY + 1)[1])
    few, many = (least(each) for each in runs.values())
    return compared(f"beside {EARLY} records", few, f"beside {records:,} records", many)


def measure_growing(folder: Path, kind: type, steps: int) -> dict[str, float]:
    """Run one graph whose list grows, and compare the cost of a late step with an early one."""
    store = folder / f"{kind.__name__}-grow.db"
    given = beside(0)
    flow, costs = run_steps(store, kind, grow, given, steps)
    brief = [store.with_suffix(f".{number}.db") for number in range(WINDOWS)]
    early = least([run_steps(each, kind, grow, given, EARLY + 1)[1] for each in brief])
    late = least([costs[: len(costs) - WINDOW * back] for back in range(WINDOWS)])
    added = bytes_of(store) - bytes_of(brief[0])
    return {
        **compared(f"step {EARLY}", early, f"step {steps:,}", late),
        "bytes a step": added / (steps - EARLY - 1),
        **loads(flow, str(store), steps),
    }


def least(runs: list[Costs]) -> Cost:
    """Return the median of the last steps, in the run where it is least: each cost by itself."""
    medians = [map(statistics.median, zip(*each[-WINDOW:], strict=True)) for each in runs]
    return Cost(*map(min, zip(*medians, strict=True)))


def compared(few: str, small: Cost, many: str, large: Cost) -> dict[str, float]:
    """Name the costs of two steps, and how they compare."""
    return {
        f"{few}, microseconds": small.seconds * 1e6,
        f"{many}, microseconds": large.seconds * 1e6,
        "ratio": large.seconds / small.seconds,
        f"{few}, microseconds of CPU": small.cpu_seconds * 1e6,
        f"{few}, of which your own copy": small.copy_seconds * 1e6,
        f"{many}, microseconds of CPU": large.cpu_seconds * 1e6,
        f"{many}, of which your own copy": large.copy_seconds * 1e6,
        "ratio of CPU": large.cpu_seconds / small.cpu_seconds,
        "ratio of CPU without your own copy": large.nottwice_seconds / small.nottwice_seconds,
    }


def run_steps(
    store: Path,
    kind: type,
    change: Change,
    given: dict[str, Any],
    steps: int,
) -> tuple[nt.Graph[Any], Costs]:
    """Run a graph of one node this many times. Return the graph, and the costs of its visits.

    They include the visit's commit. The CPU time shows growth where a slow disk hides it.
    """
    flow = nt.Graph("long", version="1.0.0", state=kind, checkpoints="every_step")
    began: list[Cost] = []

    @flow.node(most=steps, then={"again": "work", "end": nt.END})
    def work(state: Any) -> Any:
        moment, cpu = time.perf_counter(), time.process_time()
        parts = state if isinstance(state, dict) else vars(state)
        step = parts["step"] + 1
        changes = change(step, parts)
        began.append(Cost(moment, cpu, time.process_time() - cpu))
        return nt.goto("again" if step < steps else "end", changes)

    flow.run("long", given, store=str(store))
    return flow, [
        Cost(end.seconds - start.seconds, end.cpu_seconds - start.cpu_seconds, start.copy_seconds)
        for start, end in pairwise(began)
    ]


def bytes_of(store: Path) -> int:
    """Return the size of a ledger after its log was merged into it."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return store.stat().st_size


def loads(flow: nt.Graph[Any], store: str, steps: int) -> dict[str, float]:
    """Measure how long the newest version and others take to load."""
    chance = random.Random(1)
    took: dict[str, list[float]] = {}
    for _ in range(LOADS):
        for name, version in (
            ("the newest", None),
            (f"version {EARLY}", EARLY),
            ("a random one", chance.randrange(steps)),
        ):
            began = time.perf_counter()
            flow.load("long", version, store=store)
            took.setdefault(name, []).append(time.perf_counter() - began)
    return {
        f"loading {name}, milliseconds": statistics.median(each) * 1e3
        for name, each in took.items()
    }


def report(figures: dict[str, dict[str, float]], steps: int) -> None:
    """Print the figures for people."""
    print(f"\nGraph.run with a commit after every step: {steps:,} steps or records against {EARLY}")
    for name, found in figures.items():
        print(f"\n  {name}")
        for what, value in found.items():
            digits = 2 if "ratio" in what or "milliseconds" in what else 0
            print(f"    {what:<46}{value:>12,.{digits}f}")


def main() -> int:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--folder", help="folder for the databases; /tmp may be memory")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    least = EARLY + WINDOW * WINDOWS
    if options.steps < least:
        parser.error(f"--steps must be {least} at least")
    load = os.getloadavg()[0]
    if load > 1:
        print(f"Careful: the load is {load:.1f}, so these figures are noisy.", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=options.folder or Path(__file__).parent) as name:
        kinds: tuple[tuple[str, type], ...] = (("dict", dict), ("typed", State))
        figures = {
            f"a list that grows, {state}": measure_growing(Path(name), kind, options.steps)
            for state, kind in kinds
        } | {
            f"{what}, {state}": measure_size(Path(name), kind, change, options.steps)
            for what, change in (
                ("one number changes", count),
                ("one item of a list changes", replace_item),
                ("one value of a dict changes", replace_value),
            )
            for state, kind in kinds
        }
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        report(figures, options.steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
