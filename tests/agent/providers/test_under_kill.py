"""An agent on a real SDK, with ready-made tools, killed and resumed: what did the API see?"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.agent import providers
from nottwice.store.interface import Commit
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing import forget_tools
from tests.agent.providers.bodies import REASONING, THINKING, claude_says, gpt_says
from tests.agent.wire_server import Wire
from tests.kill.stores import KillingStore
from tests.recipes.killing import fork

APIS = ("anthropic", "openai")
EVERY = int(os.environ.get("AGENT_PLACES", "8"))
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_note", {"note": "ann"}),
    ("save", {"path": "answer.txt", "text": "You get 40.00 back."}),
    ("add_to_note", {"note": "ann", "text": "was refunded"}),
]
KEY = "sk-test-0123456789abcdef"
PRICE = nt.agent.Price(2.0, 10.0, 0.2, 2.5)


def conversation(api: str) -> list[dict[str, Any]]:
    """One tool a turn, with a thought before it, and then the end."""
    if api == "anthropic":
        calls = [
            {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}
            for number, (name, arguments) in enumerate(CALLS)
        ]
        turns = [claude_says(THINKING, call, stop="tool_use") for call in calls]
        return [*turns, claude_says("All done.")]
    items = [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for number, (name, arguments) in enumerate(CALLS)
    ]
    return [*(gpt_says(REASONING, item) for item in items), gpt_says("All done.")]


class EveryCommit(KillingStore):
    """A place before and after every commit, whatever it is about."""

    def commit(self, commit: Commit) -> None:
        self._reach("before")
        self._store.commit(commit)
        self._reach("after")


class Shop:
    """An agent in a folder of its own, on the wire."""

    def __init__(self, api: str, wire: Wire, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        forget_tools()
        self.folder = folder
        self.pad = nt.agent.Scratchpad(folder / "notes")
        save = nt.recipes.write_file(folder / "files", name="save", settles="10ms")
        make = providers.anthropic if api == "anthropic" else providers.openai
        url = wire.url if api == "anthropic" else f"{wire.url}/v1"
        # The answers say who gave them, and that is what they are paid for.
        prices = dict.fromkeys(("claude-sonnet-5-5", "gpt-5.4-mini", "some-model"), PRICE)
        model = make("some-model", base_url=url, api_key=KEY, prices=prices)
        self.agent = nt.Agent(
            "shop", version="1.0.0", provider=model, tools=[save, *self.pad.tools]
        )
        wire.will_converse(*conversation(api))

    def run(self, reach: Any = None) -> nt.Outcome[nt.agent.RunState]:
        store: Any = SqliteStore(str(self.folder / "agent.db"), now=1_790_000_000.0)
        if reach is not None:
            store = EveryCommit(store, reach)
        return self.agent.run("ticket-7", goal="answer Ann", store=store)

    def run_and_die(self, place: int) -> bool:
        """Let a process die at its so-manieth place; False: it has fewer."""
        seen = 0

        def reach(reached: str) -> None:
            nonlocal seen
            seen += 1
            if seen == place:
                os.kill(os.getpid(), signal.SIGKILL)

        pid = fork(lambda: self.run(reach))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL

    def check_world(self) -> None:
        assert (self.folder / "files/answer.txt").read_text() == "You get 40.00 back."
        assert self.pad.read("ann") == "was refunded"


def story(outcome: nt.Outcome[nt.agent.RunState]) -> Any:
    """What was said, without the ids of receipts, which follow from the ledger's own path."""
    assert outcome.status == "completed"
    assert outcome.state.answer == "All done."
    return [message.to_plain() for message in outcome.state.transcript]


@pytest.mark.parametrize("api", APIS)
def test_killed_anywhere_at_most_the_request_under_way_is_made_again(
    wire: Wire, api: str, tmp_path: Path
) -> None:
    whole = Shop(api, wire, tmp_path / "whole")
    expected = whole.run()
    told = [request["body"] for request in wire.requests]
    assert len(told) == len(CALLS) + 1
    whole.check_world()
    del whole
    place = 2
    while True:
        shop = Shop(api, wire, tmp_path / f"killed-{place}")
        if not shop.run_and_die(place):
            break
        before = len(wire.requests)
        outcome = shop.run()
        shop.check_world()
        assert story(outcome) == story(expected)
        assert outcome.state.spent.requests == len(told)
        asked = [request["body"] for request in wire.requests]
        # Whatever it was asked after the kill is what it would have been asked without.
        assert len(asked) <= len(told) + 1, f"place {place}: {before} before the kill"
        assert asked[before:] == told[len(told) - len(asked[before:]) :]
        del shop
        place += EVERY
    assert place > 2 + 3 * EVERY


@pytest.mark.parametrize("api", APIS)
def test_an_agent_in_an_event_loop_says_the_same(wire: Wire, api: str, tmp_path: Path) -> None:
    sync = Shop(api, wire, tmp_path / "sync")
    expected = story(sync.run())
    del sync
    shop = Shop(api, wire, tmp_path / "async")
    path = str(tmp_path / "async" / "agent.db")
    outcome = asyncio.run(shop.agent.arun("ticket-7", goal="answer Ann", store=path))
    assert story(outcome) == expected
    shop.check_world()


@pytest.mark.parametrize("api", APIS)
def test_what_it_cost_is_what_the_answers_say(wire: Wire, api: str, tmp_path: Path) -> None:
    shop = Shop(api, wire, tmp_path)
    spent = shop.run().state.spent
    requests = len(CALLS) + 1
    one = (100 * 2.0 + 20 * 10.0 + 1000 * 0.2 + 300 * 2.5) / 1e6
    assert spent.tokens == requests * 1420
    left = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert b"All done." in left
    assert KEY.encode() not in left
    assert spent.usd == pytest.approx(requests * one)
