"""What does the project say? ``[tool.nottwice]`` in the nearest pyproject.toml."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

from nottwice.errors import UsageError

DEFAULT_STORE = "nottwice.db"
"""The default ledger."""


def project_table() -> tuple[Path, dict[str, Any]]:
    """Return the nearest ``[tool.nottwice]``, and the folder that its paths are relative to."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        file = folder / "pyproject.toml"
        try:
            status = os.stat(file)
            content = _content_of(file, status.st_mtime_ns, status.st_size)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
        except (ValueError, OSError, RecursionError) as error:
            raise UsageError(
                f"{file} cannot be read ({error}). Nothing was opened. Correct it, or name the "
                "ledger and the app yourself: --store and --app, or store= in a program."
            ) from None
        tool = content.get("tool")
        table = tool.get("nottwice") if isinstance(tool, dict) else None
        if isinstance(table, dict):
            return folder, table
    return here, {}


@functools.lru_cache(maxsize=8)
def _content_of(file: Path, changed_ns: int, size: int) -> dict[str, Any]:
    """Parse a file, again only if it has changed: every run without a named ledger asks for it."""
    # Only here, because most programs name their ledger and never read the file (P226).
    import tomllib

    return tomllib.loads(file.read_text(encoding="utf-8"))


def project_text(name: str) -> tuple[Path, str | None]:
    """Return one setting of the project, which must be text."""
    folder, table = project_table()
    value = table.get(name)
    if value is not None and not isinstance(value, str):
        raise UsageError(
            f"{folder / 'pyproject.toml'}: {name} in [tool.nottwice] must be text, not {value!r}. "
            "Nothing was opened."
        )
    return folder, value
