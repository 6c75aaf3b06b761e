"""What does NottwiceSaver cost beside LangGraph's own savers, on the same disk and server?

One conversation of 300 and of 1,000 steps that grows by 500 characters per step, every step durable
before the next one. It prints steps per second, bytes stored per step, and how long a new process
takes to finish a conversation whose process died before its last step. LangGraph's SqliteSaver
stores the whole conversation at every step, its PostgresSaver too, in compressed form; ours stores
what was added. All use one environment and take turns.

    python bench/langgraph_saver.py [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg
from graph_peers import Worker, disk_bytes
from peers import ENVIRONMENTS, REPOSITORY, Subject, prepare_environment, print_table, say
from postgres_peers import new_database

from tests.postgres.server import Server

INSTALL = (
    "--editable",
    f"{REPOSITORY}[langchain,postgres]",
    "langgraph==1.2.20",
    "langgraph-checkpoint-sqlite==3.1.2",
    "langgraph-checkpoint-postgres==3.2.0",
)
FILE = "langgraph_saver"
# Each subject, and whether it uses the server.
SUBJECTS = {
    Subject("NottwiceSaver, SQLite", FILE, "ours", INSTALL): False,
    Subject("LangGraph SqliteSaver", FILE, "sqlite", INSTALL): False,
    Subject("NottwiceSaver, PostgreSQL", FILE, "ours", INSTALL): True,
    Subject("LangGraph PostgresSaver", FILE, "postgres", INSTALL): True,
}
LENGTHS = (300, 1000)


@dataclass
class Figures:
    """What was measured for one subject."""

    subject: Subject
    rates: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in LENGTHS})
    sizes: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in LENGTHS})
    resumes: dict[int, list[float]] = field(default_factory=lambda: {n: [] for n in LENGTHS})


def measure(rounds: int) -> list[Figures]:
    ENVIRONMENTS.mkdir(exist_ok=True)
    (ENVIRONMENTS / ".built-by-make").touch()
    prepare_environment(next(iter(SUBJECTS)))
    figures = [Figures(subject) for subject in SUBJECTS]
    server = Server()
    try:
        with tempfile.TemporaryDirectory(prefix="savers-", dir=ENVIRONMENTS) as folder:
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                for index, one in enumerate(figures):
                    for steps in LENGTHS:
                        name = f"saver_{number}_{index}_{steps}"
                        url = new_database(server, name) if SUBJECTS[one.subject] else None
                        measure_one(one, steps, Path(folder) / name, url)
    finally:
        server.end()
    return figures


def measure_one(one: Figures, steps: int, place: Path, url: str | None) -> None:
    """Measure a conversation of so many steps, and then one whose process dies."""
    place.mkdir(parents=True)
    if url is not None:
        (place / "url").write_text(url)
    worker = Worker(one.subject, place)
    worker.run("warm-up", 3)
    before = stored(place, url)
    one.rates[steps].append(steps / worker.run("run", steps))
    worker.close()
    one.sizes[steps].append((stored(place, url) - before) / steps)
    Worker(one.subject, place).die("killed", steps)
    worker = Worker(one.subject, place)
    one.resumes[steps].append(worker.run("killed", steps, resumes=True))
    worker.close()


def stored(place: Path, url: str | None) -> int:
    if url is None:
        # Without the log of the database, which is emptied when its last process ends.
        return sum(path.stat().st_size for path in place.glob("*.db")) or disk_bytes(place)
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


def as_row(one: Figures) -> dict[str, Any]:
    row: dict[str, Any] = {"saver": one.subject.library, "what": 'durability="sync"'}
    for steps in LENGTHS:
        row[f"steps/s, {steps}"] = round(median(one.rates[steps]))
        row[f"bytes/step, {steps}"] = round(median(one.sizes[steps]))
    for steps in LENGTHS:
        row[f"resume ms, {steps}"] = round(1000 * median(one.resumes[steps]), 1)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description="savers of LangGraph, side by side")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [as_row(one) for one in measure(options.rounds)]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    headings = list(rows[0])
    print_table([headings, *[[str(row[heading]) for heading in headings] for row in rows]])


if __name__ == "__main__":
    main()
