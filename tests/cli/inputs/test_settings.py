"""Is the right ledger opened, wherever and however it was named?"""

from __future__ import annotations

import logging
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.inputs.settings import Settings, show_log
from nottwice.cli.main import main
from nottwice.errors import NoLedger, UsageError
from tests.cli.workplace import HOSTILE, Workplace


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTTWICE_STORE", raising=False)


def opened(settings: Settings) -> str:
    with pytest.raises(NoLedger) as caught:
        settings.open_ledger()
    return str(caught.value).removeprefix("There is no ledger at ").partition(". ")[0]


def write_project(folder: Path, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyproject.toml").write_text(text)


def test_options_count_before_and_after_the_command(killed: Workplace) -> None:
    runner = CliRunner()
    before = runner.invoke(main, ["--store", killed.store, "--json", "runs"])
    after = runner.invoke(main, ["runs", "--json", "--store", killed.store])
    assert before.exit_code == after.exit_code == 0
    assert before.stdout == after.stdout
    assert before.stdout.startswith("{")


def test_the_later_of_two_options_counts(killed: Workplace) -> None:
    result = CliRunner().invoke(main, ["--store", "none.db", "runs", "--store", killed.store])
    assert result.exit_code == 0


def test_an_option_beats_the_environment_which_beats_the_project_which_beats_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert opened(Settings()) == str(tmp_path / "nottwice.db")
    write_project(tmp_path, '[tool.nottwice]\nstore = "project.db"\n')
    assert opened(Settings()) == str(tmp_path / "project.db")
    monkeypatch.setenv("NOTTWICE_STORE", "environment.db")
    assert opened(Settings()) == str(tmp_path / "environment.db")
    assert opened(Settings(store="option.db")) == str(tmp_path / "option.db")


def test_the_project_is_looked_for_in_the_folders_above_and_its_paths_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, '[tool.nottwice]\nstore = "agent.db"\napp = "tools/agent.py"\n')
    # A project without our table is not the one.
    write_project(tmp_path / "inner", "[tool.other]\n")
    (tmp_path / "inner" / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "inner" / "deep")
    assert opened(Settings()) == str(tmp_path / "agent.db")
    assert Settings().application() == str(tmp_path / "tools" / "agent.py")
    assert Settings(app="other").application() == "other"


def test_a_folder_of_json_files_is_named_like_any_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, '[tool.nottwice]\nstore = "file:runs"\n')
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    with pytest.raises(NoLedger, match="in " + str(tmp_path / "runs")):
        Settings().open_ledger()
    with nt.run("ticket-7", store=f"file:{tmp_path / 'runs'}"):
        pass
    for words in (["runs"], ["show", "ticket-7"], ["runs", "--store", str(tmp_path / "runs")]):
        shown = CliRunner().invoke(main, words)
        assert (shown.exit_code, "ticket-7" in shown.stdout) == (0, True), shown


@pytest.mark.parametrize(
    "text", ["[tool.nottwice\n", "[tool.nottwice]\nstore = 7\n", "[tool.nottwice]\nstore = ['a']\n"]
)
def test_a_project_that_cannot_be_read_is_an_error_that_names_the_file(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        Settings().open_ledger()
    # If the ledger and the key are named, the project is not needed.
    monkeypatch.setenv("NOTTWICE_KEY", bytes(range(32)).hex())
    assert opened(Settings(store="a.db")) == str(tmp_path / "a.db")


def test_whether_there_is_a_key_is_never_guessed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project that cannot be read may name one: what is sealed would look forged without it."""
    write_project(tmp_path, "[tool.nottwice\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        Settings(store="a.db").open_ledger()


@pytest.mark.parametrize("text", ["", "tool = 7\n", "[tool]\nnottwice = 7\n"])
def test_a_project_that_says_nothing_changes_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(tmp_path, text)
    monkeypatch.chdir(tmp_path)
    assert opened(Settings()) == str(tmp_path / "nottwice.db")
    assert Settings().application() is None


@pytest.mark.parametrize("store", [":memory:", "", "mysql://host/db"])
def test_what_is_no_file_cannot_be_opened(store: str) -> None:
    with pytest.raises(UsageError, match="Nothing was opened"):
        Settings(store=store).open_ledger()


def test_a_printed_command_names_the_ledger_as_it_was_named() -> None:
    assert Settings().command("runs") == "nottwice runs"
    assert Settings(store="my ledger.db").command("runs") == "nottwice runs --store 'my ledger.db'"


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("run_id", ["--json", "-v", "a b", "$(touch pwned)", "'", "*", "a/../b"])
def test_a_printed_command_works_whatever_the_run_is_called(run_id: str, empty: Workplace) -> None:
    with nt.Ledger(empty.store) as ledger, ledger.run(run_id):
        pass
    command = Settings(store="agent.db").command("show", run_id)
    ended = empty.shell(command)
    assert ended.exit_code == 0, ended
    assert ended.stdout.startswith(f"Run {run_id}\n")
    assert not (empty.folder / "pwned").exists()


def test_the_log_is_shown_on_demand_and_never_mixes_with_the_output(killed: Workplace) -> None:
    quiet = killed.cli("runs", "--json")
    loud = killed.cli("-v", "runs", "--json")
    assert "ledger opened at" not in quiet.stderr
    assert f"info: ledger opened at {killed.store}" in loud.stderr
    assert loud.stdout == quiet.stdout


def test_the_log_is_as_it_was_when_the_command_is_over(killed: Workplace) -> None:
    logger = logging.getLogger("nottwice")
    before = (logger.level, logger.propagate, list(logger.handlers))
    killed.cli("-vv", "runs")
    killed.cli("-v")
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def test_a_line_of_the_log_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with click.Context(main) as context:
        show_log(context, Settings())
        logging.getLogger("nottwice").warning("%s", HOSTILE)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: [red]\\x1b[31mevil")
    assert line.isprintable()
