"""Everything that is not a protected call passes unchanged, in both directions (P274)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.mcp import ToolGuard, ToolPlans, read_tools
from nottwice.mcp.proxy.relay import Relay
from tests.mcp.plain_client import (
    PlainClient,
    effects,
    noted,
    proxy_command,
    server_command,
    wait_for_effects,
)
from tests.mcp.plain_server import TOOLS

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {}}
LIMIT_SECONDS = 60.0


class Talk:
    """What a client says to a relay, and what it hears."""

    def __init__(self, relay: Relay, heard: asyncio.Queue[Any]) -> None:
        self.relay, self._heard = relay, heard
        self._number = 0

    async def ask(self, method: str, **params: Any) -> Any:
        return await self.hear(await self.begin(method, **params))

    async def begin(self, method: str, **params: Any) -> int:
        self._number += 1
        await self.say({"id": self._number, "method": method, "params": params})
        return self._number

    async def call(self, tool: str, **arguments: Any) -> Any:
        said = await self.ask("tools/call", name=tool, arguments=arguments)
        return said["result"] if "result" in said else said["error"]

    async def cancel(self, number: int) -> None:
        await self.say({"method": "notifications/cancelled", "params": {"requestId": number}})

    async def say(self, message: dict[str, Any]) -> None:
        await self.relay.from_client(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def hear(self, number: Any = None) -> Any:
        """The next message, which must be the answer to this request."""
        message = await asyncio.wait_for(self._heard.get(), LIMIT_SECONDS)
        assert number is None or message.get("id") == number, message
        return message


@asynccontextmanager
async def talking(folder: Path, *, decide: bool = False, **said: Any) -> AsyncIterator[Talk]:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def to_client(line: bytes) -> bool:
        heard.put_nowait(json.loads(line))
        return True

    with nt.Ledger(folder / "shop.db") as ledger:
        plans = ToolPlans("shop", read_tools(said))
        guard = ToolGuard(ledger, plans, decide_in_client=decide)
        relay = Relay(guard, server_command(folder), to_client, say=lambda text: None)
        await relay.start()
        talk = Talk(relay, heard)
        await talk.ask("initialize", **HELLO)
        await talk.say({"method": "notifications/initialized"})
        yield talk
        await relay.drain(client_reads=False)
        await relay.close(orderly=True)


def run(main: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(main(), LIMIT_SECONDS * 2))


def test_other_requests_errors_and_requests_of_the_server_pass(tmp_path: Path) -> None:
    async def main() -> None:
        async with talking(tmp_path) as talk:
            refused = await talk.ask("resources/list")
            assert refused["error"] == {"code": -32601, "message": "no resources/list"}
            number = await talk.begin("ask/client")
            asked = await talk.hear()
            assert (asked["method"], asked["id"]) == ("sampling/createMessage", "s1")
            assert (await talk.hear(number))["result"] == {}
            await talk.say({"id": "s1", "result": {"text": "hi"}})
            # What the server reads later was sent later.
            await talk.ask("resources/list")
            answered = {"jsonrpc": "2.0", "id": "s1", "result": {"text": "hi"}}
            assert noted(tmp_path, "answers") == [answered]

    run(main)


def test_progress_of_a_protected_call_reaches_the_client(tmp_path: Path) -> None:
    async def main() -> None:
        async with talking(tmp_path) as talk:
            meta = {"progressToken": "p-7"}
            number = await talk.begin("tools/call", name="charge", arguments={}, _meta=meta)
            progress = await talk.hear()
            assert progress["params"] == {"progressToken": "p-7", "progress": 1}
            assert (await talk.hear(number))["result"]["structuredContent"] == {"charged": 0}

    run(main)


def test_the_list_is_the_servers_own_but_for_the_repeat_of_classed_tools(tmp_path: Path) -> None:
    async def main() -> None:
        async with talking(tmp_path) as talk:
            assert (await talk.ask("tools/list"))["result"] == {"tools": TOOLS}
        async with talking(tmp_path, charge="unsafe_on_replay") as talk:
            shown = (await talk.ask("tools/list"))["result"]["tools"]
            charge = next(one for one in shown if one["name"] == "charge")
            del charge["inputSchema"]["properties"]["nottwice_repeat"]
            assert shown == TOOLS
            # The server never sees the parameter.
            await talk.call("charge", cents=4)
            await talk.call("charge", cents=4, nottwice_repeat="two orders")
            assert effects(tmp_path) == [["charge", {"cents": 4}]] * 2

    run(main)


def test_a_cancelled_call_reaches_the_server_under_its_own_id_and_keeps_its_receipt(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with talking(tmp_path) as talk:
            (tmp_path / "hold").touch()
            number = await talk.begin("tools/call", name="charge", arguments={"cents": 4})
            while not effects(tmp_path):
                await asyncio.sleep(0.01)
            await talk.cancel(number)
            (tmp_path / "hold").unlink()
            # Not the answer to the cancelled call, but the one to this call.
            again = await talk.call("charge", cents=4)
            assert again["structuredContent"] == {"charged": 4}
            assert "[nottwice]" in again["content"][1]["text"]
            assert effects(tmp_path) == [["charge", {"cents": 4}]]
            heard = [one["method"] for one in noted(tmp_path, "heard")]
            assert "notifications/cancelled" in heard

    run(main)


@pytest.mark.parametrize("tool", ["charge", "read"])
def test_a_call_that_is_cancelled_before_it_was_sent_is_not_sent(tmp_path: Path, tool: str) -> None:
    async def main() -> None:
        async with talking(tmp_path) as talk:
            # The relay asks for the list of tools first, so the call itself waits.
            number = await talk.begin("tools/call", name=tool, arguments={})
            await talk.cancel(number)
            await talk.relay.drain(client_reads=True)
            heard = [one["method"] for one in noted(tmp_path, "heard")]
            assert "tools/list" in heard
            assert not {"tools/call", "notifications/cancelled"}.intersection(heard)
            # There is no doubt about it: the next call is made.
            assert "[nottwice]" not in json.dumps(await talk.call(tool))

    run(main)


def test_a_call_that_is_cancelled_while_another_proxy_makes_it_is_not_sent(tmp_path: Path) -> None:
    other = PlainClient(proxy_command(tmp_path), tmp_path)
    (tmp_path / "hold").touch()
    first = other.begin_call("charge", cents=4)
    wait_for_effects(tmp_path, 1)

    async def main() -> None:
        async with talking(tmp_path) as talk:
            await talk.ask("tools/list")
            number = await talk.begin("tools/call", name="charge", arguments={"cents": 4})
            await talk.cancel(number)
            # One that is wanted does not share its fate.
            wanted = await talk.begin("tools/call", name="charge", arguments={"cents": 4})
            (tmp_path / "hold").unlink()
            assert (await talk.hear(wanted))["result"]["structuredContent"] == {"charged": 4}
            await talk.relay.drain(client_reads=True)
            assert effects(tmp_path) == [["charge", {"cents": 4}]] * 2

    run(main)
    assert other.wait_for(first)["structuredContent"] == {"charged": 4}
    other.close()


def test_a_server_that_dies_fails_what_it_had_not_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with talking(tmp_path) as talk:
            (tmp_path / "die").touch()
            told = await talk.call("charge", cents=4)
            assert "STOPPED" in told["content"][0]["text"]
            assert (await talk.call("read"))["content"][0]["text"] == "nothing"
            (tmp_path / "die").touch()
            again = await talk.call("set_status", status="paid")
            assert again["content"][0]["text"] == 'did set_status {"status": "paid"}'
            assert [name for name, _ in effects(tmp_path)].count("set_status") == 2

    run(main)


def test_the_user_of_an_older_client_is_asked_in_the_middle_of_the_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with talking(tmp_path, decide=True) as talk:
            (tmp_path / "die").touch()
            number = await talk.begin("tools/call", name="charge", arguments={"cents": 4})
            asked = await talk.hear()
            assert asked["method"] == "elicitation/create"
            content = {"answer": "It did not happen: send it again"}
            await talk.say({"id": asked["id"], "result": {"action": "accept", "content": content}})
            assert (await talk.hear(number))["result"]["structuredContent"] == {"charged": 4}
            assert len(effects(tmp_path)) == 2

    run(main)


def test_lines_that_are_no_messages_and_batches_are_passed_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with talking(tmp_path) as talk:
            batch = [
                {"jsonrpc": "2.0", "id": one, "method": "tools/call", "params": {"name": "read"}}
                for one in (71, 72)
            ]
            await talk.relay.from_client(json.dumps(batch).encode() + b"\n")
            assert {(await talk.hear())["id"] for _ in batch} == {71, 72}

    run(main)
