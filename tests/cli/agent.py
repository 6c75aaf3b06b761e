"""A little agent to kill: copied into a folder, run there, and named there with --app.

No test imports it, because its tools would then be declared for all tests of the process.
`AGENT_KILL=refund` makes the process kill itself inside that tool, before anything took effect.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nottwice as nt


@dataclass
class Mail:
    id: str
    words: int = 0


def die_in(tool: str) -> None:
    if os.environ.get("AGENT_KILL") == tool:
        os.kill(os.getpid(), signal.SIGKILL)


def mail_in_outbox(call: nt.Call) -> nt.Verification:
    print("The hook prints this.")
    if Path("broken").exists():
        raise RuntimeError(Path("broken").read_text(encoding="utf-8"))
    outbox = Path("outbox.json")
    if outbox.exists() and call.id in json.loads(outbox.read_text()):
        return nt.happened(Mail(id=call.id))
    return nt.cannot_tell()


@nt.tool("pure")
def get_order(order_id: int) -> dict[str, Any]:
    return {"id": order_id, "cents": 4000}


@nt.tool("unsafe_on_replay")
def refund(order_id: int, cents: int) -> dict[str, Any]:
    die_in("refund")
    return {"refunded": cents}


@nt.tool("idempotent_with_key", key="label-{order_id}", window="24h")
def print_label(order_id: int) -> str:
    die_in("print_label")
    return f"label {nt.current_call().key}"


@nt.tool("unsafe_on_replay", verify=mail_in_outbox)
def send_email(to: str, body: str) -> Mail:
    die_in("send_email")
    return Mail(id=nt.current_call().id, words=len(body.split()))


@nt.tool("unsafe_on_replay", approve="24h")
def pay_out(order_id: int, cents: int) -> str:
    die_in("pay_out")
    return f"paid out {cents}"


def desk(run_id: str) -> None:
    """Ask twice, need an approval, wait for an event: one after the other, each in its own time."""
    with nt.run(run_id, store="agent.db"), nt.step("desk"):
        nt.ask("Refund 4000 cents?", options=["approve", "not now"], about={"order": 7})
        text = nt.ask("What shall we write?")
        paid = pay_out(order_id=7, cents=4000)
        seen = nt.receive("seen", within="7d")
        print(json.dumps({"text": text, "paid": paid, "seen": seen}))


def handle(run_id: str, to: str = "ann@example.com") -> None:
    with nt.run(run_id, store="agent.db"):
        order = get_order(order_id=7)
        refund(order_id=7, cents=order["cents"])
        print_label(order_id=7)
        with nt.step("notify", at=1):
            send_email(to=to, body="Your money is on its way.")


def drift(run_id: str) -> None:
    """Refund in a step and fail; the second time, mail in the same step instead."""
    with nt.run(run_id, store="agent.db"), nt.step("settle"):
        if Path("drifted").exists():
            send_email(to="ann@example.com", body="Hello.")
        refund(order_id=8, cents=100)
        Path("drifted").touch()
        raise LookupError("no such order")


def many(run_id: str, number: int) -> None:
    with nt.run(run_id, store="agent.db"):
        refund(order_id=1, cents=1)
        for order_id in range(number):
            get_order(order_id=order_id)
        print_label(order_id=9)


if __name__ == "__main__":
    mode, name = sys.argv[1:3]
    if mode == "hostile":
        handle(name, to=os.environ["AGENT_TO"])
    elif mode == "drift":
        drift(name)
    elif mode == "desk":
        desk(name)
    elif mode == "many":
        many(name, 120)
    else:
        handle(name)
