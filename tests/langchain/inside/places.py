"""What the files in this folder share. They run inside the environment that has LangGraph.

`tests/langchain/test_saver.py` starts them with the pytest of that environment, and names the
database in NOTTWICE_PLACE: nothing for SQLite, or the URL of a PostgreSQL server.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def place_for(folder: Path) -> str:
    """A ledger of its own for a folder."""
    server = os.environ.get("NOTTWICE_PLACE", "")
    if not server:
        return str(folder / "agent.db")
    note = folder / "schema"
    if not note.exists():
        # A folder of this name may have had a ledger before, on a server that outlives the tests.
        note.write_text("t_" + secrets.token_hex(8))
    return f"{server}{'&' if '?' in server else '?'}schema={note.read_text()}"
