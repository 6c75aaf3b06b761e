"""The same loop as the other files of this kind, on nottwice with PostgreSQL."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import graph_ours
import graph_worker

import nottwice as nt


def open_graph(folder: Path) -> tuple[str, Callable[..., float]]:
    """Open a graph whose steps are each durable before the next one. No effect is protected."""
    return graph_ours.open_graph(folder, store=(folder / "url").read_text())


def open_guard(folder: Path) -> tuple[str, Callable[..., float]]:
    """Make one unsafe call per step: an intent before it and a receipt after it."""
    ledger = nt.Ledger((folder / "url").read_text())

    @nt.tool("unsafe_on_replay", name="bench_send")
    def send(number: int) -> str:
        return graph_ours.BODY

    def run(run_id: str, steps: int, *, dies: int = -1) -> float:
        began = time.perf_counter()
        with ledger.run(run_id):
            for number in range(steps):
                send(number=number)
        return time.perf_counter() - began

    return "an intent before and a receipt after", run


if __name__ == "__main__":
    graph_worker.serve({"graph": open_graph, "guard": open_guard})
