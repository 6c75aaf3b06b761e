"""A model that behaves as badly as small models do, and an agent that must live with it.

From turn to turn it finds other words for its mail, asks for the very same again and again, sends
wrong types, broken JSON and tools that are not there, gives every call the same id, asks for many
things in one reply, and labels repeats as it likes. Its words in a turn follow from the seed alone,
so that a process that was killed can be compared with nothing but the world: a file of lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.agent.messages import Text, ToolCall
from nottwice.agent.provider import ModelRequest
from nottwice.store.sqlite.store import SqliteStore
from tests.kill.stores import KillingStore

TURNS, RUN = 24, "erratic"
IN_ORDER = ("write", "commit", "push")
Reach = Callable[[str], None]


class Desk:
    """What the tools do to the world: a line for each effect, which no kill takes back."""

    def __init__(self, folder: Path, reach: Reach = lambda place: None) -> None:
        self.folder = folder
        self._file = folder / "effects.jsonl"
        self._reach = reach

    @property
    def lines(self) -> list[dict[str, Any]]:
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text().splitlines()]

    def do(self, *what: Any) -> str:
        call = nt.current_call()
        self._reach("before effect")
        if call.key is None or all(line["key"] != call.key for line in self.lines):
            line = {"tool": call.tool, "what": list(what), "call": call.id, "key": call.key}
            with self._file.open("a") as file:
                file.write(json.dumps(line) + "\n")
        self._reach("after effect")
        return f"{call.tool} {call.id[:8]}"

    def find(self, call_id: str) -> str | None:
        """What a person, or ``verify``, finds out about a call."""
        found = [line for line in self.lines if line["call"] == call_id]
        return f"{found[0]['tool']} {call_id[:8]}" if found else None

    def look(self, call: nt.Call) -> nt.Verification:
        found = self.find(call.id)
        return nt.did_not_happen() if found is None else nt.happened(found)

    def tools(self) -> list[Any]:
        seen: dict[str, Any] = {"verify": self.look, "settles": "1ms"}

        @nt.tool("pure", name="erratic_look")
        def look(order_id: int) -> dict[str, int]:
            return {"order_id": order_id, "lines": len(self.lines)}

        @nt.tool("unsafe_on_replay", name="erratic_refund")
        def refund(order_id: int, cents: int) -> str:
            return self.do(order_id, cents)

        @nt.tool("unsafe_on_replay", name="erratic_mail", once_per=("to", "order_id"), **seen)
        def mail(to: str, order_id: int, subject: str, text: str = "") -> str:
            return self.do(to, order_id)

        @nt.tool("idempotent_with_key", name="erratic_pay", key="pay-{order_id}", window="24h")
        def pay(order_id: int, cents: int) -> str:
            return self.do(order_id)

        @nt.tool("unsafe_on_replay", name="erratic_ring", parallel=True)
        def ring(order_id: int) -> str:
            return self.do(order_id)

        def step(name: str) -> Any:
            @nt.tool("unsafe_on_replay", name=f"erratic_{name}", **seen)
            def one(batch: int) -> str:
                return self.do(batch)

            return one

        return [look, refund, mail, pay, ring, *map(step, IN_ORDER)]


def say(seed: int, request: ModelRequest) -> Any:
    """What the model says in this turn: the same whenever it is asked."""
    check_ids(request)
    chance = random.Random(f"{seed} {request.turn}")
    if request.turn > TURNS:
        return "I am done, I think."
    if request.turn in range(8, 16):
        # It goes round in circles, until a person is asked about it.
        return [called("erratic_look", order_id=1)]
    blocks = [whim(chance, request.turn) for _ in range(chance.choice((1, 1, 2, 4)))]
    return [each for whims in blocks for each in whims]


def whim(chance: random.Random, turn: int) -> list[Any]:
    order = chance.randint(1, 3)
    words = chance.choice(("Hello", "Dear Ann", "Hi!", "Good news:")) + f" {chance.random()}"
    mail = {"to": "ann", "order_id": order, "subject": words, "text": words * chance.randint(1, 9)}
    match chance.randint(1, 12):
        case 1 | 2:
            return [called("erratic_mail", **mail)]
        case 3:
            return [called("erratic_mail", **mail, repeat=f"label {chance.randint(1, 3)}")]
        case 4:
            return [called("erratic_refund", order_id=order, cents=100)] * 2
        case 5:
            repeat = f"again {chance.randint(1, 2)}"
            return [called("erratic_refund", order_id=order, cents=100, repeat=repeat)]
        case 6:
            return [called(f"erratic_{name}", batch=turn) for name in IN_ORDER]
        case 7:
            return [called("erratic_pay", order_id=order, cents=chance.choice((1, 2)))]
        case 8:
            return [called("erratic_ring", order_id=each) for each in (1, 2, 3)]
        case 9:
            odd: list[Any] = ["seven", None, [], {"id": 1}, 1.5, "7"]
            return [called("erratic_refund", order_id=chance.choice(odd), cents=chance.choice(odd))]
        case 10:
            broken = ToolCall("same", "erratic_refund", {}, unreadable='{"order_id": 7, "cen')
            return [broken, called("erratic_refnd", order_id=order), Text("Hm.")]
        case 11:
            return [
                called("make_plan", steps=chance.choice((["a", "b"], "a", [1], None))),
                called("finish_step", evidence=chance.choice(("seen", "", 3))),
                called("recall", first=chance.choice((0, -5, "x")), last=10**9),
                called("show_evidence", condition=9, evidence="I said so"),
            ]
        case _:
            return [called("erratic-helper", goal=f"tell customer {order}"), Text("Help!")]


def called(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("same", name, arguments)


def help_out(request: ModelRequest) -> Any:
    """What the worker says: it writes to the customer that it was told of, in words of its own."""
    check_ids(request)
    if request.turn > 2:
        return "The customer knows."
    number = int(request.messages[0].text.split("customer ")[1].split()[0])
    return [
        called("erratic_mail", to=f"customer {number}", order_id=number, subject=f"{request.turn}")
    ]


def check_ids(request: ModelRequest) -> None:
    """What every API checks: no id twice, and no result of a call that is not there."""
    calls = [call.id for message in request.messages for call in message.tool_calls]
    answers = [one.call_id for message in request.messages for one in message.tool_results]
    assert len(set(calls)) == len(calls), calls
    assert answers == calls, (calls, answers)


def make_agent(desk: Desk, seed: int) -> nt.Agent:
    tools = desk.tools()
    provider = nt.providers.scripted
    helper = nt.Agent("erratic-helper", version="1.0.0", provider=provider(help_out), tools=tools)
    return nt.Agent(
        "erratic",
        version="1.0.0",
        provider=provider(lambda request: say(seed, request)),
        tools=[*tools, helper],
        context_tokens=700,
    )


def live(folder: Path, seed: int, die_at: int | None) -> None:
    """One life of the process: until it dies, waits or is done. What it came to is in a file."""
    reached = 0

    def reach(place: str) -> None:
        nonlocal reached
        reached += 1
        if reached == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    store: Any = KillingStore(SqliteStore(str(folder / "agent.db"), now=time.time()), reach)
    agent = make_agent(Desk(folder, reach), seed)
    if seed % 2:
        outcome = asyncio.run(agent.arun(RUN, goal="close all orders", store=store))
    else:
        outcome = agent.run(RUN, goal="close all orders", store=store)
    (folder / "status.txt").write_text(outcome.status)
