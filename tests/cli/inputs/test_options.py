"""Do commands that share an option share its name, its spelling and its words?"""

from __future__ import annotations

import getpass
import os
from collections import defaultdict

import click
import pytest

from nottwice.cli.inputs.options import login_name
from nottwice.cli.main import main

# These say for each command what it shows or reads.
OF_EACH_COMMAND = set(
    "--all --at --id --points --quiet --since --to --tool --tools --why --yes".split()
)


def test_an_option_that_several_commands_have_means_the_same_in_each() -> None:
    found: dict[str, set[tuple[str | None, str]]] = defaultdict(set)
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option):
                spelling = max(option.opts, key=len)
                found[spelling].add(
                    (option.metavar, (option.help or "").removeprefix("With --to: ").lower())
                )
    different = {spelling for spelling, kinds in found.items() if len(kinds) > 1}
    assert different <= OF_EACH_COMMAND, different - OF_EACH_COMMAND


def test_the_name_on_record_is_found_even_without_a_login(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_user() -> str:
        raise OSError("no such user")

    monkeypatch.setattr(getpass, "getuser", no_user)
    assert login_name() == f"uid {os.getuid()}"
