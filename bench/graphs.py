"""Does a run stay as light as it was at its beginning, however long it gets?

A run saves a version after every step, each in a commit of its own, in SQLite with WAL and
synchronous=FULL. Every step adds 500 bytes to a list in its state. Printed are ratios: what step
10,000 costs against step 100, in bytes and in time, and how long versions take to load, beside the
same state read from one text. A young run and an old one take turns, so that a machine that slows
down slows both. The step is measured twice: with the change known, as a graph that appends knows
it, and with the change to be found by a comparison of the states.

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
from pathlib import Path
from typing import Any

from nottwice.engine import history
from nottwice.model import values
from nottwice.model.checkpoint import Saved, pack, save
from nottwice.model.delta import diff, grown, of_keys
from nottwice.model.run import Fence, RunRecord, RunStatus
from nottwice.store.interface import Claim, Commit
from nottwice.store.sqlite import SqliteStore

RUN = "long"
EARLY_STEPS = 100
TURNS = 200
LOADS = 15


def message(number: int) -> dict[str, Any]:
    """About 500 bytes, as an agent would add them."""
    return {"role": "tool", "number": number, "text": "x" * 450}


class Run:
    """A run that saves a version a step, as the loop of a graph does."""

    def __init__(self, path: Path, *, known: bool) -> None:
        self.path = path
        self.store = SqliteStore(path, now=time.time())
        holder_id = self.store.holder().holder_id
        now = time.time()
        record = RunRecord(RUN, RunStatus.RUNNING, 1, holder_id, now, now, now)
        self.store.commit(Commit(workflow_id=RUN, claim=Claim(record)))
        self._fence = Fence(holder_id, 1)
        self._known = known
        self._saved: Saved | None = None
        self._image: Any = {"state": {"messages": []}, "position": {"visit": 0}}
        self._save(self._image, None)

    def step(self, number: int) -> tuple[float, float]:
        """One step. Answer: what saving took without the commit, and with it, in seconds."""
        added = [message(number)]
        old = self._image
        before = old["state"]["messages"]
        new = {
            "state": {**old["state"], "messages": [*before, *added]},
            "position": {"visit": number},
        }
        began = time.perf_counter()
        changed = None
        if self._known:
            state = of_keys({"messages": grown(len(before), added)})
            position = diff(old["position"], new["position"])
            changed = of_keys({"state": state, "position": position})
        return self._save(new, changed, began=began)

    def bytes_on_disk(self) -> int:
        with sqlite3.connect(self.path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        return self.path.stat().st_size

    def _save(self, image: Any, changed: Any, *, began: float = 0.0) -> tuple[float, float]:
        record, self._saved = save(
            self._saved,
            workflow_id=RUN,
            node_id="work",
            old=self._image,
            new=image,
            changed=changed,
            now=time.time(),
        )
        checkpoints = {record.version: record}
        packed = pack(self._saved)
        if packed is not None:
            checkpoints.update((one.version, one) for one in packed[0])
            self._saved = packed[1]
        saved = time.perf_counter()
        together = tuple(checkpoints.values())
        self.store.commit(Commit(workflow_id=RUN, fence=self._fence, checkpoints=together))
        self._image = image
        return saved - began, time.perf_counter() - began


def measure(folder: Path, steps: int, *, known: bool) -> dict[str, Any]:
    """A young run and an old one, each with the step that comes next."""
    young, old = (Run(folder / f"{known}-{age}.db", known=known) for age in ("young", "old"))
    empty = young.bytes_on_disk()
    for run, count in ((young, EARLY_STEPS), (old, steps)):
        for number in range(1, count + 1):
            run.step(number)
    early = (young.bytes_on_disk() - empty) / EARLY_STEPS
    late = (old.bytes_on_disk() - empty) / steps
    took = [
        (young.step(EARLY_STEPS + turn), old.step(steps + turn)) for turn in range(1, TURNS + 1)
    ]
    figures = {
        "snapshots": sum(one.is_snapshot for one in old.store.checkpoints(RUN)),
        "bytes a step, early": early,
        "bytes a step, late": late,
        "bytes ratio": late / early,
        **_times("saving", [one[0] for one, _ in took], [other[0] for _, other in took]),
        **_times("step", [one[1] for one, _ in took], [other[1] for _, other in took]),
        **_loads(old.store, steps),
    }
    young.store.close()
    old.store.close()
    return figures


def _times(name: str, early: list[float], late: list[float]) -> dict[str, float]:
    before, after = statistics.median(early), statistics.median(late)
    return {
        f"{name} early, microseconds": before * 1e6,
        f"{name} late, microseconds": after * 1e6,
        f"{name} ratio": after / before,
        # Of the means, because now and then a step packs what the last ones saved.
        f"{name} ratio of means": statistics.fmean(late) / statistics.fmean(early),
    }


def _loads(store: SqliteStore, steps: int) -> dict[str, float]:
    chance = random.Random(1)
    whole = values.encode(history.load(store, RUN))
    took: dict[str, list[float]] = {}
    for _ in range(LOADS):
        for name, version in (
            ("latest", None),
            (f"version {EARLY_STEPS}", EARLY_STEPS),
            ("random version", chance.randrange(steps)),
        ):
            began = time.perf_counter()
            history.load(store, RUN, version)
            took.setdefault(name, []).append(time.perf_counter() - began)
        began = time.perf_counter()
        values.decode(whole)
        took.setdefault("the same from one text", []).append(time.perf_counter() - began)
    return {
        f"load {name}, milliseconds": statistics.median(each) * 1e3 for name, each in took.items()
    }


def report(figures: dict[str, Any], steps: int) -> None:
    """The figures as a person reads them."""
    print(f"\nA state that grows by 500 bytes a step, step {steps:,} against step {EARLY_STEPS}:")
    for name, found in figures.items():
        print(f"\n  {name}")
        for what, value in found.items():
            digits = 0 if what == "snapshots" or "bytes a step" in what else 2
            print(f"    {what:<42}{value:>12,.{digits}f}")


def main() -> int:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--folder", help="where the databases lie; /tmp may be memory")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.steps < EARLY_STEPS:
        parser.error(f"--steps must be {EARLY_STEPS} at least")
    load = os.getloadavg()[0]
    if load > 1:
        print(f"Careful: the load is {load:.1f}, so these figures are noisy.", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=options.folder or Path(__file__).parent) as name:
        figures = {
            "change known": measure(Path(name), options.steps, known=True),
            "change found by comparison": measure(Path(name), options.steps, known=False),
        }
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        report(figures, options.steps)
    return 0


if __name__ == "__main__":
    sys.exit(main())
