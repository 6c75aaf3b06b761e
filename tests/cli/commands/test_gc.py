"""What does `nottwice gc` remove, tell and refuse?"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import nottwice as nt
from nottwice.cli.commands import gc
from nottwice.cli.main import main
from nottwice.cli.render.ticker import Ticker
from nottwice.engine.upkeep.retention import RemovalReport
from nottwice.store.sqlite.store import SqliteStore
from nottwice.views.documents import DOCUMENTS, SHAPES
from nottwice.views.shape import meanings
from tests.fakes import FakeClock


@nt.tool("unsafe_on_replay", name="gc_mail")
def mail(to: str) -> str:
    return to


@nt.tool("pure", name="gc_look")
def look(what: str) -> str:
    return what


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A ledger whose runs ended long ago: a second of 2023."""
    path = tmp_path / "agent.db"
    with nt.Ledger(SqliteStore(path, now=0.0), clock=FakeClock()) as ledger:
        for run_id in ("ticket-1", "ticket-2"):
            with ledger.run(run_id):
                look(run_id)
                mail(run_id)
    return str(path)


def gc_of(store: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["gc", "--store", store, *words])


def document_of(store: str, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(gc_of(store, "--json", *words).stdout)
    return document


def rows_in(store: str) -> int:
    connection = sqlite3.connect(store)
    (count,) = connection.execute("SELECT count(*) FROM tool_call_results").fetchone()
    connection.close()
    return int(count)


def test_a_dry_run_tells_and_a_real_one_does_it(store: str) -> None:
    told = gc_of(store, "--dry-run")
    assert told.exit_code == 0, told.output
    assert "2 runs, 4 calls, 0 checkpoints, 2 notices would be removed." in told.stdout
    assert "ticket-1" in told.stdout
    assert rows_in(store) == 4
    done = gc_of(store, "--by", "ann")
    assert "2 runs, 4 calls, 0 checkpoints, 2 notices removed." in done.stdout
    assert rows_in(store) == 0
    listed = CliRunner().invoke(main, ["runs", "--state", "removed", "--store", store])
    assert "ticket-2" in listed.stdout
    shown = CliRunner().invoke(main, ["show", "ticket-2", "--store", store])
    assert (shown.exit_code, "removed" in shown.stdout) == (0, True)
    # That nothing was recorded would be wrong.
    assert "Its rows were removed, so what it did is no longer on record." in shown.stdout
    assert f"When and why: nottwice audit ticket-2 --store {store}" in shown.stdout


def test_the_document_says_what_went_and_what_is_left(store: str) -> None:
    document = document_of(store, "--keep", "unsafe=20000d", "--dry-run")
    assert document["removed"] == {"runs": 2, "calls": 2, "checkpoints": 0, "notices": 2}
    first = document["removed_runs"][0]
    assert (first["run_id"], first["calls"], first["calls_left"]) == ("ticket-1", 1, 1)
    assert first["due_at"].startswith("20")
    assert set(document) == set(meanings(DOCUMENTS["gc"]))
    assert set(first) == set(meanings(SHAPES["removed run"]))


@pytest.mark.parametrize(
    ("words", "exit_code", "text"),
    [
        (["--older-than", "3d"], 1, "at least 14d"),
        (["--older-than", "soon"], 1, "not a duration"),
        (["--keep", "pure=3d"], 1, "at least 14d"),
        (["--keep", "checkpoints=70d"], 1, "longer than rows"),
        (["--keep", "everything=70d"], 2, "one of checkpoints, pure"),
        (["--keep", "pure"], 2, "WHAT=DURATION"),
        (["--older-than", "30d", "--keep", "pure=70d"], 2, "leave --keep out"),
        (["--by", ""], 1, "empty"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_goes(
    store: str, words: list[str], exit_code: int, text: str
) -> None:
    ended = gc_of(store, *words)
    assert (ended.exit_code, rows_in(store)) == (exit_code, 4)
    assert text in ended.output


def test_rows_of_tools_that_the_code_does_not_declare_are_kept_and_named(store: str) -> None:
    connection = sqlite3.connect(store)
    connection.execute("UPDATE tool_call_results SET tool_name = 'gc_fax' WHERE rowid % 2 = 0")
    connection.commit()
    connection.close()
    kept = gc_of(store)
    assert "gc_fax (2)" in kept.stderr
    assert "--unknown-tools" in kept.stderr
    assert rows_in(store) == 2
    gc_of(store, "--unknown-tools")
    assert rows_in(store) == 0


def test_progress_is_told_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    progress = Ticker(clock, gc._progress_text)
    removed = RemovalReport(dry_run=False, families=7, calls=1)
    progress(removed)
    assert capsys.readouterr().err == ""
    clock.advance(1.5)
    progress(removed)
    assert "looked at 7 runs so far: 0 runs, 1 call, 0 checkpoints" in capsys.readouterr().err


def test_the_app_on_the_line_brings_the_ledger_that_is_cleaned(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOTTWICE_STORE", raising=False)
    line = f"import nottwice as nt\napp = nt.App(graphs=[], store={store!r})\n"
    (tmp_path / "gc_app.py").write_text(line)
    with nt.Ledger(SqliteStore(tmp_path / "nottwice.db", now=0.0), clock=FakeClock()) as other:
        with other.run("ticket-3"):
            look("ticket-3")
    done = CliRunner().invoke(main, ["gc", "--app", "gc_app.py:app"])
    assert done.exit_code == 0, done.output
    assert (rows_in(store), rows_in("nottwice.db")) == (0, 1)
