"""The same loop as the other files of this kind, as a LangGraph graph with its SqliteSaver."""

from __future__ import annotations

import operator
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from pace import CHANGES, Change, Pace, given

BODY = "x" * 500


class State(TypedDict):
    """The state of the loop."""

    number: int
    steps: int
    log: Annotated[list[str], operator.add]


def open_graph(folder: Path) -> tuple[str, Callable[..., float]]:
    """Open a graph whose nodes add 500 bytes to the state, durability="sync"."""
    dies_at = {"step": -1}

    def step(state: State) -> dict:
        if state["number"] == dies_at["step"]:
            os._exit(9)
        return {"number": state["number"] + 1, "log": [BODY]}

    def more(state: State) -> str:
        return END if state["number"] >= state["steps"] else "step"

    builder = StateGraph(State)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", more)
    graph = builder.compile(checkpointer=SqliteSaver(connect(folder)))

    def run(run_id: str, steps: int, *, dies: int = -1, resumes: bool = False) -> float:
        dies_at["step"] = dies
        # Passed as a flag, because looking up the existing state would count against it.
        given = None if resumes else {"number": 0, "steps": steps, "log": []}
        config = {"configurable": {"thread_id": run_id}, "recursion_limit": 100_000}
        began = time.perf_counter()
        state = graph.invoke(given, config, durability="sync")
        assert state["number"] == steps
        return time.perf_counter() - began

    return 'durability="sync"', run


class Changing(TypedDict):
    """A state of which a node replaces parts."""

    number: int
    notes: list[str]
    table: dict[str, dict]


def open_change(folder: Path, *, change: Change) -> tuple[str, Callable[..., dict]]:
    """Open a node that returns what it changes, durability="sync"."""
    pace = {}

    def step(state: Changing) -> dict:
        number = state["number"] + 1
        pace["more"] = pace["now"].step(number)
        return change(number, state)

    builder = StateGraph(Changing)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges("step", lambda state: "step" if pace["more"] else END)
    graph = builder.compile(checkpointer=SqliteSaver(connect(folder)))

    def run(run_id: str, steps: int, *, beside: int) -> dict:
        pace["now"] = Pace(steps)
        config = {"configurable": {"thread_id": run_id}, "recursion_limit": 100_000}
        graph.invoke(given(beside), config, durability="sync")
        return pace["now"].found()

    return 'durability="sync"', run


def connect(folder: Path) -> sqlite3.Connection:
    """Connect with the same durability as ours."""
    connection = sqlite3.connect(folder / "langgraph.db", check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import graph_worker

    openers = {name: partial(open_change, change=change) for name, change in CHANGES.items()}
    graph_worker.serve({"graph": open_graph, **openers})
