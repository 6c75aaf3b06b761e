"""Is a ledger driven by the driver that it was opened with, whatever runs in it?"""

from __future__ import annotations

import asyncio
from typing import Any

import nottwice as nt
from nottwice.engine.asks import Ask, Fire, Invoked
from nottwice.engine.drivers import USUAL
from nottwice.engine.host import Host
from nottwice.store.memory import MemoryStore


class Answering:
    """A driver that answers for tools itself, and leaves the rest to the usual one."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def answer(self, ask: Ask, host: Host) -> Any:
        self.asked.append(type(ask).__name__)
        return self._answer(ask) if isinstance(ask, Fire) else USUAL.answer(ask, host)

    async def answer_async(self, ask: Ask, host: Host) -> Any:
        self.asked.append(type(ask).__name__)
        return self._answer(ask) if isinstance(ask, Fire) else await USUAL.answer_async(ask, host)

    def _answer(self, fire: Fire) -> Invoked:
        fire.in_flight.body_ended()
        return Invoked(value=f"not {fire.tool.name}", invoked=True)


@nt.tool("unsafe_on_replay")
def host_pay(order: int) -> str:
    raise AssertionError("the driver answers")


@nt.tool("unsafe_on_replay")
async def host_pay_later(order: int) -> str:
    raise AssertionError("the driver answers")


def test_a_block_a_graph_and_its_branches_are_driven_by_it() -> None:
    driver = Answering()
    ledger = nt.Ledger(MemoryStore(), driver=driver)
    with ledger.run("block"):
        assert host_pay(1) == "not host_pay"
    flow = nt.Graph("hosted", version="1.0.0")

    @flow.node
    def node(state: dict[str, Any]) -> dict[str, Any]:
        return {"paid": nt.map(host_pay, [1, 2])}

    assert flow.run("graph", {}, store=ledger).state == {"paid": ["not host_pay"] * 2}
    assert driver.asked.count("Fire") == 3
    assert {"Read", "Write", "Visit"} <= set(driver.asked)


def test_an_async_block_is_driven_by_it() -> None:
    driver = Answering()

    async def main() -> str:
        async with nt.Ledger(MemoryStore(), driver=driver).run("block"):
            return await host_pay_later(1)

    assert asyncio.run(main()) == "not host_pay_later"
    assert driver.asked.count("Fire") == 1


def test_with_another_policy_it_is_still_the_same_driver() -> None:
    driver = Answering()
    ledger = nt.Ledger(MemoryStore(), driver=driver)
    with ledger.run("block", policy=lambda call: nt.policy.allow()):
        assert host_pay(1) == "not host_pay"
    assert "Rule" in driver.asked
