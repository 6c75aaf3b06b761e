"""What was a proxy told, and where are its ledger and configuration? In the user's own folders.

Desktop clients start servers in folders of their choice, so nothing is kept in the current one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record

_MOST_NAME_CHARACTERS = 60


@frozen_record(frozen=True, slots=True)
class ProxyOptions:
    """What ``nottwice proxy`` was told."""

    name: str
    command: tuple[str, ...]
    """The server's command, or its URL alone."""
    store: str | None = None
    config: Path | None = None
    port: int | None = None
    host: str = "127.0.0.1"
    trust_annotations: bool = True
    decide_in_client: bool = False

    @property
    def url(self) -> str | None:
        """The server's URL, if it is not a command."""
        first = self.command[0]
        is_url = len(self.command) == 1 and first.startswith(("http://", "https://"))
        return first if is_url else None


def name_of(name: str | None, command: Sequence[str]) -> str:
    """Return the name of a server: the one that was given, else made of its command."""
    if name is None:
        said = "-".join(Path(word).name for word in command if not word.startswith("-"))
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", said).strip("-.")[:_MOST_NAME_CHARACTERS]
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]*", name):
        raise UsageError(
            f"{name!r} cannot be the name of a server: it names a file. Nothing was started. Use "
            "letters, digits, '.', '_' and '-': --name pay"
        )
    return name


def ledger_of_server(name: str) -> Path:
    """Return the path of a server's ledger, and create its folder for the user alone."""
    folder = _folder("XDG_STATE_HOME", ".local/state")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / f"{name}.db"


def settings_of_server(name: str) -> Path:
    """Return the path of a server's configuration. It may not exist."""
    return _folder("XDG_CONFIG_HOME", ".config") / f"{name}.toml"


def _folder(variable: str, usual: str) -> Path:
    given = os.environ.get(variable, "")
    base = Path(given) if given.startswith("/") else Path.home() / usual
    return base / "nottwice"
