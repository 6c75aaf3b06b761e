"""Make a key for seals and secret arguments: `nottwice key`."""

from __future__ import annotations

import secrets

import click

from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line, show_note
from nottwice.guard.settings.keyring import KEY_FILE_VARIABLE, KEY_VARIABLE
from nottwice.model.sealing.keyring import LEAST_KEY_BYTES, make_key, spell_key
from nottwice.views.outcomes import KeyMade


@click.command(cls=Command)
@common_options
@pass_settings
def key(settings: Settings) -> None:
    """Print a new random key. It is printed once, and not stored.

    Every process that opens the ledger needs it: in NOTTWICE_KEY, or in a file that
    NOTTWICE_KEY_FILE or `key_file` of [tool.nottwice] names. Never keep it in the folder or the
    repository of the ledger. To replace a key, write the new one on a line before it: old keys
    still recognise what was written with them.

    \b
    Examples:
      nottwice key > ~/.nottwice-key && chmod 600 ~/.nottwice-key
      export NOTTWICE_KEY_FILE=~/.nottwice-key
    """
    made = make_key(secrets.token_bytes(LEAST_KEY_BYTES))
    if settings.as_json:
        show_json(KeyMade(id=made.id, key=spell_key(made)))
        return
    show_line(spell_key(made))
    show_note(
        f"This is key {made.id}. It can forge seals and test guesses of secrets, so keep it away "
        f"from the ledger: in {KEY_VARIABLE}, or in a file that {KEY_FILE_VARIABLE} names."
    )
