"""How does nottwice on PostgreSQL compare with DBOS and Absurd on the same database and work?

Loops of 5 and of 300 steps that each leave 500 bytes, every step durable before the next one. All
use one server, which is started for this and removed afterwards; each has a database, a process
and an environment of its own, and they take turns. Ratios are to raw INSERTs, one transaction
each, in the same round. Only the line with effects records what a step is about to do.

Absurd's tables come as an SQL file of its repository: put it at .venv-peers/absurd.sql, or its
line says that it was not measured.

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
RAW = Subject("raw INSERTs", "postgres_raw", "rows", ("psycopg[binary]>=3.2",))
GRAPH = Subject("nottwice, a graph", "postgres_ours", "graph", OURS_INSTALL)
GUARD = Subject("nottwice, protected effects", "postgres_ours", "guard", OURS_INSTALL)
DBOS = Subject("DBOS", "postgres_dbos", "graph", ("dbos==3.3.0",))
ABSURD = Subject("Absurd", "postgres_absurd", "task", ("absurd-sdk==0.4.0",))


@dataclass
class Figures:
    """What was measured for one subject."""

    subject: Subject
    note: str = ""
    rates: dict[int, list[float]] = field(default_factory=lambda: {SHORT: [], LONG: []})


def measure(rounds: int) -> list[Figures]:
    ENVIRONMENTS.mkdir(exist_ok=True)
    (ENVIRONMENTS / ".built-by-make").touch()
    figures = [Figures(subject) for subject in (RAW, GRAPH, GUARD, DBOS, ABSURD)]
    for one in figures:
        prepare_environment(one.subject)
    server = Server()
    try:
        with tempfile.TemporaryDirectory(prefix="postgres-", dir=ENVIRONMENTS) as folder:
            for number in range(rounds):
                say(f"round {number + 1} of {rounds}")
                for index, one in enumerate(figures):
                    if one.subject is ABSURD and not ABSURD_SQL.exists():
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
    if one.subject is ABSURD:
        shutil.copy(ABSURD_SQL, folder)
    worker = Worker(one.subject, folder)
    one.note = worker.note
    for steps, runs in ((SHORT, SHORT_RUNS), (LONG, LONG_RUNS)):
        worker.run(f"warm-up-{steps}", steps)
        seconds = sum(worker.run(f"run-{steps}-{number}", steps) for number in range(runs))
        one.rates[steps].append(runs * steps / seconds)
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
    row: dict[str, Any] = {"library": one.subject.library, "what": one.note}
    for steps in (SHORT, LONG):
        rates = one.rates[steps]
        ratios = [mine / bare for mine, bare in zip(rates, raw.rates[steps], strict=False)]
        row[f"steps/s, {steps}"] = round(median(rates)) if rates else "-"
        row[f"of raw, {steps}"] = round(median(ratios), 2) if rates else "-"
    return row


if __name__ == "__main__":
    main()
