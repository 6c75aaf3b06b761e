"""Make a key for seals and secret arguments: `nottwice key`."""

from __future__ import annotations

import secrets

import click

from nottwice.cli.output import show_json, show_line, show_note
from nottwice.cli.settings import Command, Settings, common_options, pass_settings
from nottwice.guard.settings.keyring import KEY_FILE_VARIABLE, KEY_VARIABLE
from nottwice.model.sealing.keyring import LEAST_KEY_BYTES, make_key, spell_key


@click.command(cls=Command, short_help="Make a key for what is sealed or secret.")
@common_options
@pass_settings
def key(settings: Settings) -> None:
    """Print a new random key. It is printed once, and kept nowhere.

    Put it where NOTTWICE_KEY, or a file that NOTTWICE_KEY_FILE or `key_file` of [tool.nottwice]
    names, holds it for every process that opens the ledger, and never into the ledger's own
    folder or repository. To replace a key, write the new one on a line before it: old keys still
    recognise what was written with them.

    \b
    Examples:
      nottwice key > ~/.nottwice-key && chmod 600 ~/.nottwice-key
      export NOTTWICE_KEY_FILE=~/.nottwice-key
    """
    made = make_key(secrets.token_bytes(LEAST_KEY_BYTES))
    if settings.as_json:
        show_json({"id": made.id, "key": spell_key(made)})
        return
    show_line(spell_key(made))
    show_note(
        f"This is key {made.id}. Whoever has it can forge seals and try out guesses at secrets, so "
        f"keep it away from the ledger: in {KEY_VARIABLE}, or in a file that {KEY_FILE_VARIABLE} "
        "names."
    )
