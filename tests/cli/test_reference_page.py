"""Is every command and every option documented, in the words of the command itself?"""

from __future__ import annotations

import click
import pytest

from nottwice.cli.main import main
from tests.cli.reference_page import PAGE, write_page


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == write_page(), (
        "docs/reference/cli.md is out of date: run python -m tests.cli.reference_page"
    )


def test_a_new_option_makes_the_page_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_page()
    command = main.get_command(click.Context(main), "runs")
    assert command is not None
    option = click.Option(["--new-option"], help="Something new.")
    monkeypatch.setattr(command, "params", [*command.params, option])
    assert "- `--new-option TEXT`: Something new." in write_page()
    assert write_page() != before


def test_a_new_command_makes_the_page_out_of_date(monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_page()
    monkeypatch.setitem(main.commands, "new", click.Command("new", help="Something new."))
    assert "## nottwice new" in write_page()
    assert write_page() != before


def test_every_command_and_option_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    context = click.Context(main, info_name="nottwice")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        assert f"\n## nottwice {name}\n" in text
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.name} explains nothing"
                assert f"- `{', '.join(parameter.opts)}" in text
