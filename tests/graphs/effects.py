"""What did the nodes of a graph do to the world? Tools that remember it, and ways to run a graph.

Every helper opens the ledger in a process of its own (of the fake host), so whatever a test sees
in a second run was read from the ledger.
"""

from __future__ import annotations

import asyncio
from typing import Any

import nottwice as nt
from nottwice.model.review import Verb
from nottwice.reviews.decide import decide
from nottwice.store.memory import MemoryStore
from nottwice.testing import forget_tools
from tests.fakes import Host


class Crash(Exception):
    """Ends a node early, as a bug in user code would."""


class Effects:
    """An effect, a look at something, and a node that breaks while it is told to."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.looks: list[str] = []
        self.visited: list[str] = []
        self.broken: set[str] = set()
        world = self
        forget_tools()

        @nt.tool("unsafe_on_replay")
        def act(what: str) -> str:
            world.done.append(what)
            return f"did {what}"

        @nt.tool("pure")
        def look(what: str) -> str:
            world.looks.append(what)
            return f"saw {what}"

        self.act = act
        self.look = look

    def visit(self, node: str) -> None:
        """A node says that it runs; it breaks here as long as the test says so."""
        self.visited.append(node)
        if node in self.broken:
            raise Crash(node)


def graph(name: str = "flow", *, version: str = "1.0.0", **options: Any) -> nt.Graph[Any]:
    """A graph over a plain dict, unless the options say otherwise."""
    return nt.Graph(name, version=version, **options)


def run(host: Host, flow: nt.Graph[Any], given: Any = None, *, run_id: str = "r") -> Any:
    """Start or resume a run in a process of its own."""
    with host.process() as ledger:
        return flow.run(run_id, given, store=ledger)


def arun(host: Host, flow: nt.Graph[Any], given: Any = None, *, run_id: str = "r") -> Any:
    """The same in an event loop."""
    with host.process() as ledger:
        return asyncio.run(flow.arun(run_id, given, store=ledger))


def crash(host: Host, flow: nt.Graph[Any], given: Any = None, *, run_id: str = "r") -> str:
    """Run until a node raises ``Crash``, and say in which."""
    try:
        run(host, flow, given, run_id=run_id)
    except Crash as error:
        return str(error)
    raise AssertionError("no node broke")


def answer(host: Host, result: Any) -> None:
    """Answer the one open question, as a person would."""
    (review,) = host.open_reviews
    decide(
        MemoryStore(host.data),
        host.clock,
        review.review_id,
        Verb.ANSWER,
        by="ann",
        why="asked",
        result=result,
        has_result=True,
    )
