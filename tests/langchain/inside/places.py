"""What the files in this folder share. They run inside the environment that has LangGraph.

`tests/langchain/test_saver.py` starts them with the pytest of that environment, and names the
database in NOTTWICE_PLACE: nothing for SQLite, or the URL of a PostgreSQL server.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def place_for(folder: Path) -> str:
    """A ledger of its own for a folder."""
    server = os.environ.get("NOTTWICE_PLACE", "")
    if not server:
        return str(folder / "agent.db")
    schema = "t_" + hashlib.sha256(str(folder).encode()).hexdigest()[:20]
    return f"{server}{'&' if '?' in server else '?'}schema={schema}"
