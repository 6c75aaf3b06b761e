"""How fast is the guard, compared with bare SQLite on the same disk in the same run?

(a) is a bare loop that commits twice per call, inline: an intent, then a result. It is the minimum
for recording both. (b) is the raw rate of single-row commits. Both use WAL and synchronous=FULL.
Subjects take turns in short slices, round by round, so that a slow disk slows all of them. Ratios
are medians of the ratio in each round.

    python bench/run.py [--rounds 5] [--calls 400] [--rows 1000000] [--folder DIR] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import values as values_bench

import nottwice as nt

BODY = "y" * 480
# Until every log has been filled once, because overwriting it costs much less than growing it.
WARM_UP_CALLS = 800


@nt.tool("unsafe_on_replay")
def send(to: str, body: str) -> dict[str, str]:
    """An effect that takes 500 bytes and returns 500 bytes immediately."""
    return {"receipt": "x" * 480}


@nt.tool("unsafe_on_replay")
async def send_async(to: str, body: str) -> dict[str, str]:
    """Like ``send``, for an event loop."""
    return {"receipt": "x" * 480}


@nt.tool("pure")
def look_up(to: str, body: str) -> dict[str, str]:
    """Like ``send``, without an effect."""
    return {"found": "x" * 480}


class Subject:
    """Something that makes calls and counts them."""

    def __init__(self, name: str, make: Callable[[int, int], None]) -> None:
        self.name = name
        self._make = make
        self.made = 0
        self.rates: list[float] = []

    def slice(self, calls: int, *, timed: bool = True) -> None:
        began = time.perf_counter()
        self._make(self.made, calls)
        took = time.perf_counter() - began
        self.made += calls
        if timed:
            self.rates.append(calls / took)


class Bare:
    """What a careful person would write without a library."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute(
            "CREATE TABLE calls (id TEXT PRIMARY KEY, args TEXT, status TEXT, result TEXT)"
        )

    def single_commits(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.connection.execute("BEGIN IMMEDIATE")
            self._insert(f"single{number}", "x" * 500)
            self.connection.execute("COMMIT")

    def two_commits(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.connection.execute("BEGIN IMMEDIATE")
            self._insert(f"two{number}", None)
            self.connection.execute("COMMIT")
            self.connection.execute("BEGIN IMMEDIATE")
            self.connection.execute(
                "UPDATE calls SET status = 'DONE', result = ? WHERE id = ?",
                ("x" * 500, f"two{number}"),
            )
            self.connection.execute("COMMIT")

    def _insert(self, name: str, result: str | None) -> None:
        self.connection.execute(
            "INSERT INTO calls VALUES (?, ?, 'PENDING', ?)", (name, BODY, result)
        )


def sequential(folder: Path, rounds: int, calls: int) -> dict[str, Any]:
    """Measure sequential calls of one run, then the same calls replayed, then pure ones."""
    bare = Bare(folder / "bare.db")
    single = Subject("(b) raw single-row commits", bare.single_commits)
    two = Subject("(a) bare two-commit loop", bare.two_commits)
    with nt.run("bench", store=folder / "ours.db"):
        ours = Subject("unsafe calls", _calls(send))
        replayed = Subject("replayed calls", _calls(send))
        pure = Subject("pure calls", _calls(look_up))
        for subject in (single, two, ours):
            subject.slice(WARM_UP_CALLS, timed=False)
        for _ in range(rounds):
            for subject in (single, two, ours, replayed, pure):
                subject.slice(calls)
    subjects = (single, two, ours, replayed, pure)
    return {
        "rates": {subject.name: statistics.median(subject.rates) for subject in subjects},
        "to (a)": _ratio(ours, two),
        "to (b)": _ratio(ours, single),
    }


def sealing(folder: Path, rounds: int, calls: int) -> dict[str, Any]:
    """Measure the same unsafe calls with and without a key: the cost of seals."""
    subjects = []
    for name, key in (("without seals", None), ("with seals", os.urandom(32))):
        ledger = nt.Ledger(folder / f"{name}.db", key=key)
        subjects.append(Subject(name, _calls_of(ledger)))
    plain, sealed = subjects
    for subject in subjects:
        subject.slice(WARM_UP_CALLS, timed=False)
    for _ in range(rounds * 2):
        for subject in subjects:
            subject.slice(calls)
    return {
        "rates": {subject.name: statistics.median(subject.rates) for subject in subjects},
        "ratio": _ratio(sealed, plain),
    }


def _calls_of(ledger: nt.Ledger) -> Callable[[int, int], None]:
    def make(first: int, count: int) -> None:
        with ledger.run(f"bench-{first}"):
            _calls(send)(first, count)

    return make


def _calls(tool: Callable[..., Any]) -> Callable[[int, int], None]:
    def make(first: int, count: int) -> None:
        for number in range(first, first + count):
            tool(to=f"user{number}", body=BODY)

    return make


def _ratio(one: Subject, other: Subject) -> float:
    pairs = zip(one.rates, other.rates, strict=True)
    return statistics.median(ours / theirs for ours, theirs in pairs)


def concurrent(folder: Path, runs: int, rounds: int, calls: int) -> dict[str, Any]:
    """Measure concurrent runs, as threads and as tasks of one event loop, and raw commits."""
    bare = Bare(folder / f"bare{runs}.db")
    path = folder / f"ours{runs}.db"
    each = max(4, calls * 4 // runs)
    single = Subject("raw", bare.single_commits)
    threads = Subject("threads", lambda first, _: _in_threads(path, runs, first, each))
    tasks = Subject("tasks", lambda first, _: asyncio.run(_in_tasks(path, runs, first, each)))
    single.slice(WARM_UP_CALLS, timed=False)
    for subject in (threads, tasks):
        subject.slice(runs * each, timed=False)
    for _ in range(rounds):
        single.slice(calls)
        threads.slice(runs * each)
        tasks.slice(runs * each)
    return {
        "threads": statistics.median(threads.rates),
        "tasks": statistics.median(tasks.rates),
        "threads to (b)": _ratio(threads, single),
        "tasks to (b)": _ratio(tasks, single),
    }


def _in_threads(path: Path, runs: int, first: int, each: int) -> None:
    def drive(run: int) -> None:
        with nt.run(f"thread-{run}", store=path):
            for number in range(each):
                send(to=f"user{first + number}", body=BODY)

    workers = [threading.Thread(target=drive, args=(run,)) for run in range(runs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


async def _in_tasks(path: Path, runs: int, first: int, each: int) -> None:
    async def drive(run: int) -> None:
        async with nt.run(f"task-{run}", store=path):
            for number in range(each):
                await send_async(to=f"user{first + number}", body=BODY)

    await asyncio.gather(*(drive(run) for run in range(runs)))


def growth(folder: Path, rows: int, rounds: int, calls: int) -> dict[str, Any]:
    """Measure the same calls in a ledger of a thousand rows and in a large one, in turns."""
    small, large = folder / "small.db", folder / "large.db"
    subjects = []
    for path, size in ((small, 1_000), (large, rows)):
        nt.Ledger(path).close()
        _fill(path, size)
        _forget(path)
        subjects.append(Subject(f"{size:,} rows", _calls_in(path)))
    for subject in subjects:
        subject.slice(calls, timed=False)
    for _ in range(rounds):
        for subject in subjects:
            subject.slice(calls)
    few, many = subjects
    return {
        few.name: statistics.median(few.rates),
        many.name: statistics.median(many.rates),
        "ratio": _ratio(many, few),
    }


def _calls_in(path: Path) -> Callable[[int, int], None]:
    def make(first: int, count: int) -> None:
        with nt.run("bench", store=path):
            for number in range(first, first + count):
                send(to=f"user{number}", body=BODY)

    return make


def _fill(path: Path, rows: int) -> None:
    """Insert closed runs of 100 calls each directly with SQL, which saves an hour."""
    with sqlite3.connect(path) as connection:
        connection.executemany(
            "INSERT INTO tool_call_results (workflow_id, node_id, checkpoint_id, tool_name, "
            "input_hash, result_json, created_at, call_id, status, replay_class, attempt, "
            "attempt_id, holder_id, args_json, started_at, finished_at, result_kind) VALUES "
            "(?, '/', 'start', 'send', ?, ?, ?, ?, 'DONE', 'unsafe_on_replay', 1, ?, 'h', ?, ?, "
            "?, 'plain')",
            (
                (
                    f"closed-{number // 100}",
                    f"{number:064x}",
                    '{"receipt":"' + "x" * 100 + '"}',
                    number,
                    f"{number:032x}",
                    f"{number:032x}",
                    '{"to":"user"}',
                    number,
                    number,
                )
                for number in range(rows)
            ),
        )
    connection.close()


def _forget(path: Path) -> None:
    """Drop a file from the kernel's cache. Otherwise the large one would be all in memory.

    Only call this while the file is not open: closing it here would drop this process's locks.
    """
    if not hasattr(os, "posix_fadvise"):
        return
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def report(figures: dict[str, Any]) -> None:
    """Print the figures for people."""
    rates = figures["sequential"]["rates"]
    print("\nOne call after the other, 500 bytes in and out:")
    for name, rate in rates.items():
        print(f"  {name:<28}{rate:>10,.0f} /s")
    print(f"  unsafe calls reach {figures['sequential']['to (a)']:.2f} of (a),", end=" ")
    print(f"{figures['sequential']['to (b)']:.2f} of (b)")
    print("\nMany runs in parallel, unsafe calls, beside (b) in the same run:")
    for runs, found in figures["concurrent"].items():
        print(
            f"  {runs:>4} runs: threads {found['threads']:>7,.0f} /s ="
            f" {found['threads to (b)']:.2f} of (b), tasks {found['tasks']:>7,.0f} /s ="
            f" {found['tasks to (b)']:.2f} of (b)"
        )
    print("\nSeals, one call after the other:")
    for name, rate in figures["sealing"]["rates"].items():
        print(f"  {name:<28}{rate:>10,.0f} unsafe calls/s")
    print(f"  ratio {figures['sealing']['ratio']:.3f}")
    grown = dict(figures["growth"])
    ratio = grown.pop("ratio")
    print("\nA ledger that has grown:")
    for name, rate in grown.items():
        print(f"  {name:<28}{rate:>10,.0f} unsafe calls/s")
    print(f"  ratio {ratio:.2f}")


def main() -> int:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=400, help="calls in a slice")
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows of the grown ledger")
    parser.add_argument("--folder", help="folder for the databases; /tmp may be memory")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder or Path(__file__).parent) as name:
        folder = Path(name)
        load = os.getloadavg()[0]
        if load > 1:
            print(f"Careful: the load is {load:.1f}, so these figures are noisy.", file=sys.stderr)
        if not options.json:
            values_bench.main()
        figures = {"sequential": sequential(folder, options.rounds, options.calls)}
        figures["concurrent"] = {
            runs: concurrent(folder, runs, options.rounds, options.calls) for runs in (8, 64, 256)
        }
        figures["sealing"] = sealing(folder, options.rounds, options.calls)
        print("filling a ledger …", file=sys.stderr)
        figures["growth"] = growth(folder, options.rows, options.rounds, options.calls)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        report(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
