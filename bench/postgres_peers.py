"""How does nottwice on PostgreSQL compare with DBOS and Absurd on the same database and work?

Loops of 5 and of 300 steps that each store 500 bytes, every step durable before the next one, and
64 concurrent loops of 10 steps in one process. All use one server, which is started for this and
removed afterwards. Each library has its own database, process and environment, and they take turns.
Ratios are to raw INSERTs, one transaction each, with the same concurrency, in the same round.

What is compared: DBOS and Absurd record a step once, after it. A crash in between runs the step
again, so an effect in it may happen twice. A node of our graphs that calls no tool works the same
way, with one commit per step. A protected effect is two commits, because the intent is durable
before the effect. DBOS and Absurd have no such record. The closest that they offer is an additional
step before each step, which is also measured (after a crash, nothing checks it). "a commit" is the
ratio times the commits per step, so that lines with one and with two commits can be compared.

Absurd's tables come as an SQL file in its repository. Put it at .venv-peers/absurd.sql. Otherwise
its lines are marked as not measured.

    python bench/postgres_peers.py [--rounds 3] [--json]
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent))

import psycopg
from graph_peers import LONG, LONG_RUNS, SHORT, SHORT_RUNS, Worker
from peers import ENVIRONMENTS, REPOSITORY, Subject, prepare_environment, print_table, say

from tests.postgres.server import Server

ABSURD_SQL = ENVIRONMENTS / "absurd.sql"
OURS_INSTALL = ("--editable", f"{REPOSITORY}[postgres]")
MANY, MANY_STEPS = 64, 10
RAW = Subject("raw INSERTs", "postgres_raw", "rows", ("psycopg[binary]>=3.2",))
GRAPH = Subject("nottwice, a graph", "postgres_ours", "graph", OURS_INSTALL)
GUARD = Subject("nottwice, protected effects", "postgres_ours", "guard", OURS_INSTALL)
DBOS = Subject("DBOS", "postgres_dbos", "graph", ("dbos==3.3.0",))
DBOS_TWICE = Subject("DBOS, two steps", "postgres_dbos", "twice", DBOS.install)
ABSURD = Subject("Absurd", "postgres_absurd", "task", ("absurd-sdk==0.4.0",))
ABSURD_TWICE = Subject("Absurd, two steps", "postgres_absurd", "twice", ABSURD.install)
COMMITS = {RAW: 1, GRAPH: 1, DBOS: 1, ABSURD: 1, GUARD: 2, DBOS_TWICE: 2, ABSURD_TWICE: 2}
"""How many commits a step takes."""


@dataclass
class Figures:
    """What was measured for one subject."""

    subject: Subject
    note: str = ""
    rates: dict[int, list[float]] = field(default_factory=lambda: {SHORT: [], LONG: [], MANY: []})


def measure(rounds: int) -> list[Figures]:
    ENVIRONMENTS.mkdir(exist_ok=True)
    (ENVIRONMENTS / ".built-by-make").touch()
    figures = [Figures(subject) for subject in COMMITS]
    for one in figures:
        prepare_environment(one.subject)
    server = Server()
    try:
        with tempfile.TemporaryDirectory(prefix="postgres-", dir=ENVIRONMENTS) as folder:
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                for index, one in enumerate(figures):
                    if one.subject.file == ABSURD.file and not ABSURD_SQL.exists():
                        one.note = f"not measured: there is no {ABSURD_SQL.name}"
                        continue
                    name = f"bench_{number}_{index}"
                    measure_round(one, Path(folder) / name, new_database(server, name))
    finally:
        server.end()
    return figures


def new_database(server: Server, name: str) -> str:
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(
            psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name))
        )
    return server.url.replace("/postgres?", f"/{name}?")


def measure_round(one: Figures, folder: Path, url: str) -> None:
    folder.mkdir(parents=True)
    (folder / "url").write_text(url)
    if one.subject.file == ABSURD.file:
        shutil.copy(ABSURD_SQL, folder)
    worker = Worker(one.subject, folder)
    one.note = worker.note
    for steps, runs in ((SHORT, SHORT_RUNS), (LONG, LONG_RUNS)):
        worker.run(f"warm-up-{steps}", steps)
        seconds = sum(worker.run(f"run-{steps}-{number}", steps) for number in range(runs))
        one.rates[steps].append(runs * steps / seconds)
    worker.run_together("warm-up-many", 2, at_once=MANY)
    seconds = worker.run_together("run-many", MANY_STEPS, at_once=MANY)
    one.rates[MANY].append(MANY * MANY_STEPS / seconds)
    worker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="nottwice and its peers on PostgreSQL")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    raw, *others = measure(options.rounds)
    rows = [as_row(one, raw) for one in (raw, *others)]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    headings = list(rows[0])
    print_table([headings, *[[str(row[heading]) for heading in headings] for row in rows]])


def as_row(one: Figures, raw: Figures) -> dict[str, Any]:
    commits = COMMITS[one.subject]
    row: dict[str, Any] = {"library": one.subject.library, "what": one.note, "commits": commits}
    for steps, title in ((SHORT, "5"), (LONG, "300"), (MANY, "64 in parallel")):
        rates = one.rates[steps]
        ratios = [mine / bare for mine, bare in zip(rates, raw.rates[steps], strict=False)]
        row[f"{title}: steps/s"] = round(median(rates)) if rates else "-"
        row[f"{title}: of raw"] = round(median(ratios), 2) if rates else "-"
        row[f"{title}: a commit"] = round(commits * median(ratios), 2) if rates else "-"
    return row


if __name__ == "__main__":
    main()
