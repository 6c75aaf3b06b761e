"""Does the program teach, and does an error reach the person without a traceback?"""

from __future__ import annotations

import importlib.util
import json
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib.machinery import ModuleSpec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nottwice.cli import commands
from nottwice.cli.main import main
from tests.cli.workplace import Workplace
from tests.tidy.source import ROOT

COMMANDS = [
    "run",
    "worker",
    "workers",
    "proxy",
    "runs",
    "show",
    "history",
    "graph",
    "audit",
    "reviews",
    "decide",
    "notify",
    "serve",
    "report",
    "recheck",
    "talk",
    "send",
    "cancel",
    "fork",
    "check",
    "lock",
    "migrate",
    "gc",
    "backup",
    "key",
    "crash",
    "demo",
    "replay",
]


def test_the_help_lists_every_command_and_the_exit_codes() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert re.findall(r"^  (\w+)  ", result.stdout.partition("Options")[0], re.M) == COMMANDS
    assert re.findall(r"^    (\d)  ", result.stdout, re.M) == ["0", "1", "2", "3"]
    assert [line for line in result.stdout.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_in_80_columns(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])
    # A list of choices is one word, which click does not break.
    lines = [line for line in result.stdout.splitlines() if "|" not in line]
    assert [line for line in lines if len(line) > 80] == []


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "demo"])
def test_the_help_of_a_command_shows_an_example_and_its_own_options_first(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0
    assert f"  nottwice {command}" in result.stdout
    own, _, shared = result.stdout.partition("Options of every command:")
    for spelling in ("--store", "--app", "--json", "--verbose", "--version", "--help"):
        assert spelling in shared
        assert f"  {spelling} " not in own


def test_usage_names_the_program_whatever_started_it(empty: Workplace) -> None:
    ended = empty.shell("nottwice show --help")
    assert ended.stdout.startswith("Usage: nottwice show [OPTIONS] ID\n")


def test_no_command_creates_a_ledger(empty: Workplace) -> None:
    before = sorted(empty.folder.iterdir())
    for words in ([], ["runs"], ["show", "a"], ["reviews"], ["decide", "a"]):
        result = empty.cli(*words)
        assert result.exit_code == 1
        assert "There is no ledger at" in result.stderr
    assert sorted(empty.folder.iterdir()) == before


def test_a_newcomer_without_a_ledger_is_shown_the_demo(empty: Workplace) -> None:
    ended = empty.shell("nottwice")
    assert ended.exit_code == 1
    assert ended.stdout == ""
    assert "nottwice demo" in ended.stderr


def test_a_typed_error_is_one_line_on_stderr_and_no_traceback(killed: Workplace) -> None:
    ended = killed.shell("nottwice show nothing --store agent.db")
    assert ended.exit_code == 1
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("Error: ")]
    assert "There is no run 'nothing'" in line
    assert line.endswith("nottwice runs --store agent.db")


def test_an_error_is_a_json_document_for_those_who_read_json(killed: Workplace) -> None:
    result = killed.cli("show", "nothing", "--json")
    assert result.exit_code == 1
    error = json.loads(result.stdout)["error"]
    assert error["type"] == "UnknownRun"
    assert error["message"] in result.stderr


def test_a_command_in_an_error_text_is_completed_with_the_ledger(killed: Workplace) -> None:
    result = killed.cli("decide", "nothing")
    assert f"List them with: nottwice reviews --store {killed.store}\n" in result.stderr
    assert "Add the ledger" not in result.stderr


