"""What does a process do whose syncs are counted? It runs one graph of a given length."""

from __future__ import annotations

import sys
from typing import Any

import nottwice as nt
from tests.fakes import UnhurriedClock


def flow(kind: str, count: int, cadence: str) -> nt.Graph[Any]:
    """A line of nodes, each with one call of this kind."""

    @nt.tool("unsafe_on_replay" if kind == "unsafe" else "pure")
    def work(number: int) -> int:
        return number

    made: nt.Graph[Any] = nt.Graph("syncs", version="1.0.0", checkpoints=cadence)
    for number in range(count):
        made.node(name=f"n{number}")(lambda state, number=number: {"last": work(number=number)})  # type: ignore[misc]
    return made


def main(path: str, what: str, kind: str, count: str, cadence: str) -> None:
    """Run the graph, or only look at how its run ended."""
    made = flow(kind, int(count), cadence)
    if what == "run":
        assert made.run("r", store=nt.Ledger(path, clock=UnhurriedClock())).status == "completed"
    else:
        assert made.outcome("r", store=path).status == "completed"


if __name__ == "__main__":
    main(*sys.argv[1:])
