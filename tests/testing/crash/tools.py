"""Tools and small agents for tests of the crash test; nothing here may ever run for real."""

from __future__ import annotations

import itertools
from typing import Any

import nottwice as nt

_COUNT = itertools.count()


@nt.tool("unsafe_on_replay", name="kit_mail")
def mail(to: str) -> str:
    raise AssertionError("it ran for real")


@nt.tool("idempotent_with_key", key="pay-{order}", window="24h", name="kit_pay")
def pay(order: int) -> dict[str, Any]:
    raise AssertionError("it ran for real")


@nt.tool("pure", name="kit_look")
def look(order: int) -> int:
    return order * 100


ANSWERS: dict[str, Any] = {"kit_mail": "mailed", "kit_pay": {"ok": True}}


def agent(store: str = "agent.db") -> str:
    with nt.run("ticket", store=store):
        with nt.step("pay"):
            pay(order=look(order=7))
        return mail(to="ann")


def one_look() -> int:
    with nt.run("ticket", store="agent.db"):
        return look(order=7)


def drifting() -> str:
    """An agent that asks for something else every time."""
    with nt.run("ticket", store="agent.db"):
        return mail(to=f"{next(_COUNT)} {id(object())} {nt.uuid(label='x')} {_noise()}")


def _noise() -> str:
    with open("/dev/urandom", "rb") as source:
        return source.read(8).hex()
