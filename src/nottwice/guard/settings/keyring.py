"""Where does the key come from? ``nt.Ledger(key=…)``, the environment, a file, the project (L9).

The first of these that is set counts. Without a key the answer is None, and code that needs a key
says so before anything happens. A variable that is set but empty is an error: a secret that could
not be fetched would silently turn off the seals. Promise kept here: P142.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from nottwice.errors import KeyMissing, UsageError
from nottwice.guard.settings.project import project_text
from nottwice.model.sealing.keyring import Keyring, make_key, make_keyring, parse_keyring

KEY_VARIABLE = "NOTTWICE_KEY"
KEY_FILE_VARIABLE = "NOTTWICE_KEY_FILE"
PROJECT_KEY_FILE = "key_file"

GivenKey = Keyring | str | bytes | None
KeySource = GivenKey | Callable[[], GivenKey]
"""A key as ``nt.Ledger(key=…)`` takes it: its text, its bytes, or a function that fetches
either."""


def find_keyring(given: KeySource = None) -> Keyring | None:
    """Return the keys in use; None if none is configured. UsageError if one is not a key."""
    if given is not None:
        return _given(given() if callable(given) else given)
    text = os.environ.get(KEY_VARIABLE)
    if text is not None:
        _check_not_empty(text, KEY_VARIABLE)
        return parse_keyring(text, where=KEY_VARIABLE)
    path = os.environ.get(KEY_FILE_VARIABLE)
    if path is not None:
        _check_not_empty(path, KEY_FILE_VARIABLE)
        return _read(Path(path).expanduser(), KEY_FILE_VARIABLE)
    folder, name = project_text(PROJECT_KEY_FILE)
    if name is not None:
        if not name.strip():
            raise KeyMissing(
                f"{folder / 'pyproject.toml'}: key_file in [tool.nottwice] is empty, so there is "
                "no key, and without one nothing would be sealed or kept secret. Nothing happened. "
                "Name the file of the key there, or remove the line."
            )
        return _read(folder / Path(name).expanduser(), str(folder / "pyproject.toml"))
    return None


def _check_not_empty(text: str, variable: str) -> None:
    if not text.strip():
        raise KeyMissing(
            f"{variable} is set and empty, so there is no key, and without one nothing would be "
            "sealed or kept secret. Nothing happened. Set it to the key of this ledger (nottwice "
            f"key makes a new one), or do without one: unset {variable}"
        )


def _given(key: GivenKey) -> Keyring:
    match key:
        case Keyring():
            return key
        case str():
            return parse_keyring(key, where="key=")
        case bytes():
            return make_keyring([make_key(key, where="key=")])
        case _:
            raise UsageError(
                f"key= must be the text or the bytes of a key, or a function that returns one of "
                f"them, not {type(key).__name__}. Nothing happened. Make one: nottwice key"
            )


def _read(path: Path, named_by: str) -> Keyring:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        # Never continue without a key: sealed rows would look forged, and secrets new.
        raise UsageError(
            f"The key file {path}, which {named_by} names, cannot be read: {reason}. Nothing "
            "happened. Make one: nottwice key"
        ) from None
    return parse_keyring(text, where=str(path))