def test_a_command_that_needs_no_ledger_is_not_completed_with_one(
    killed: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTTWICE_KEY", "")
    result = killed.cli("audit", "--verify")
    assert "nottwice key" in result.stderr
    assert "Add the ledger" not in result.stderr


def test_the_name_of_the_program_in_an_error_text_is_no_command(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["runs", "--store", str(tmp_path)])
    assert "not a nottwice ledger" in result.stderr
    assert "Add the ledger" not in result.stderr


def test_a_wrong_command_line_ends_with_2() -> None:
    for words in (["shows"], ["show"], ["runs", "--state", "odd"], ["decide"]):
        assert CliRunner().invoke(main, words).exit_code == 2


def test_what_the_system_refuses_is_no_traceback(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["--store", str(tmp_path / ("x" * 300))])
    assert result.exit_code == 1
    assert "File name too long" in result.stderr


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE other (a)")
    before = file.read_bytes()
    result = CliRunner().invoke(main, ["--store", str(file), "runs"])
    assert result.exit_code == 1
    assert "not a nottwice ledger" in result.stderr
    assert file.read_bytes() == before


def test_a_reader_that_has_seen_enough_is_no_error(killed: Workplace) -> None:
    ended = killed.shell("nottwice show done-1 --store agent.db --json | head -n 1")
    assert ended.stdout == "{\n"
    assert "Traceback" not in ended.stderr
    assert "Error" not in ended.stderr


def test_the_version_can_be_asked_for_before_and_after_a_command() -> None:
    before = CliRunner().invoke(main, ["--version"])
    after = CliRunner().invoke(main, ["runs", "--version"])
    assert before.exit_code == after.exit_code == 0
    assert before.stdout == after.stdout
    assert before.stdout.startswith("nottwice ")


# The command line alone: what the front door imports is its own affair.
ALONE = """
import sys, types
package = types.ModuleType("nottwice")
package.__path__ = [sys.argv.pop(1)]
sys.modules["nottwice"] = package
from nottwice.cli.main import main
main(sys.argv[1:], standalone_mode=False)
print("\\n" + " ".join(sys.modules))
"""


def imported_by(place: Workplace, *words: str) -> set[str]:
    """The modules that a command imports, in a process of its own."""
    folder = str(ROOT / "src" / "nottwice")
    ended = place.started(sys.executable, "-c", ALONE, folder, *words, NOTTWICE_STORE="agent.db")
    assert ended.exit_code == 0, ended
    return set(ended.stdout.splitlines()[-1].split())


def test_the_version_is_shown_without_importing_any_command(killed: Workplace) -> None:
    found = imported_by(killed, "--version")
    assert not {name for name in found if name.startswith("nottwice.cli.commands.")}
    assert not found & {"nottwice.guard.ledger", "pydantic", "rich", "asyncio"}


def test_a_mistyped_command_is_refused_with_the_one_that_was_meant() -> None:
    refused = CliRunner().invoke(main, ["decid", "1a2b"])
    assert refused.exit_code == 2
    assert "Error: No such command 'decid'. Did you mean 'decide'?\n" in refused.stderr
    other = CliRunner().invoke(main, ["approve"])
    assert other.exit_code == 2
    assert "Error: No such command 'approve'.\n" in other.stderr
    option = CliRunner().invoke(main, ["--decide"])
    assert "No such option" in option.stderr


def test_help_lists_every_command_without_importing_one() -> None:
    source = (
        "import sys; from nottwice.cli.main import main; main(['--help'], standalone_mode=False); "
        "print([name for name in sys.modules if name.startswith('nottwice.cli.commands.')])"
    )
    ended = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert ended.stdout.splitlines()[-1] == "[]", ended
    for name, row in commands.COMMANDS.items():
        assert f"  {name}" in ended.stdout
        assert row.summary in ended.stdout


@pytest.mark.parametrize("words", [("runs",), ("reviews",), ("runs", "--json")])
def test_a_command_that_only_looks_imports_no_graphs_no_agent_and_no_demo(
    words: tuple[str, ...], killed: Workplace
) -> None:
    found = imported_by(killed, *words)
    rooms = {".".join(name.split(".")[:2]) for name in found}
    assert not rooms & {"nottwice.graphs", "nottwice.agent", "nottwice.testing", "nottwice.worker"}
    assert not found & {"pydantic", "rich", "nottwice.cli.demo"}


def test_a_missing_demo_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without_demo(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "nottwice.cli.demo.story" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_demo)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 1
    assert "not part of this installation" in result.stderr


def test_the_demo_is_the_command_of_its_own_module() -> None:
    from nottwice.cli.demo.story import demo

    assert main.get_command(click.Context(main), "demo") is demo
