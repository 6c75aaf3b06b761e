"""Tools for `nottwice check --smoke`: one whose upstream honours the key, and others."""

from __future__ import annotations

import os
import time

import nottwice as nt
from nottwice.testing import WorldClient

world = WorldClient(os.environ.get("WORLD_URL", "http://127.0.0.1:9"))
print("an import may print")


@nt.tool("idempotent_with_key", key="pay-{order}", window="24h")
def honest(order: str, cents: int) -> str:
    key = nt.current_call().key
    print("and a tool as well")
    told: str = world.do("pay", key=key, result="paid", delay_after=0.2, order=order, cents=cents)
    return told


@nt.tool("idempotent_with_key", key="pay-{order}", window="24h")
def costume(order: str, cents: int) -> str:
    told: str = world.do("pay", result="paid", order=order, cents=cents)
    return told


@nt.tool("idempotent_with_key", key="pay-{order}", window="24h")
async def racing(order: str, cents: int) -> str:
    """Looks first and acts then: enough for callers that come one after the other."""
    key = nt.current_call().key
    if world.find("pay", call_id=key) is None:
        time.sleep(0.3)
        world.do("pay", call_id=key, order=order, cents=cents)
    return "paid"


@nt.tool("idempotent_with_key", key="pay-{order}", window="24h")
def broken(order: str, cents: int) -> str:
    raise nt.Permanent("no such account")


@nt.tool("unsafe_on_replay")
def unsafe(order: str) -> None: ...
