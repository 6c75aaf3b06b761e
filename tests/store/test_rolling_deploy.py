"""Two versions of nottwice use one ledger during a deploy, and no effect happens twice. (P225)

The newer version is this one with one more script, one more column and one more table: a copy of
the whole package, imported by processes of its own. So the older version here is the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.store.migrations import ADDITIVE
from nottwice.store.postgres import schema as postgres_schema
from nottwice.store.sqlite import schema as sqlite_schema
from tests.postgres import server

SOURCE = Path(nt.__file__).parent
PROGRAM = """
import os, signal, sys
import nottwice as nt

SENT, DIES = sys.argv[3], sys.argv[4]

@nt.tool("unsafe_on_replay", name="rolling_mail", verify=lambda call: nt.happened("found"))
def mail(to: str) -> str:
    with open(SENT, "a") as log:
        log.write(f"{to}\\n")
    if to == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    if to == "pause":
        print("inside", flush=True)
        sys.stdin.readline()
    return f"mailed {to}"

with nt.Ledger(sys.argv[1]) as ledger:
    with ledger.run(sys.argv[2], tags={"customer": "acme"}, acquire_timeout="30s"):
        for to in sys.argv[5:]:
            print(mail(to=to), flush=True)
"""


class Deploy:
    """One ledger, and processes of two versions."""

    def __init__(self, folder: Path, place: str) -> None:
        self.folder, self.place = folder, place
        self.sent = folder / "sent"
        self.program = folder / "program.py"
        self.program.write_text(PROGRAM)
        self.newer = folder / "newer"

    def release(self, *, additive: bool) -> None:
        """Make the newer version: a script, a table, and a column of runs that it writes."""
        shutil.copytree(SOURCE, self.newer / "nottwice")
        mark = ADDITIVE if additive else "-- Changes everything."
        tables = self.newer / "nottwice" / "store" / "tables.py"
        text = tables.read_text()
        column = 'field(Column("group_id", Type.TEXT, True), "group"),'
        assert column in text
        # The first table that has it is that of runs.
        tables.write_text(
            text.replace(column, column + '\n        _text("colour", optional=True),', 1)
        )
        run = self.newer / "nottwice" / "model" / "run.py"
        text = run.read_text()
        known = "    group: str | None = None\n"
        assert known in text
        run.write_text(text.replace(known, known + '    colour: str | None = "red"\n'))
        for kind, prefix, scripts in (
            ("sqlite", "nottwice_", sqlite_schema.known_scripts()),
            ("postgres", "nottwice.", postgres_schema.known_scripts()),
        ):
            folder = self.newer / "nottwice" / "store" / "sql" / kind
            (folder / f"{len(scripts) + 1:04}_colours.sql").write_text(
                f"{mark}\nALTER TABLE {prefix}runs ADD COLUMN colour text;\n"
                f"CREATE TABLE {prefix}colours (name text);\n"
            )

    def start(self, version: str, run: str, *to: str, dies: str = "") -> subprocess.Popen[str]:
        source = self.newer if version == "newer" else SOURCE.parent
        return subprocess.Popen(
            [sys.executable, self.program, self.place, run, self.sent, dies, *to],
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, version: str, run: str, *to: str, dies: str = "") -> tuple[int, str]:
        process = self.start(version, run, *to, dies=dies)
        said, error = process.communicate("\n", timeout=60)
        return process.returncode, said + error

    def mails(self) -> list[str]:
        return self.sent.read_text().split()

    def colours(self) -> dict[str, Any]:
        if self.place.startswith("postgresql"):
            schema = server.schema_for(self.folder)
            with server.connected() as connection:
                rows = connection.execute(
                    f"SELECT workflow_id, colour FROM {schema}.runs".encode()
                ).fetchall()
            return dict(rows)
        if self.place.startswith("file:"):
            files = sorted((self.folder / "runs").glob("*.json"))
            plain = [json.loads(file.read_text()) for file in files]
            return {one["workflow_id"]: one["run"][0].get("colour") for one in plain}
        with closing(sqlite3.connect(self.place)) as connection:
            return dict(connection.execute("SELECT workflow_id, colour FROM nottwice_runs"))


@pytest.fixture(params=["sqlite", "postgres", "files"])
def deploy(request: pytest.FixtureRequest, tmp_path: Path) -> Deploy:
    match request.param:
        case "sqlite":
            place = str(tmp_path / "a.db")
        case "postgres":
            place = server.ledger_url(tmp_path, lease_seconds=1)
        case _:
            place = f"file:{tmp_path / 'runs'}"
    return Deploy(tmp_path, place)


def test_old_and_new_processes_share_a_ledger_that_was_brought_forward_under_a_living_one(
    deploy: Deploy,
) -> None:
    deploy.release(additive=True)
    old = deploy.start("older", "living", "ann", "pause", "bob")
    assert old.stdout is not None
    assert old.stdout.readline() == "mailed ann\n"
    assert old.stdout.readline() == "inside\n"
    # The newer one brings the ledger forward while the older one is in the middle of an effect.
    assert deploy.run("newer", "new", "cy") == (0, "mailed cy\n")
    assert deploy.colours()["new"] == "red"
    said, error = old.communicate("\n", timeout=60)
    assert (old.returncode, said, error) == (0, "mailed pause\nmailed bob\n", "")
    # An older process that starts now uses it, too, and each resumes what the other began.
    assert deploy.run("older", "old again", "dan") == (0, "mailed dan\n")
    assert deploy.run("older", "new", "cy", "eve") == (0, "mailed cy\nmailed eve\n")
    assert deploy.run("newer", "living", "ann", "bob", "fay")[0] == 0
    killed, _ = deploy.run("older", "killed", "gil", dies="gil")
    assert killed == -signal.SIGKILL
    assert deploy.run("newer", "killed", "gil", "hal") == (0, "found\nmailed hal\n")
    killed, _ = deploy.run("newer", "killed 2", "ida", dies="ida")
    assert killed == -signal.SIGKILL
    assert deploy.run("older", "killed 2", "ida") == (0, "found\n")
    assert sorted(deploy.mails()) == sorted(set(deploy.mails()))
    # What the older one does not know, it leaves as it is.
    assert deploy.colours()["new"] == "red"
    with nt.Ledger(deploy.place) as ledger:
        tagged = {run.id for run in ledger.runs(tags={"customer": "acme"})}
        assert tagged == {"living", "new", "old again", "killed", "killed 2"}
        openings = ledger.run_record("killed 2").openings or ()
        assert [one.ended for one in openings][-1] == "completed"


@pytest.mark.parametrize("deploy", ["sqlite", "postgres"], indirect=True)
def test_a_ledger_that_needs_newer_code_is_refused_and_not_made_under_a_living_process(
    deploy: Deploy,
) -> None:
    deploy.release(additive=False)
    old = deploy.start("older", "living", "pause", "bob")
    assert old.stdout is not None
    assert old.stdout.readline() == "inside\n"
    status, said = deploy.run("newer", "new", "cy")
    assert status != 0
    assert "Stop these processes first: pid " in said
    out, error = old.communicate("\n", timeout=60)
    assert (old.returncode, out, error) == (0, "mailed pause\nmailed bob\n", "")
    if "postgres" in deploy.place:
        # Its lease ends a moment after its process.
        status, said = deploy.run("newer", "new", "cy")
        while "Stop these processes first" in said:
            status, said = deploy.run("newer", "new", "cy")
    else:
        status, said = deploy.run("newer", "new", "cy")
    assert (status, said) == (0, "mailed cy\n")
    status, said = deploy.run("older", "late", "dan")
    assert status != 0
    assert "Upgrade nottwice here, too" in said
    assert sorted(deploy.mails()) == ["bob", "cy", "pause"]
