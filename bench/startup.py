"""How long does a program take to start, and how long a command?

Each line is a new process with compiled modules, as after an installation. Beside it is a Python
that does nothing, which is the lower limit. Processes take turns, round by round, and the fastest
round of each counts, because other load on the machine can only add to it. CPU time is what the
process itself used; the wall clock includes what others did meanwhile.

    python bench/startup.py [--rounds 10] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PEERS = REPOSITORY / ".venv-peers"

FIRST_CALL = """
import nottwice as nt

@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int) -> dict:
    return {"refunded": cents}

with nt.run("ticket-%d", store="agent.db"):
    refund(order_id=7, cents=4000)
"""
COUNT = "\nimport sys; print(len(sys.modules))"
COMMAND = "import sys; from nottwice.cli.main import main; sys.argv[0] = 'nottwice'; main()"


@dataclass
class Subject:
    """A program that is started again and again."""

    name: str
    source: str
    words: tuple[str, ...] = ()
    python: str = sys.executable
    wall_seconds: float = float("inf")
    cpu_seconds: float = float("inf")

    def start(self, folder: Path, number: int) -> None:
        """Run it once, and keep the times if they are the best so far."""
        source = self.source.replace("%d", str(number))
        before, began = children_seconds(), time.perf_counter()
        subprocess.run(
            [self.python, "-c", source, *self.words],
            cwd=folder,
            env=environment(folder),
            stdout=subprocess.DEVNULL,
            check=True,
        )
        took = time.perf_counter() - began
        used = children_seconds() - before
        self.wall_seconds = min(self.wall_seconds, took)
        self.cpu_seconds = min(self.cpu_seconds, used)

    def modules(self, folder: Path) -> int | None:
        """How many modules it loads. None for a command, which ends its process itself."""
        if self.words:
            return None
        ran = subprocess.run(
            [self.python, "-c", self.source.replace("%d", "0") + COUNT],
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            check=True,
        )
        return int(ran.stdout)


def children_seconds() -> float:
    """The CPU time of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment(folder: Path) -> dict[str, str]:
    """Modules are compiled once, whatever the environment says, and into a folder of our own."""
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def peer(name: str, module: str) -> Subject | None:
    """A similar library, if `make bench-peers` has installed it."""
    for python in sorted(PEERS.glob("*/bin/python")):
        found = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
        if found.returncode == 0:
            return Subject(name, f"import {module}", python=str(python))
    return None


def subjects() -> tuple[Subject, ...]:
    """What is measured, in the order in which it is printed."""
    return (
        Subject("python, nothing else", "pass"),
        Subject("import nottwice", "import nottwice"),
        Subject("import the guard", "import nottwice as nt; nt.tool, nt.run"),
        Subject("the first protected call", FIRST_CALL),
        Subject("import pydantic", "from pydantic import BaseModel"),
        Subject("nottwice --help", COMMAND, ("--help",)),
        Subject("nottwice runs", COMMAND, ("runs", "--store", "agent.db")),
        Subject("nottwice show", COMMAND, ("show", "ticket-0", "--store", "agent.db")),
    )


def main() -> None:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    wanted = (("LangGraph", "langgraph.graph"), ("DBOS", "dbos"))
    peers = {module: peer(f"import {module} ({name})", module) for name, module in wanted}
    measured = [*subjects(), *(one for one in peers.values() if one is not None)]
    with tempfile.TemporaryDirectory(prefix="nottwice-bench-") as scratch:
        folder = Path(scratch)
        counts = [one.modules(folder) for one in measured]
        for number in range(1, options.rounds + 1):
            for one in measured:
                one.start(folder, number)
    if options.json:
        figures = {
            one.name: {"wall": one.wall_seconds, "cpu": one.cpu_seconds, "modules": count}
            for one, count in zip(measured, counts, strict=True)
        }
        print(json.dumps(figures, indent=2))
        return
    print(f"Starting, the best of {options.rounds}:")
    for one, count in zip(measured, counts, strict=True):
        loaded = "" if count is None else f"{count:>7,} modules"
        cpu, wall = one.cpu_seconds * 1000, one.wall_seconds * 1000
        print(f"  {one.name:<38}{cpu:>7.0f} ms CPU{wall:>8.0f} ms{loaded}")
    missing = [module for module, one in peers.items() if one is None]
    if missing:
        print(f"  Not installed, so left out: {', '.join(missing)} (make bench-peers).")


if __name__ == "__main__":
    main()
