"""A ledger of every schema, kept as SQL, and the agent that wrote it.

``python -m tests.store.kept_ledgers`` writes the ledger of the newest schema, once, when its script
is finished. It has a run that is done, a run that waits for a person, a run whose process died in
the middle of an effect, and a graph that waits for an answer. A ledger of a released schema is
never written again, because it stands for the files that users have.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import tempfile
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.guard.upkeep import preview
from nottwice.store.sqlite import schema
from nottwice.store.sqlite import store as sqlite_store
from nottwice.store.sqlite.schema import APPLICATION_ID, known_scripts

FOLDER = Path(__file__).parent / "schemas"
NEWEST = known_scripts()[-1].number
# What a nottwice to come may bring along.
TO_COME = (
    *known_scripts(),
    schema.Script(NEWEST + 1, "ALTER TABLE nottwice_steps ADD COLUMN colour TEXT;\n"),
    schema.Script(
        NEWEST + 2,
        "CREATE TABLE nottwice_colours (name TEXT);\n"
        "CREATE INDEX nottwice_colours_name ON nottwice_colours (name);\n",
    ),
    schema.Script(
        NEWEST + 3,
        "INSERT INTO nottwice_colours SELECT workflow_id FROM nottwice_runs;\n"
        "DROP INDEX nottwice_colours_name;\n",
    ),
)
sent: list[str] = []
"""What the tools did in this process."""
dies: list[str] = []
"""To whom a mail kills the process that sends it."""


@nt.tool("unsafe_on_replay", name="kept_mail")
def mail(to: str) -> str:
    sent.append(to)
    if to in dies:
        os._exit(9)
    return f"mailed {to}"


@nt.tool("idempotent_with_key", key="pay-{order}", window="36500d", name="kept_pay")
def pay(order: int) -> dict[str, int]:
    sent.append(f"order {order}")
    return {"order": order}


def agent(run_id: str, to: str, store: str) -> list[object]:
    with nt.run(run_id, store=store):
        with nt.step("pay"):
            paid = pay(order=len(to))
        with nt.step("tell"):
            return [paid, mail(to=to)]


graph: nt.Graph[dict[str, object]] = nt.Graph("kept-graph", version="1.0.0")


@graph.node
def pay_first(state: dict[str, object]) -> dict[str, object]:
    return {"paid": pay(order=9)}


@graph.node
def ask_then(state: dict[str, object]) -> dict[str, object]:
    return {"size": nt.ask("Which size?", options=["small", "large"])}


@graph.node
def mail_last(state: dict[str, object]) -> dict[str, object]:
    return {"told": mail(to=str(state["size"]))}


def make(path: Path) -> str:
    """The SQL of a ledger, left behind by processes that died."""
    store = str(path)
    agent("done", "ann", store)
    for run_id, to in (("waiting", "bob"), ("in doubt", "cy")):
        _die_in(run_id, to, store)
    with contextlib.suppress(nt.RunBlocked):
        agent("waiting", "bob", store)
    graph.run("graph", {}, store=store)
    return _dump(path)


def _die_in(run_id: str, to: str, store: str) -> None:
    pid = os.fork()
    if pid == 0:
        dies.append(to)
        agent(run_id, to, store)
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 9


def _dump(path: Path) -> str:
    """What the ledger holds, as if its processes had been on a machine of long ago."""
    with (
        contextlib.closing(sqlite3.connect(path)) as ledger,
        contextlib.closing(sqlite3.connect(":memory:")) as copy,
    ):
        ledger.backup(copy)
        copy.execute(
            "UPDATE nottwice_holders SET host = 'long-ago', machine_id = 'long-ago',"
            " boot_id = 'long-ago', pid_namespace = 'long-ago', pid = 1, pid_started = '1'"
        )
        copy.commit()
        marks = f"PRAGMA application_id = {APPLICATION_ID};\nPRAGMA user_version = {NEWEST};"
        return "\n".join([*copy.iterdump(), marks, ""])


def become_a_nottwice_to_come(
    patch: pytest.MonkeyPatch, scripts: tuple[schema.Script, ...] = TO_COME
) -> None:
    """Know more scripts than this nottwice, here and in processes that are forked from now on."""
    for module in (schema, sqlite_store, preview):
        patch.setattr(module, "known_scripts", lambda: scripts)


def restore(number: int, path: Path) -> None:
    """Put the kept ledger of a schema where a process can open it."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((FOLDER / f"{number:04}.sql").read_text(encoding="utf-8"))


def shape(path: Path) -> tuple[int, str, list[str]]:
    """The version of a ledger, whether it is sound, and what its tables look like."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        sound = connection.execute("PRAGMA integrity_check").fetchone()[0]
        tables = connection.execute(
            "SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY 1"
        )
        return version, sound, [row[0] for row in tables]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        text = make(Path(folder) / "agent.db")
    (FOLDER / f"{NEWEST:04}.sql").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
