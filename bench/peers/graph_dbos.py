"""The same loop as the other files of this kind, as a DBOS workflow on SQLite."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dbos import DBOS, SetWorkflowID
from pace import CHANGES, Change, Pace, given

BODY = "x" * 500


def open_graph(
    folder: Path, *, database: str = "", twice: bool = False
) -> tuple[str, Callable[..., float]]:
    """Open a workflow whose steps each return 500 bytes. DBOS records every step's result.

    ``twice``: add another step before each step, which records what is about to be done.
    """
    dies_at = {"step": -1}
    logging.disable(logging.CRITICAL)
    DBOS(
        config={
            "name": "bench",
            "system_database_url": database or f"sqlite:///{folder / 'dbos.db'}",
            "run_admin_server": False,
            "log_level": "CRITICAL",
        }
    )

    @DBOS.step()
    def step(number: int) -> str:
        if number == dies_at["step"]:
            os._exit(9)
        return BODY

    @DBOS.step()
    def before(number: int) -> dict:
        return {"number": number}

    @DBOS.workflow()
    def loop(steps: int) -> int:
        for number in range(steps):
            if twice:
                before(number)
            step(number)
        return steps

    launched = time.perf_counter()
    DBOS.launch()

    def run(run_id: str, steps: int, *, dies: int = -1, resumes: bool = False) -> float:
        nonlocal launched
        dies_at["step"] = dies
        began = time.perf_counter()
        if resumes:
            # launch() resumed it, so that is when the resume started.
            assert DBOS.retrieve_workflow(run_id).get_result() == steps
            return time.perf_counter() - launched
        with SetWorkflowID(run_id):
            assert loop(steps) == steps
        return time.perf_counter() - began

    return "a record before and after" if twice else "one record after a step", run


def open_change(folder: Path, *, change: Change) -> tuple[str, Callable[..., dict]]:
    """Open a workflow whose step returns what it changes. DBOS records that and no state."""
    pace = {}
    logging.disable(logging.CRITICAL)
    url = f"sqlite:///{folder / 'dbos.db'}"
    DBOS(config={"name": "bench", "system_database_url": url, "run_admin_server": False})

    @DBOS.step()
    def step(number: int, state: dict) -> dict:
        pace["more"] = pace["now"].step(number)
        return change(number, state)

    @DBOS.workflow()
    def loop(state: dict) -> int:
        pace["more"] = True
        while pace["more"]:
            state = {**state, **step(state["number"] + 1, state)}
        return state["number"]

    DBOS.launch()

    def run(run_id: str, steps: int, *, beside: int) -> dict:
        pace["now"] = Pace(steps)
        with SetWorkflowID(run_id):
            loop(given(beside))
        return pace["now"].found()

    return "one record after a step", run


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import graph_worker

    openers = {name: partial(open_change, change=change) for name, change in CHANGES.items()}
    graph_worker.serve({"graph": open_graph, **openers})
