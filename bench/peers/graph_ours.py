"""The same loop as the other files of this kind, as a nottwice graph."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pace import CHANGES, Change, Pace, given

import nottwice as nt

BODY = "x" * 500


def open_graph(
    folder: Path, *, store: str = "", checkpoints: str = "every_step", effect: bool = False
) -> tuple[str, Callable[..., float]]:
    """Open a graph whose nodes add 500 bytes, each durable before the next one."""
    dies_at = {"step": -1}

    @nt.tool("unsafe_on_replay", name="bench_effect")
    def send(number: int) -> str:
        return BODY

    flow = nt.Graph("loop", version="1.0.0", append=("log",), checkpoints=checkpoints)

    @flow.node(then={"more": "step", "done": nt.END}, most=10**9)
    def step(state: dict) -> nt.goto:
        number = state["number"]
        if number == dies_at["step"]:
            os._exit(9)
        added = send(number=number) if effect else BODY
        to = "done" if number + 1 >= state["steps"] else "more"
        return nt.goto(to, {"number": number + 1, "log": [added]})

    # Done once per process, before its first run. For the others: compile(), launch().
    flow.fingerprint()
    ledger = nt.Ledger(store or folder / "ours.db")

    def run(run_id: str, steps: int, *, dies: int = -1, resumes: bool = False) -> float:
        dies_at["step"] = dies
        given = None if resumes else {"number": 0, "steps": steps, "log": []}
        began = time.perf_counter()
        outcome = flow.run(run_id, given, store=ledger)
        assert outcome.state["number"] == steps
        return time.perf_counter() - began

    return "one commit a step", run


def open_graph_with_effects(folder: Path) -> tuple[str, Callable[..., float]]:
    """Like ``open_graph``, with one unsafe call per node, which no other library protects."""
    _, run = open_graph(folder, checkpoints="effects", effect=True)
    return "one protected effect a step", run


def open_change(folder: Path, *, change: Change) -> tuple[str, Callable[..., dict]]:
    """Open a node that returns what it changes, the way most people would write it first."""
    pace = {}
    flow = nt.Graph("changing", version="1.0.0", checkpoints="every_step")

    @flow.node(then={"more": "step", "done": nt.END}, most=10**9)
    def step(state: dict) -> nt.goto:
        number = state["number"] + 1
        to = "more" if pace["now"].step(number) else "done"
        return nt.goto(to, change(number, state))

    ledger = nt.Ledger(folder / "ours.db")

    def run(run_id: str, steps: int, *, beside: int) -> dict:
        pace["now"] = Pace(steps)
        flow.run(run_id, given(beside), store=ledger)
        return pace["now"].found()

    return "one commit a step", run


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import graph_worker

    openers = {name: partial(open_change, change=change) for name, change in CHANGES.items()}
    graph_worker.serve({"graph": open_graph, "effects": open_graph_with_effects, **openers})
