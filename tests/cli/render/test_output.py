"""Can foreign text not control the terminal, and does a pipe get plain lines?"""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from nottwice.cli.render import output
from tests.cli.workplace import HOSTILE, Workplace


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What rich writes to a terminal, with colours switched on."""
    shown = io.StringIO()
    monkeypatch.setattr(output, "_on_terminal", lambda: True)
    monkeypatch.setattr(
        output,
        "_console",
        lambda stream: Console(
            file=shown, force_terminal=True, color_system="truecolor", width=200, markup=False
        ),
    )
    return shown


def test_a_terminal_gets_markup_and_escapes_as_mere_text(terminal: io.StringIO) -> None:
    output.show_table(("run", "state"), [(HOSTILE, "waiting")])
    output.show_facts(HOSTILE, [("name", HOSTILE)])
    shown = terminal.getvalue()
    assert shown.count("[red]\\x1b[31mevil\\x1b]0;title\\x07\\nError: forged\\u202e") == 3
    assert "\x1b]0;" not in shown
    assert "\x07" not in shown
    assert "\x1b[31mevil" not in shown
    # Our own colours do arrive.
    assert "\x1b[33mwaiting" in shown


def test_a_pipe_gets_aligned_columns_that_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_table(("run", "state"), [("x" * 300, "waiting"), ("y", None)])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["RUN" + " " * 299 + "STATE", "x" * 300 + "  waiting", "y"]


def test_a_pipe_gets_facts_under_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_facts("Title", [("a", 1), ("longer", "two"), ("left out", None)])
    assert capsys.readouterr().out == "Title\n  a       1\n  longer  two\n"


def test_json_is_pure_ascii(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_json({"text": HOSTILE + "é\ud800"})
    shown = capsys.readouterr().out
    assert shown.isascii()
    assert shown.replace("\n", "").isprintable()
    assert json.loads(shown) == {"text": HOSTILE + "é\ud800"}


def test_errors_are_safe_too(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_error(HOSTILE)
    output.show_note(HOSTILE)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)


def test_a_terminal_that_cannot_spell_a_character_gets_its_escape(killed: Workplace) -> None:
    line = "PYTHONUTF8=0 PYTHONIOENCODING=ascii nottwice show done-1 --limit 1 --store agent.db"
    ended = killed.shell(line)
    assert ended.exit_code == 0, ended
    assert "\\u2026 and " in ended.stdout
