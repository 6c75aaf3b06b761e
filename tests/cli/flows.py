"""Graphs to run from a command line: copied into a folder and named there with --app.

No test imports it, because its tools would then be declared for all tests of the process.
`FLOW_KILL=send` makes the process kill itself inside that tool; `broken` in the folder makes
`ship` fail.
"""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import nottwice as nt


@dataclass
class Order:
    order_id: int
    answer: str = ""
    log: list[str] = field(default_factory=list)


def note(text: str) -> None:
    """Leave a trace in the world: the effects that really happened."""
    with Path("world.txt").open("a") as file:
        file.write(f"{text}\n")


@nt.tool("pure")
def look_up(order_id: int) -> int:
    print("look_up prints this")
    return order_id * 100


@nt.tool("unsafe_on_replay", verify=lambda call: nt.did_not_happen(), settles="1ms")
def send(to: str) -> str:
    if os.environ.get("FLOW_KILL") == "send":
        os.kill(os.getpid(), signal.SIGKILL)
    note(f"send {to}")
    return "sent"


@nt.tool("unsafe_on_replay")
def pay(cents: int) -> str:
    note(f"pay {cents}")
    subprocess.run(["echo", "a process prints this"], check=True)
    return "paid"


flow = nt.Graph("order", version="1.0.0", state=Order, append=["log"])


@flow.node
def read(state: Order) -> dict[str, object]:
    return {"log": [f"worth {look_up(order_id=state.order_id)}"]}


@flow.node
def charge(state: Order) -> dict[str, object]:
    return {"log": [pay(cents=state.order_id * 100)]}


@flow.node
def ship(state: Order) -> dict[str, object]:
    if Path("broken").exists():
        raise RuntimeError("the van \x1b[31mis broken")
    return {"log": [send(to=f"customer {state.order_id}")]}


asking = nt.Graph("asking", version="1.0.0")


@asking.node
def propose(state: dict[str, object]) -> dict[str, object]:
    return {"paid": pay(cents=7)}


@asking.node(then={"yes": "confirm", "no": nt.END})
def decide(state: dict[str, object]) -> str:
    return str(nt.ask("Ship it?", options=["yes", "no"]))


@asking.node
def confirm(state: dict[str, object]) -> dict[str, object]:
    return {"sent": send(to="ann")}


parent = nt.Graph("parent", version="1.0.0")


@parent.node
def delegate(state: dict[str, object]) -> dict[str, object]:
    return {"child": nt.spawn(asking, {}).state}


listening = nt.Graph("listening", version="1.0.0")


@listening.node
def listen(state: dict[str, object]) -> dict[str, object]:
    return {"heard": nt.receive("news")}


@listening.node
def rest(state: dict[str, object]) -> None:
    nt.sleep("30d", label="a long rest")


stopping = nt.Graph("stopping", version="1.0.0")


@stopping.node
def stop(state: dict[str, object]) -> None:
    if os.environ.get("FLOW_STOP") == "hold":
        # A pipe without a writer: it holds the run until the test releases it.
        Path("gate").read_text()
    if os.environ.get("FLOW_STOP") == "exit":
        raise SystemExit(7)
    if os.environ.get("FLOW_STOP") == "ctrl-c":
        os.kill(os.getpid(), signal.SIGINT)
        signal.pause()


app = nt.App(graphs=[flow, asking, parent, listening, stopping], admins=["ann"])
