"""How does a nottwice graph compare with LangGraph and DBOS on the same loop, on the same disk?

Loops of 5 and of 300 steps that each add 500 bytes, every step durable before the next one. It
prints steps per second, bytes on disk per step, and how long a new process takes to finish a run
whose process died before its last step. Each library works in its own environment, and they take
turns. Note the difference: only the line with effects protects what a step does.

Then what a step costs, in time, CPU time and bytes, as the state gets large. A list grows by 500
bytes per step, written as `[*notes, note]`: step 100, and step 10,000 or the last one that was
reached within a minute. One number changes beside a dict of records, or one record of that dict,
written as `{**table, key: record}`: beside 100 records, and beside 10,000.

    python bench/graph_peers.py [--rounds 3] [--late 10000] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import IO, Any, cast

sys.path.insert(0, str(Path(__file__).parent))

from peers import (
    ENVIRONMENTS,
    PEER_FILES,
    REPOSITORY,
    Subject,
    prepare_environment,
    print_table,
    say,
)

OURS = Subject("nottwice", "graph_ours", "graph", ("--editable", str(REPOSITORY)))
EFFECTS = Subject("nottwice, with an effect", "graph_ours", "effects", OURS.install)
LANGGRAPH = Subject(
    "LangGraph SqliteSaver",
    "graph_langgraph",
    "graph",
    ("langgraph==1.2.20", "langgraph-checkpoint-sqlite==3.1.2"),
)
DBOS = Subject("DBOS on SQLite", "graph_dbos", "graph", ("dbos==3.3.0",))
SUBJECTS = (OURS, EFFECTS, LANGGRAPH, DBOS)
CHANGING = (OURS, LANGGRAPH, DBOS)
EARLY = 100
SHORT, LONG = 5, 300
SHORT_RUNS, LONG_RUNS = 20, 2


@dataclass
class Figures:
    """What was measured for one subject."""

    subject: Subject
    note: str = ""
    rates: dict[int, list[float]] = field(default_factory=lambda: {SHORT: [], LONG: []})
    bytes_per_step: dict[int, list[float]] = field(default_factory=lambda: {SHORT: [], LONG: []})
    resumes: list[float] = field(default_factory=list)


class Worker:
    """A process of one subject, on one folder."""

    def __init__(self, subject: Subject, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._errors = (folder / "stderr.txt").open("w+")
        file = PEER_FILES / f"{subject.file}.py"
        self._process = subprocess.Popen(
            [str(subject.python), str(file), subject.opener, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self.note: str = self._answer()["note"]

    def run(self, run_id: str, steps: int, *, resumes: bool = False) -> float:
        asked = {"id": run_id, "steps": steps, **({"resumes": True} if resumes else {})}
        seconds: float = self._ask(asked)["seconds"]
        return seconds

    def reach(self, run_id: str, steps: int, *, beside: int = 0) -> dict[str, Any]:
        """Run a loop as far as time allows. Return what its last step cost, and its number."""
        return self._ask({"id": run_id, "steps": steps, "beside": beside})

    def run_together(self, run_id: str, steps: int, *, at_once: int) -> float:
        """Run that many runs concurrently in that process."""
        seconds: float = self._ask({"id": run_id, "steps": steps, "at_once": at_once})["seconds"]
        return seconds

    def die(self, run_id: str, steps: int) -> None:
        """Run a loop whose process dies before its last step."""
        self._send({"id": run_id, "steps": steps, "dies": steps - 1})
        self._process.wait(120)

    def close(self) -> None:
        cast(IO[str], self._process.stdin).close()
        self._process.wait(60)
        self._errors.close()

    def _ask(self, document: dict[str, Any]) -> dict[str, Any]:
        self._send(document)
        return self._answer()

    def _send(self, document: dict[str, Any]) -> None:
        requests = cast(IO[str], self._process.stdin)
        requests.write(json.dumps(document) + "\n")
        requests.flush()

    def _answer(self) -> dict[str, Any]:
        line = cast(IO[str], self._process.stdout).readline()
        if not line:
            self._errors.seek(0)
            raise SystemExit(f"a peer ended without an answer: {self._errors.read()[-2000:]}")
        answer: dict[str, Any] = json.loads(line)
        return answer


def measure(rounds: int) -> list[Figures]:
    ENVIRONMENTS.mkdir(exist_ok=True)
    (ENVIRONMENTS / ".built-by-make").touch()
    for subject in SUBJECTS:
        prepare_environment(subject)
    figures = [Figures(subject) for subject in SUBJECTS]
    with tempfile.TemporaryDirectory(prefix="graphs-", dir=ENVIRONMENTS) as folder:
        for number in range(rounds):
            say(f"round {number + 1} of {rounds}")
            for one in figures[number % len(figures) :] + figures[: number % len(figures)]:
                measure_round(
                    one, Path(folder) / f"{number}-{one.subject.file}-{one.subject.opener}"
                )
    return figures


def measure_round(one: Figures, place: Path) -> None:
    for steps, runs in ((SHORT, SHORT_RUNS), (LONG, LONG_RUNS)):
        folder = place / str(steps)
        worker = Worker(one.subject, folder)
        one.note = worker.note
        worker.run("warm-up", steps)
        seconds = sum(worker.run(f"run-{number}", steps) for number in range(runs))
        worker.close()
        one.rates[steps].append(runs * steps / seconds)
        one.bytes_per_step[steps].append(disk_bytes(folder) / ((runs + 1) * steps))
    folder = place / "resume"
    Worker(one.subject, folder).die("killed", LONG)
    worker = Worker(one.subject, folder)
    one.resumes.append(worker.run("killed", LONG, resumes=True))
    worker.close()


def measure_changes(late: int) -> list[dict[str, Any]]:
    """Compare the cost of a step with a large state and with a small one, in separate runs."""
    found = []
    with tempfile.TemporaryDirectory(prefix="changes-", dir=ENVIRONMENTS) as name:
        for what, change in (
            ("a list grows", "grow"),
            ("one number changes", "count"),
            ("one record of a dict changes", "replace"),
        ):
            for subject in CHANGING:
                say(f"{what}: {subject.library}")
                opened = replace(subject, opener=change)
                small, large = (measure_change(opened, Path(name), size) for size in (EARLY, late))
                found.append({"what": what, "library": subject.library, **compare(small, large)})
    return found


def measure_change(subject: Subject, folder: Path, size: int) -> dict[str, Any]:
    """Return what a step costs at step ``size`` of a list, or beside ``size`` records of a dict."""
    steps, beside = (size, 0) if subject.opener == "grow" else (EARLY, size)
    costs = []
    for until in (2, steps):
        place = folder / f"{subject.file}-{subject.opener}-{size}-{until}"
        worker = Worker(subject, place)
        costs.append(worker.reach("run", until, beside=beside))
        worker.close()
        costs[-1]["bytes"] = disk_bytes(place)
    few, many = costs
    added = (many["bytes"] - few["bytes"]) / (many["step"] - few["step"])
    return {**many, "beside": beside, "bytes/step": round(added)}


def compare(small: dict[str, Any], large: dict[str, Any]) -> dict[str, Any]:
    return {
        "small": size_of(small),
        "ms": round(small["seconds"] * 1000, 2),
        "CPU ms": round(small["cpu_seconds"] * 1000, 2),
        "bytes/step": small["bytes/step"],
        "large": size_of(large),
        "ms, large": round(large["seconds"] * 1000, 2),
        "CPU ms, large": round(large["cpu_seconds"] * 1000, 2),
        "bytes/step, large": large["bytes/step"],
        "ratio": round(large["seconds"] / small["seconds"], 2),
        "ratio of CPU": round(large["cpu_seconds"] / small["cpu_seconds"], 2),
    }


def size_of(found: dict[str, Any]) -> str:
    return f"{found['beside']:,} records" if found["beside"] else f"step {found['step']:,}"


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.name != "stderr.txt")


def main() -> None:
    parser = argparse.ArgumentParser(description="graphs of nottwice and its peers, side by side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--late", type=int, default=10_000, help="how long the list, and how large the dict gets"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tables = [[as_row(one) for one in measure(options.rounds)], measure_changes(options.late)]
    if options.json:
        print(json.dumps({"loops": tables[0], "changes": tables[1]}, indent=2))
        return
    for rows in tables:
        headings = list(rows[0])
        print_table([headings, *[[str(row[heading]) for heading in headings] for row in rows]])


def as_row(one: Figures) -> dict[str, Any]:
    return {
        "library": one.subject.library,
        "what": one.note,
        f"steps/s, {SHORT}": round(median(one.rates[SHORT])),
        f"steps/s, {LONG}": round(median(one.rates[LONG])),
        f"bytes/step, {SHORT}": round(median(one.bytes_per_step[SHORT])),
        f"bytes/step, {LONG}": round(median(one.bytes_per_step[LONG])),
        "resume ms": round(1000 * median(one.resumes), 1),
    }


if __name__ == "__main__":
    main()
