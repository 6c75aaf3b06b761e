"""An agent with tools and a script, on a host whose processes come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import nottwice as nt
from nottwice.agent.provider import ModelReply, ModelRequest, Price
from nottwice.agent.providers.scripted import ScriptedProvider
from nottwice.agent.state import RunState
from nottwice.testing import forget_tools
from tests.fakes import Host

GOAL = "close ticket 7"


class World:
    """What the tools did, and how often the model was asked, across all processes."""

    def __init__(self) -> None:
        self.effects: list[tuple[Any, ...]] = []
        self.reads = 0
        self.requests: list[ModelRequest] = []
        self.trouble: dict[str, list[BaseException]] = {}
        """What the tools raise before they do anything, by tool."""

    def stumble(self, tool: str) -> None:
        if self.trouble.get(tool):
            raise self.trouble[tool].pop(0)

    def tools(self) -> list[Any]:
        """A read, an unsafe effect without verify, one with, and a keyed one."""

        @nt.tool("pure", name="get_order")
        def get_order(order_id: int) -> dict[str, int]:
            """Look an order up."""
            self.stumble("get_order")
            self.reads += 1
            return {"order_id": order_id, "cents": 4000}

        @nt.tool("unsafe_on_replay", name="send_mail", repeat="free")
        def send_mail(to: str, text: str) -> str:
            """Send a mail."""
            self.stumble("send_mail")
            self.effects.append(("mail", to, text))
            return f"mail {len(self.effects)}"

        def look(call: nt.Call) -> nt.Verification:
            found = [one for one in self.effects if one[:2] == ("refund", call.args["order_id"])]
            return nt.happened({"refunded": found[0][2]}) if found else nt.did_not_happen()

        @nt.tool("unsafe_on_replay", name="refund", verify=look, settles="1ms")
        def refund(order_id: int, cents: int) -> dict[str, int]:
            """Refund an order."""
            self.stumble("refund")
            self.effects.append(("refund", order_id, cents))
            return {"refunded": cents}

        @nt.tool("idempotent_with_key", name="post", key="post-{text}", window="24h")
        def post(text: str) -> str:
            """Post a comment."""
            key = nt.current_call().key
            if ("post", key) not in self.effects:
                self.effects.append(("post", key))
            return "posted"

        return [get_order, send_mail, refund, post]


class CountingProvider(ScriptedProvider):
    """A scripted model that reports every request to the world."""

    def __init__(self, world: World, script: Any, price: Price | None) -> None:
        super().__init__(script, model="scripted-1", price=price, log=None)
        self._world = world

    def complete(self, request: ModelRequest) -> ModelReply:
        self._world.requests.append(request)
        return super().complete(request)


class Workshop:
    """A host, a world, and an agent that lives through processes."""

    def __init__(self, script: Any, **options: Any) -> None:
        self.host = Host()
        self.world = World()
        self.agent = self.make(script, **options)

    def make(
        self,
        script: Iterable[Any] | Callable[[ModelRequest], Any],
        *,
        name: str = "triage",
        tools: Iterable[Any] | None = None,
        price: Price | None = Price(1.0, 5.0),  # noqa: B008
        **options: Any,
    ) -> nt.Agent:
        if tools is None:
            # Another workshop of the same test is another program.
            forget_tools()
        self.kept = list(self.world.tools()) if tools is None else list(tools)
        provider = CountingProvider(self.world, script, price)
        return nt.Agent(name, version="1.0.0", provider=provider, tools=self.kept, **options)

    def run(self, *, dies_at: int | None = None, **said: Any) -> nt.Outcome[RunState] | None:
        """One process that runs the agent; None if it died."""
        said.setdefault("goal", GOAL)
        outcome = None
        with self.host.process(dies_at=dies_at) as ledger:
            outcome = self.agent.run("ticket-7", store=ledger, **said)
        return outcome  # noqa: RET504

    def finish(self, **said: Any) -> nt.Outcome[RunState]:
        outcome = self.run(**said)
        assert outcome is not None
        return outcome
