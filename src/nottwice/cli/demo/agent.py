"""The agent that ``nottwice demo`` kills: look up an order, refund it, e-mail the customer.

The line above each tool says what a second run of it would do. The rest is ordinary code.
"""

import os
import sys
from dataclasses import dataclass

import nottwice as nt
from nottwice.testing import WorldClient

shop = WorldClient(os.environ.get("SHOP_URL", "http://127.0.0.1:8000"))


@dataclass(frozen=True)
class Order:
    cents: int
    email: str


# It only reads: a second run changes nothing.
@nt.tool("pure")
def get_order(order_id: int) -> Order:
    return Order(cents=4000, email=f"customer-{order_id}@example.com")


def find_refund(call: nt.Call) -> nt.Verification:
    """Did it happen? The shop knows each refund by the id of the call that asked for it."""
    found = shop.find("refund", call_id=call.id)
    return nt.happened(None) if found else nt.did_not_happen()


# A second run would pay twice. But the shop can be asked what it has.
@nt.tool("unsafe_on_replay", verify=find_refund, settles="1s")
def refund(order_id: int, cents: int) -> None:
    shop.do("refund", call_id=nt.current_call().id, order_id=order_id, cents=cents)


# A second run would mail twice, and only a person can tell whether it did.
@nt.tool("unsafe_on_replay")
def send_email(to: str, order_id: int) -> None:
    shop.do("send_email", to=to, order_id=order_id)


def handle(ticket: str, order_id: int, store: str | nt.Ledger) -> None:
    """Start a ticket, or continue it after a crash: it is the same call."""
    with nt.run(ticket, store=store):
        order = get_order(order_id)
        refund(order_id, order.cents)
        send_email(order.email, order_id)


if __name__ == "__main__":
    handle(sys.argv[1], int(sys.argv[2]), store=sys.argv[3])
