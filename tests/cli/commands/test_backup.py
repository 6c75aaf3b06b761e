"""What does `nottwice backup` make, tell and refuse?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import nottwice as nt
from nottwice.cli.commands import backup
from nottwice.cli.main import main
from nottwice.cli.render.ticker import Ticker
from nottwice.views.documents import DOCUMENTS
from nottwice.views.shape import meanings
from tests.fakes import FakeClock


@nt.tool("unsafe_on_replay", name="backup_cli_mail")
def mail(to: str) -> str:
    return to


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with nt.run("ticket-7", store=tmp_path / "agent.db"):
        mail("ann")
    return tmp_path


def typed(store: Path, *words: str) -> Result:
    return CliRunner().invoke(main, [*words, "--store", str(store)])


def document(store: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(typed(store, *words, "--json").stdout)
    return found


def test_the_copy_is_named_and_asks_until_it_is_accounted_for(folder: Path) -> None:
    copy = folder / "copy.db"
    made = typed(folder / "agent.db", "backup", str(copy), "--by", "ann")
    assert made.exit_code == 0, made.output
    assert str(copy) in made.stdout
    assert "a copy" not in typed(folder / "agent.db").stdout
    assert "its runs are held" in typed(copy).stdout
    with pytest.raises(nt.RunBlocked) as blocked:
        with nt.run("ticket-7", store=copy):
            mail("ann")
    assert "nottwice decide" in str(blocked.value)
    listed = typed(copy, "reviews")
    assert "restored" in listed.stdout
    shown = typed(copy, "decide", str(blocked.value.review_id))
    assert "accept" in shown.stdout
    said = ("--accounted-for", "--why", "nothing ran", "--by", "ann")
    told = document(copy, "backup", *said)
    assert set(told) == set(meanings(DOCUMENTS["backup"]))
    assert told["held_since"] is None
    again = typed(copy, "backup", *said)
    assert (again.exit_code, "is not a copy" in again.stderr) == (1, True)


def test_the_document_tells_where_the_copy_is(folder: Path) -> None:
    told = document(folder / "agent.db", "backup", str(folder / "copy.db"))
    assert set(told) == set(meanings(DOCUMENTS["backup"]))
    assert told["copy"] == str(folder / "copy.db")
    assert told["bytes"] == (folder / "copy.db").stat().st_size
    assert told["held_since"] is None
    held = document(folder / "agent.db", "backup", "--restored", "--why", "a snapshot")
    assert held["held_since"] is not None
    assert document(folder / "agent.db")["copied_at"] == held["held_since"]


@pytest.mark.parametrize(
    ("words", "exit_code", "text"),
    [
        ([], 2, "Say where the copy goes"),
        (["DEST", "--restored"], 2, "Say where the copy goes"),
        (["--restored", "--accounted-for"], 2, "Say where the copy goes"),
        (["--restored"], 2, "--why"),
        (["DEST", "--why", "x"], 2, "--why belongs"),
        (["--restored", "--why", " "], 1, "reason is missing"),
        (["/nowhere/at/all"], 1, "no folder"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    folder: Path, words: list[str], exit_code: int, text: str
) -> None:
    ended = typed(folder / "agent.db", "backup", *words)
    assert (ended.exit_code, text in ended.output) == (exit_code, True), ended.output


def test_progress_is_told_once_a_second(capsys: pytest.CaptureFixture[str]) -> None:
    clock = FakeClock()
    progress = Ticker(clock, backup._copied)
    progress(1, 10)
    assert capsys.readouterr().err == ""
    clock.advance(1.5)
    progress(3, 10)
    assert "30 % copied" in capsys.readouterr().err


def test_the_app_on_the_line_brings_the_ledger_that_is_copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("NOTTWICE_STORE", raising=False)
    text = "import nottwice as nt\napp = nt.App(graphs=[], store='agent.db')\n"
    (folder / "backup_app.py").write_text(text)
    nt.Ledger(folder / "nottwice.db").close()
    words = ["backup", "copy.db", "--app", "backup_app.py:app"]
    made = CliRunner().invoke(main, words)
    assert made.exit_code == 0, made.output
    assert "agent.db" in made.stdout
    assert "ticket-7" in typed(folder / "copy.db", "runs").stdout
