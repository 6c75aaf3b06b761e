"""How is a configuration changed on disk? As a whole or not at all, with a backup (P281).

The file is a person's, and its client may write to it, too. So a backup is made first, the new text
replaces the old one in one step, and a file that was changed since it was read is left alone.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

from nottwice.errors import UsageError
from nottwice.mcp.clients import wrapping
from nottwice.mcp.clients.wrapping import PROGRAM, ConfigurationEdit
from nottwice.model.data.records import frozen_record

BACKUP = "nottwice-backup"
_BOM = "\ufeff"


@frozen_record(frozen=True, slots=True)
class Configuration:
    """A client's configuration, as it was read."""

    path: Path
    """The file itself, and not a link to it."""
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode().removeprefix(_BOM)

    @property
    def mark(self) -> str:
        """The byte order mark that some editors write; it stays where it is."""
        return _BOM if self.data.startswith(_BOM.encode()) else ""


def read_configuration(path: Path) -> Configuration:
    """Read a configuration. UsageError says why it cannot be one."""
    try:
        real = path.resolve(strict=True)
        data = real.read_bytes()
        data.decode()
    except UnicodeDecodeError:
        raise _unchanged(path, "it is not UTF-8 text") from None
    except OSError as error:
        raise _unchanged(path, f"it cannot be read ({error.strerror})") from None
    return Configuration(real, data)


def wrapped(configuration: Configuration, *, program: str | None = None) -> ConfigurationEdit:
    """Return the configuration with each server behind the proxy. Nothing is written."""
    path = configuration.path
    _check_not_of_windows(path)
    if program is None:
        program = program_for(path)
    try:
        return wrapping.wrap(configuration.text, program=program, project=project_of(path))
    except UsageError as error:
        raise _unchanged(path, error.message) from None


def unwrapped(configuration: Configuration) -> ConfigurationEdit:
    """Return the configuration without the proxy. Nothing is written."""
    try:
        return wrapping.unwrap(configuration.text)
    except UsageError as error:
        raise _unchanged(configuration.path, error.message) from None


def write_configuration(configuration: Configuration, edit: ConfigurationEdit) -> Path:
    """Replace the file by the edited text, and return the backup of what it was.

    Durable: the backup before the file is touched, and the file when this returns. A kill leaves
    the old file or the new one.
    """
    path = configuration.path
    mode = stat.S_IMODE(path.stat().st_mode)
    backup = _write_backup(configuration, mode)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    beside = Path(name)
    try:
        _fill(descriptor, (configuration.mark + edit.text).encode(), mode)
        if path.read_bytes() != configuration.data:
            backup.unlink()
            raise _unchanged(path, "another program changed it in the meantime. Try again")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    _flush_folder(path.parent)
    return backup


def project_of(path: Path) -> str | None:
    """Return the name of the project that a configuration belongs to. None: to the user.

    ``.mcp.json`` (Claude Code), ``.cursor/mcp.json`` and ``.vscode/mcp.json`` belong to the project
    around them, but Cursor's in the home folder belongs to the user.
    """
    if path.name == ".mcp.json":
        folder = path.parent
    elif path.parent.name in (".cursor", ".vscode"):
        folder = path.parent.parent
    else:
        return None
    return None if folder == Path.home().resolve() else folder.name or None


def program_for(path: Path) -> str:
    """Return how a client starts nottwice.

    A file that is shared with other people must not name a folder of this machine. Everywhere
    else the full path is safer: a client started from a desktop does not know the PATH of a shell.
    """
    if project_of(path) is not None:
        return PROGRAM
    return _own_program() or PROGRAM


def _own_program() -> str | None:
    """Return the path of this program. None: it is not installed as a program."""
    own = Path(sys.executable).with_name(PROGRAM)
    return str(own) if own.is_file() else None


def _check_not_of_windows(path: Path) -> None:
    """Refuse the files of Windows below /mnt/c: their client cannot start a program of WSL."""
    parts = path.parts
    if len(parts) > 2 and parts[1] == "mnt" and len(parts[2]) == 1 and "microsoft" in _kernel():
        raise _unchanged(
            path,
            "it belongs to a program of Windows, which starts programs in WSL only through "
            "wsl.exe. docs/frameworks/claude-desktop.md shows what to write into it",
        )


def _kernel() -> str:
    return os.uname().release.lower()


def _write_backup(configuration: Configuration, mode: int) -> Path:
    path, number = configuration.path, 1
    while True:
        ending = BACKUP if number == 1 else f"{BACKUP}-{number}"
        backup = path.with_name(f"{path.name}.{ending}")
        try:
            descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            # An older backup may be the only copy of what the person wrote.
            number += 1
        else:
            _fill(descriptor, configuration.data, mode)
            _flush_folder(path.parent)
            return backup


def _fill(descriptor: int, data: bytes, mode: int) -> None:
    """Write a file that no other user can read yet: configurations hold keys."""
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unchanged(path: Path, why: str) -> UsageError:
    return UsageError(f"{path} was not changed: {why}.")
