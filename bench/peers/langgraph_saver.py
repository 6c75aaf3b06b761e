"""One conversation that grows by 500 characters per step, on a LangGraph saver of choice."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

BODY = "x" * 500
Opened = tuple[str, Callable[..., float]]


class State(TypedDict):
    """The state of the conversation."""

    messages: Annotated[list[AnyMessage], add_messages]
    number: int
    steps: int


def open_graph(saver: Any) -> Opened:
    """Open a graph whose node adds a message, durability="sync"."""
    dies_at = {"step": -1}

    def step(state: State) -> dict:
        if state["number"] == dies_at["step"]:
            os._exit(9)
        return {"messages": [AIMessage(BODY)], "number": state["number"] + 1}

    builder = StateGraph(State)
    builder.add_node("step", step)
    builder.add_edge(START, "step")
    builder.add_conditional_edges(
        "step", lambda state: "step" if state["number"] < state["steps"] else END
    )
    graph = builder.compile(checkpointer=saver)

    def run(run_id: str, steps: int, *, dies: int = -1, resumes: bool = False) -> float:
        dies_at["step"] = dies
        given = None if resumes else {"messages": [], "number": 0, "steps": steps}
        config = {"configurable": {"thread_id": run_id}, "recursion_limit": 1_000_000}
        began = time.perf_counter()
        state = graph.invoke(given, config, durability="sync")
        assert len(state["messages"]) == steps
        return time.perf_counter() - began

    return 'durability="sync"', run


def open_ours(folder: Path) -> Opened:
    """Open our saver, on SQLite or on the server whose URL is in the folder."""
    from nottwice.langchain import NottwiceSaver

    url = folder / "url"
    return open_graph(NottwiceSaver(url.read_text() if url.exists() else folder / "agent.db"))


def open_sqlite(folder: Path) -> Opened:
    """Open LangGraph's own saver with the same durability as ours."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(folder / "langgraph.db", check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return open_graph(SqliteSaver(connection))


def open_postgres(folder: Path) -> Opened:
    """Open LangGraph's own saver on the server whose URL is in the folder."""
    from langgraph.checkpoint.postgres import PostgresSaver
    from psycopg import connect
    from psycopg.rows import dict_row

    url = (folder / "url").read_text()
    connection = connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    saver = PostgresSaver(connection)
    saver.setup()
    return open_graph(saver)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import graph_worker

    graph_worker.serve({"ours": open_ours, "sqlite": open_sqlite, "postgres": open_postgres})
