"""Does an agent stay as fast and as small as at its start, however long it talks?

An agent reads 2 KB in every turn, for 2,000 turns, in SQLite with WAL and synchronous=FULL. Its
process dies in the last turn, and a new one resumes. It prints bytes and time per turn, the last
hundred against the first hundred, and how long the new process takes until it calls the model. With
--peer, the same transcript goes through LangGraph with its SqliteSaver, up to --peer-turns. That
writes the whole transcript in every step, so 2,000 turns would take gigabytes.

    python bench/agent.py [--turns 2000] [--peer] [--peer-turns 300] [--json]
"""

from __future__ import annotations

import argparse
import json
import operator
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any, TypedDict

HERE = Path(__file__).parent
BODY = "x" * 2000
SPAN = 100


class Marks:
    """When each turn started, and how large the ledger was then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.times: list[float] = []
        self.sizes: list[int] = []

    def turn(self) -> None:
        self.times.append(time.perf_counter())
        # A reader also sees what is still in the write-ahead log.
        with sqlite3.connect(self._path) as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.close()
        self.sizes.append(pages * 4096)

    def figures(self) -> dict[str, float]:
        span = min(SPAN, len(self.times) // 3)
        took = [after - before for before, after in zip(self.times, self.times[1:], strict=False)]
        first, last = took[1 : span + 1], took[-span:]
        early = (self.sizes[span] - self.sizes[0]) / span
        late = (self.sizes[-1] - self.sizes[-1 - span]) / span
        whole = (self.sizes[-1] - self.sizes[0]) / (len(self.sizes) - 1)
        return {
            "turns": len(self.times),
            "bytes a turn, first": round(early),
            "bytes a turn, last": round(late),
            "bytes a turn, all": round(whole),
            "ms a turn, first": round(1e3 * statistics.median(first), 2),
            "ms a turn, last": round(1e3 * statistics.median(last), 2),
            "ms a turn, all": round(1e3 * statistics.fmean(took), 2),
        }


def ours(folder: Path, turns: int) -> None:
    """Talk, and die in the last turn."""
    import nottwice as nt

    marks = Marks(folder / "ours.db")

    def reply(request: Any) -> Any:
        marks.turn()
        if request.turn >= turns:
            (folder / "ours.json").write_text(json.dumps(marks.figures()))
            os._exit(9)
        return {"read": {"number": request.turn}}

    _agent(nt, reply).run("long", goal="read", store=folder / "ours.db")


def resume(folder: Path) -> None:
    """Resume where the other process died, up to the request to the model."""
    import nottwice as nt

    def reply(request: Any) -> Any:
        print(round(1e3 * (time.perf_counter() - began), 1))
        return "done"

    agent = _agent(nt, reply)
    # Done once per process, before its first run.
    agent.fingerprint()
    began = time.perf_counter()
    agent.run("long", store=folder / "ours.db")


def _agent(nt: Any, reply: Any) -> Any:
    @nt.tool("pure", name="read")
    def read(number: int) -> str:
        return BODY

    provider = nt.providers.scripted(reply)
    agent = nt.Agent(
        "reader",
        version="1.0.0",
        provider=provider,
        tools=[read],
        context_tokens=20_000,
        budget=nt.Budget(turns=None),
    )
    agent.kept = read
    return agent


class State(TypedDict):
    """The state of the LangGraph graph."""

    messages: Annotated[list[dict[str, str]], operator.add]


def langgraph(folder: Path, turns: int) -> None:
    """Run the same transcript as a LangGraph graph: a node that asks, a node that reads."""
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END, START, StateGraph

    path = folder / "langgraph.db"
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    marks = Marks(path)

    def ask(state: Any) -> dict[str, Any]:
        marks.turn()
        return {"messages": [{"role": "assistant", "call": f"read({len(state['messages'])})"}]}

    def read(state: Any) -> dict[str, Any]:
        return {"messages": [{"role": "tool", "content": BODY}]}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("read", read)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "read")
    builder.add_conditional_edges(
        "read", lambda state: END if len(state["messages"]) >= 2 * turns else "ask"
    )
    graph = builder.compile(checkpointer=SqliteSaver(connection))
    config: Any = {"configurable": {"thread_id": "long"}, "recursion_limit": 10**6}
    graph.invoke({"messages": []}, config, durability="sync")
    (folder / "langgraph.json").write_text(json.dumps(marks.figures()))


def measure(folder: Path, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    figures: dict[str, dict[str, Any]] = {}
    _child(sys.executable, "ours", folder, options.turns, expected=9)
    figures["nottwice"] = json.loads((folder / "ours.json").read_text())
    took = _child(sys.executable, "resume", folder, 0)
    figures["nottwice"]["ms to resume"] = float(took)
    if options.peer:
        sys.path.insert(0, str(HERE))
        from graph_peers import LANGGRAPH
        from peers import ENVIRONMENTS, prepare_environment

        ENVIRONMENTS.mkdir(exist_ok=True)
        prepare_environment(LANGGRAPH)
        _child(str(LANGGRAPH.python), "langgraph", folder, options.peer_turns)
        figures[LANGGRAPH.library] = json.loads((folder / "langgraph.json").read_text())
    return figures


def _child(python: str, what: str, folder: Path, turns: int, *, expected: int = 0) -> str:
    ended = subprocess.run(
        [python, __file__, "--part", what, "--folder", str(folder), "--turns", str(turns)],
        capture_output=True,
        text=True,
    )
    if ended.returncode != expected:
        raise SystemExit(f"{what} ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return ended.stdout


def report(figures: dict[str, dict[str, Any]]) -> None:
    """Print the figures side by side, for people."""
    names = list(dict.fromkeys(name for found in figures.values() for name in found))
    print(f"{'':<24}" + "".join(f"{library:>24}" for library in figures))
    for name in names:
        cells = (found.get(name) for found in figures.values())
        shown = ("" if cell is None else f"{cell:,}" for cell in cells)
        print(f"{name:<24}" + "".join(f"{cell:>24}" for cell in shown))


def main() -> int:
    """Run everything and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--peer-turns", type=int, default=300)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--part", choices=("ours", "resume", "langgraph"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help="folder for the databases; /tmp may be memory")
    options = parser.parse_args()
    if options.part == "ours":
        ours(options.folder, options.turns)
    elif options.part == "resume":
        resume(options.folder)
    elif options.part == "langgraph":
        langgraph(options.folder, options.turns)
    else:
        with tempfile.TemporaryDirectory(dir=options.folder or HERE) as name:
            figures = measure(Path(name), options)
        print(json.dumps(figures, indent=2)) if options.json else report(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
