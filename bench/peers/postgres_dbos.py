"""The same loop as the other files of this kind, as a DBOS workflow on PostgreSQL."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import graph_dbos
import graph_worker


def open_graph(folder: Path) -> tuple[str, Callable[..., float]]:
    """Open a workflow whose steps each return 500 bytes. DBOS records every step's result."""
    return graph_dbos.open_graph(folder, database=(folder / "url").read_text())


def open_graph_twice(folder: Path) -> tuple[str, Callable[..., float]]:
    """Like ``open_graph``, with a step before each that records what is about to be done."""
    return graph_dbos.open_graph(folder, database=(folder / "url").read_text(), twice=True)


if __name__ == "__main__":
    graph_worker.serve({"graph": open_graph, "twice": open_graph_twice})
