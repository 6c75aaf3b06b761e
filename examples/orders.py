"""A hundred orders, processed by any number of workers. Kill any of them: no order ships twice.

    python examples/orders.py             # enqueue the orders; a second time changes nothing
    nottwice worker --app examples/orders.py:app --concurrency 16      # in as many windows

Large orders wait for a person: `nottwice reviews`, `nottwice decide`. Parcels are lines in a file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import nottwice as nt

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
SHIPPED = FOLDER / "shipped.txt"


def shipped(call: nt.Call) -> nt.Verification:
    """Every parcel contains the id of its call."""
    lines = SHIPPED.read_text().splitlines() if SHIPPED.exists() else []
    return nt.happened(None) if any(call.id in line for line in lines) else nt.did_not_happen()


@nt.tool("unsafe_on_replay", verify=shipped, settles="1s")
def ship(order: int) -> None:
    """Ship one parcel."""
    with SHIPPED.open("a") as file:
        file.write(f"order-{order} {nt.current_call().id}\n")


flow = nt.Graph("order", version="1.0.0")


@flow.node
def check(state: dict[str, Any]) -> dict[str, Any] | None:
    """Ask a person about orders for more than 95."""
    if state["worth"] > 95:
        return {"answer": nt.ask(f"Ship for {state['worth']}?", options=["yes", "no"])}
    return None


@flow.node
def send(state: dict[str, Any]) -> None:
    if state.get("answer", "yes") == "yes":
        ship(order=state["worth"])


app = nt.App(graphs=[flow], store=FOLDER / "orders.db")


def main() -> None:
    """Enqueue a hundred orders."""
    orders = {f"order-{number}": {"worth": number} for number in range(1, 101)}
    new = app.enqueue_all("order", orders)
    print(f"{new} new orders, {len(orders) - new} already enqueued")


if __name__ == "__main__":
    main()
