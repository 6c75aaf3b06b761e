"""Does a call cost more when its run is long? In memory, and in a folder of JSON files.

Both ledgers get a run of 1,000 and of 4,000 calls, and then unsafe calls that are measured, with
500 bytes in and out. The file of a run is written as a whole with each commit, and read to see
whether another process has changed it. So with JSON files a call costs more in a longer run, and
the last line says how much for each MB of the file. The CPU time does not include waiting for the
disk.

    python bench/long_calls.py [--calls 4000] [--folder DIR] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import nottwice as nt

FEW = 1_000
MEASURED = 60
COMMITS = 2
"""An unsafe call is two commits."""
MEGABYTE = 1_000_000


@nt.tool("pure", name="bench_long_look_up")
def look_up(number: int, body: str) -> dict[str, str]:
    """Fill a run. Pure calls are recorded together, which saves a minute."""
    return {"found": "x" * 480}


@nt.tool("unsafe_on_replay", name="bench_long_send")
def send(number: int, body: str) -> dict[str, str]:
    """An effect that takes 500 bytes and returns 500 bytes immediately."""
    return {"receipt": "x" * 480}


def measure(store: str, calls: int) -> dict[str, float]:
    """Return what a call costs in microseconds after that many others."""
    took, worked = [], []
    with nt.Ledger(store) as ledger, ledger.run("long"):
        for number in range(calls):
            look_up(number, "y" * 480)
        for number in range(MEASURED):
            began, work_before = time.perf_counter(), time.process_time()
            send(number, "y" * 480)
            worked.append(time.process_time() - work_before)
            took.append(time.perf_counter() - began)
    return {
        "microseconds": statistics.median(took) * 1e6,
        "microseconds of CPU": statistics.median(worked) * 1e6,
    }


def measure_all(folder: Path, calls: int) -> dict[str, dict[str, float]]:
    figures: dict[str, dict[str, float]] = {}
    for number in (FEW, calls):
        figures[f"in memory, {number:,} calls"] = measure(":memory:", number)
    sizes = []
    for number in (FEW, calls):
        place = folder / str(number)
        figures[f"JSON files, {number:,} calls"] = measure(f"file:{place}", number)
        sizes.append((place / "long.json").stat().st_size / MEGABYTE)
    costs = [figures[f"JSON files, {number:,} calls"] for number in (FEW, calls)]
    more = COMMITS * (sizes[1] - sizes[0])
    figures[f"for each MB of the file, each commit ({sizes[1]:.1f} MB)"] = {
        what: (costs[1][what] - costs[0][what]) / more for what in costs[0]
    }
    return figures


def main() -> int:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=4_000)
    parser.add_argument("--folder", help="folder for the ledgers; /dev/shm leaves out the disk")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.calls <= FEW:
        parser.error(f"--calls must be more than {FEW}")
    load = os.getloadavg()[0]
    if load > 1:
        print(f"Careful: the load is {load:.1f}, so these figures are noisy.", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=options.folder or Path(__file__).parent) as name:
        figures = measure_all(Path(name), options.calls)
    if options.json:
        print(json.dumps(figures, indent=2))
        return 0
    print("\nOne more unsafe call in a long run, 500 bytes in and out:")
    for name, found in figures.items():
        shown = ", ".join(f"{value:>9,.0f} {what}" for what, value in found.items())
        print(f"  {name:<46}{shown}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
