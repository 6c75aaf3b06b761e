"""Does a printed command work as printed, for any id and any ledger?"""

from __future__ import annotations

import shlex

import pytest

from nottwice.views.commands import CommandLine


def test_a_command_names_the_ledger_and_the_app_that_were_named() -> None:
    line = CommandLine(store="a b.db", app="my app:app")
    assert line.command("reviews") == "nottwice reviews --store 'a b.db'"
    assert line.resume("r 1") == "nottwice run --id 'r 1' --app 'my app:app' --store 'a b.db'"
    assert line.worker() == "nottwice worker --app 'my app:app' --store 'a b.db'"
    assert CommandLine().worker() == "nottwice worker"


@pytest.mark.parametrize("run_id", ["ticket-7", "a b", "$(rm)", "--all", "-x", "'"])
def test_an_id_is_one_word_and_never_an_option(run_id: str) -> None:
    words = shlex.split(CommandLine(store="agent.db").command("show", run_id))
    assert words[-1] == run_id or words[2] == run_id
    if run_id.startswith("-"):
        assert words[-2] == "--"


def test_a_password_is_not_printed() -> None:
    line = CommandLine(store="postgresql://ann:hunter2@db/agents")
    assert "hunter2" not in line.command("runs")
