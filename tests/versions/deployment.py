"""Two versions of one graph to deploy side by side; copied into a folder and named with --app.

`KILL="before pay"` makes the process kill itself there, and `FAIL` lets the code fail there. Every
effect leaves a line with the id of its call in `world.txt`, where `verify` looks for it.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import nottwice as nt

WORLD = Path("world.txt")


def reach(place: str) -> None:
    if os.environ.get("KILL") == place:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ.get("FAIL") == place:
        raise RuntimeError(place)


def happened(call: nt.Call) -> nt.Verification:
    seen = WORLD.exists() and call.id in WORLD.read_text()
    return nt.happened("done") if seen else nt.did_not_happen()


def do(what: str, order: str) -> str:
    reach(f"before {what}")
    with WORLD.open("a") as file:
        file.write(f"{what} {order} {nt.current_call().id}\n")
    reach(f"after {what}")
    return "done"


@nt.tool("unsafe_on_replay", verify=happened, settles="1ms")
def pay(order: str) -> str:
    return do("pay", order)


@nt.tool("unsafe_on_replay", verify=happened, settles="1ms")
def mail(order: str) -> str:
    return do("mail", order)


def paying(state: dict[str, Any]) -> dict[str, Any]:
    return {"paid": pay(state["order"])}


def mailing(state: dict[str, Any]) -> dict[str, Any]:
    reach("between")
    return {"mailed": mail(state["order"])}


blue: nt.Graph[Any] = nt.Graph("refund", version="1.0.0")
blue.node(name="pay")(paying)
blue.node(name="notify")(mailing)

# The same with its second node renamed: what checkpoints of the old one cannot be resumed by.
green: nt.Graph[Any] = nt.Graph("refund", version="2.0.0")
green.node(name="pay")(paying)
green.node(name="tell")(mailing)


def upgrade(state: dict[str, Any]) -> dict[str, Any]:
    """Called by the process that migrates a run, and holds it at that moment."""
    reach("upgrade")
    return {**state, "upgraded": True}


old = nt.App(graphs=[blue])
new = nt.App(graphs=[green], admins=["ann"])
both = nt.App(graphs=[green, blue])
