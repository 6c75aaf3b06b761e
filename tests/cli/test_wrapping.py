"""Does a person see what changes before it changes, and is nothing changed without a yes? (P281)"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from nottwice.cli import wrapping
from nottwice.cli.inputs.settings import Settings
from nottwice.cli.main import main
from tests.mcp.clients.samples import DESKTOP, VSCODE


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "Application Support" / "claude_desktop_config.json"
    path.parent.mkdir()
    path.write_text(DESKTOP)
    return path


def nottwice(*words: object) -> Result:
    return CliRunner().invoke(main, ["proxy", *map(str, words)])


def at_a_terminal(monkeypatch: pytest.MonkeyPatch, *, yes: bool) -> list[Any]:
    asked: list[Any] = []

    def confirm(*words: Any, **_: Any) -> bool:
        asked.append(words)
        return yes

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(click, "confirm", confirm)
    monkeypatch.setattr(sys, "stdin", Terminal())
    return asked


def test_with_yes_the_file_is_wrapped_and_all_is_said(file: Path) -> None:
    ran = nottwice("--wrap", file, "--yes")
    assert ran.exit_code == 0, ran.output
    assert '"--name", "pay", "--", "npx"' in file.read_text()
    for line in (
        "pay: will be started through nottwice",
        "remote: stays as it is, because it has a URL and no command.",
        '-      "args": ["-y", "pay-mcp"],',
        '+      "args": ["proxy", "--name", "pay", "--", "npx", "-y", "pay-mcp"],',
        "What it was is in claude_desktop_config.json.nottwice-backup, beside it.",
        f"To undo it: nottwice proxy --unwrap '{file}'",
    ):
        assert line in ran.output
    # The key of the server is in a line beside those that change.
    assert "sk-secret" not in ran.output


def test_wrapping_again_changes_nothing_and_unwrapping_restores(file: Path) -> None:
    nottwice("--wrap", file, "--yes")
    again = nottwice("--wrap", file)
    assert (again.exit_code, "is unchanged" in again.output) == (0, True)
    assert "pay: is started through nottwice already" in again.output
    back = nottwice("--unwrap", file, "--yes")
    assert (back.exit_code, file.read_text()) == (0, DESKTOP)
    assert "pay: will be started without nottwice" in back.output
    assert "pay: is started without nottwice already" in nottwice("--unwrap", file).output


def test_without_a_terminal_and_without_yes_nothing_is_written(file: Path) -> None:
    ran = nottwice("--wrap", file)
    assert ran.exit_code == 2
    assert "was not changed" in ran.output
    assert "--yes" in ran.output
    assert "+" in ran.output
    assert [each.read_text() for each in file.parent.iterdir()] == [DESKTOP]


def test_a_person_is_asked_and_a_no_changes_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = at_a_terminal(monkeypatch, yes=False)
    with click.Context(click.Command("proxy")), pytest.raises(click.exceptions.Exit):
        wrapping.edit_client(Settings(), str(file))
    assert len(asked) == 1
    assert file.read_text() == DESKTOP
    at_a_terminal(monkeypatch, yes=True)
    wrapping.edit_client(Settings(), str(file))
    assert file.read_text() != DESKTOP


def test_scripts_get_one_document(file: Path) -> None:
    told = json.loads(nottwice("--wrap", file, "--yes", "--json").stdout)
    assert told["changed"] is True
    assert Path(told["backup"]).read_text() == DESKTOP
    assert [(each["server"], each["state"]) for each in told["servers"]] == [
        ("pay", "wrapped"),
        ("files", "wrapped"),
        ("remote", "left_alone"),
    ]
    again = json.loads(nottwice("--wrap", file, "--json").stdout)
    assert (again["changed"], again["backup"]) == (False, None)


def test_what_is_no_configuration_is_an_error_that_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{\n  "servers": oops\n}')
    ran = nottwice("--wrap", path, "--yes")
    assert ran.exit_code == 1
    assert "was not changed: it is not JSON: line 2, column 14" in ran.output


def test_a_project_file_with_comments_is_shared_by_name_only(tmp_path: Path) -> None:
    path = tmp_path / "shop" / ".vscode" / "mcp.json"
    path.parent.mkdir(parents=True)
    path.write_text(VSCODE)
    assert nottwice("--wrap", path, "--yes").exit_code == 0
    assert '"command": "nottwice", // the shop' in path.read_text()
    assert '"shop-pay"' in path.read_text()
    nottwice("--unwrap", path, "--yes")
    assert path.read_text() == VSCODE
