"""What does a process do that pays for 100 answers? Each request is a line in a file.

    python -m tests.kill.paid_programs LAYER STORE FILE TURNS [DIE_AT]

It dies by SIGKILL while request number DIE_AT is under way: paid for, and not yet answered.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import nottwice as nt


class Model:
    """Counts requests where a kill cannot reach, and dies on one of them."""

    def __init__(self, file: Path, die_at: int | None) -> None:
        self._file = file
        self._die_at = die_at

    def ask(self, turn: int) -> str:
        with self._file.open("a") as lines:
            lines.write(f"{turn}\n")
        if self._die_at == len(self._file.read_text().splitlines()):
            os.kill(os.getpid(), signal.SIGKILL)
        return f"reply {turn}"


def by_guard(model: Model, store: str, turns: int) -> None:
    """As docs/guides/steps-and-loops.md says."""

    @nt.tool("pure", volatile="*")
    def ask_model(turn: int) -> str:
        return model.ask(turn)

    with nt.run("r", store=store):
        for turn in range(turns):
            with nt.step("turn", at=turn):
                assert ask_model(turn) == f"reply {turn}"


async def _guard_async(model: Model, store: str, turns: int) -> None:
    @nt.tool("pure", durable=True)
    async def ask_model(turn: int) -> str:
        return model.ask(turn)

    async with nt.run("r", store=store):
        for turn in range(turns):
            async with nt.step("turn", at=turn):
                assert await ask_model(turn) == f"reply {turn}"


def by_guard_async(model: Model, store: str, turns: int) -> None:
    """The same in an event loop, by a tool that says so itself."""
    asyncio.run(_guard_async(model, store, turns))


def by_recorded(model: Model, store: str, turns: int) -> None:
    """The same without a tool."""
    with nt.run("r", store=store):
        for turn in range(turns):
            reply = nt.recorded(f"reply {turn}", functools.partial(model.ask, turn))
            assert reply == f"reply {turn}"


async def _recorded_async(model: Model, store: str, turns: int) -> None:
    async def ask(turn: int) -> str:
        return model.ask(turn)

    async with nt.run("r", store=store):
        for turn in range(turns):
            async with nt.step("turn", at=turn):
                reply = await nt.recorded("reply", functools.partial(ask, turn))
                assert reply == f"reply {turn}"


def by_recorded_async(model: Model, store: str, turns: int) -> None:
    asyncio.run(_recorded_async(model, store, turns))


def by_graph(model: Model, store: str, turns: int, *, checkpoints: str = "effects") -> None:
    """The same as a loop of a graph."""
    flow = nt.Graph("paid", version="1.0.0", checkpoints=checkpoints)

    @nt.tool("pure", volatile="*")
    def ask_model(turn: int) -> str:
        return model.ask(turn)

    @flow.node(then={"again": "turn", "end": nt.END})
    def turn(state: dict[str, Any]) -> Any:
        assert ask_model(state["turn"]) == f"reply {state['turn']}"
        done = state["turn"] + 1
        return nt.goto("again" if done < turns else "end", {"turn": done})

    assert flow.run("r", {"turn": 0}, store=store).status == "completed"


def by_graph_on_exit(model: Model, store: str, turns: int) -> None:
    by_graph(model, store, turns, checkpoints="on_exit")


def by_agent(model: Model, store: str, turns: int) -> None:
    """The same as the loop of an agent."""

    @nt.tool("pure")
    def look(turn: int) -> int:
        return turn

    def reply(request: Any) -> Any:
        model.ask(request.turn)
        return "done" if request.turn == turns else [{"look": {"turn": request.turn}}]

    agent = nt.Agent("paid", version="1.0.0", provider=nt.providers.scripted(reply), tools=[look])
    assert agent.run("r", goal="look", store=store).status == "completed"


if __name__ == "__main__":
    layer, place, lines, count, *die_at = sys.argv[1:]
    asked = Model(Path(lines), int(die_at[0]) if die_at else None)
    globals()[f"by_{layer}"](asked, place, int(count))
