"""Five nodes: read a ticket, plan, mail, ask a person, pay. Tests record and replay its runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
WORLD = FOLDER / "approval-world.txt"


@dataclass
class Ticket:
    """What the run knows."""

    order_id: int
    customer: str = ""
    cents: int = 0
    decision: str = ""
    refund: str = ""


def in_the_world(call: nt.Call) -> nt.Verification:
    """Whether a call left its mark: every line of the world carries the id of its call."""
    lines = WORLD.read_text().splitlines() if WORLD.exists() else []
    found = [line for line in lines if call.id in line]
    return nt.happened(found[0].split()[0]) if found else nt.did_not_happen()


def happen(what: str) -> str:
    """Do something that cannot be taken back."""
    with WORLD.open("a") as world:
        world.write(f"{what} {nt.current_call().id}\n")
    return what


@nt.tool("pure")
def get_order(order_id: int) -> dict[str, Any]:
    """Look an order up."""
    return {"customer": "ann@example.com", "cents": 4000 + order_id}


@nt.tool("unsafe_on_replay", verify=in_the_world, settles="1s")
def send_email(to: str, body: str) -> str:
    """Tell the customer. It cannot be unsent."""
    return happen(f"email:{to}")


@nt.tool("unsafe_on_replay", verify=in_the_world, settles="1s")
def pay_refund(order_id: int, cents: int) -> str:
    """Move money."""
    return happen(f"refund:{order_id}:{cents}")


flow = nt.Graph("approval", version="1.0.0", state=Ticket)


@flow.node
def read_context(state: Ticket) -> dict[str, Any]:
    """Find out who the customer is."""
    return {"customer": get_order(order_id=state.order_id)["customer"]}


@flow.node
def plan(state: Ticket) -> dict[str, Any]:
    """Decide what to propose."""
    return {"cents": get_order(order_id=state.order_id)["cents"]}


@flow.node
def notify(state: Ticket) -> None:
    """Tell the customer that a person looks into it."""
    send_email(to=state.customer, body=f"We look into your refund of {state.cents} cents.")


@flow.node(then={"approve": "pay", "reject": nt.END})
def wait_for_approval(state: Ticket) -> str:
    """Stop here until a person has decided, for days if need be."""
    answer: str = nt.ask(
        f"Refund {state.cents} cents to {state.customer}?",
        options=["approve", "reject"],
        about={"order": state.order_id},
    )
    return answer


@flow.node
def pay(state: Ticket) -> dict[str, Any]:
    """Pay, once."""
    return {"refund": pay_refund(order_id=state.order_id, cents=state.cents)}


app = nt.App(graphs=[flow], store=FOLDER / "approval.db")


def main() -> None:
    """Start the run, resume it, or show how it ended."""
    outcome = app.run("approval", "ticket-7", {"order_id": 7})
    print(f"{outcome.run_id} is {outcome.status}: {outcome.state}")
    for review in outcome.reviews:
        print(f"  {review.summary}")
        print(f"  nottwice decide {review.review_id} approve --store {FOLDER / 'approval.db'}")


if __name__ == "__main__":
    main()
