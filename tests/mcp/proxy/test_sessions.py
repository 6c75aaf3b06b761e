"""HTTP clients in front of a command: sessions, clients without sessions, lost streams (P270)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.mcp import ToolGuard, ToolPlans
from nottwice.mcp.guard import MODERN
from nottwice.mcp.proxy.exchange import SESSION
from nottwice.mcp.proxy.sessions import CommandFront
from tests.mcp.plain_client import effects, server_command
from tests.mcp.proxy.asgi import Request
from tests.mcp.proxy.test_relay import HELLO

LIMIT_SECONDS = 60.0


class Web:
    """HTTP requests to one front."""

    def __init__(self, front: CommandFront) -> None:
        self.front = front
        self.serving: set[asyncio.Task[None]] = set()

    def send(self, request: Request) -> Request:
        task = asyncio.create_task(self.front.handle(request.exchange))
        self.serving.add(task)
        task.add_done_callback(self.serving.discard)
        return request

    async def status(self, request: Request) -> int:
        self.send(request)
        await asyncio.wait_for(request.is_over.wait(), LIMIT_SECONDS)
        return request.status

    def modern(self, tool: str, number: int = 1, peer: int = 1, **arguments: Any) -> Request:
        meta = {MODERN: "2026-07-28", "progressToken": f"token {number}"}
        params = {"name": tool, "arguments": arguments, "_meta": meta}
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        return self.send(Request(body, peer=peer))


@asynccontextmanager
async def web(folder: Path) -> AsyncIterator[Web]:
    with nt.Ledger(folder / "shop.db") as ledger:
        guard = ToolGuard(ledger, ToolPlans("shop"))
        front = CommandFront(guard, server_command(folder), say=lambda text: None)
        yield Web(front)
        await front.close()


def run(main: Callable[[], Any]) -> None:
    asyncio.run(asyncio.wait_for(main(), LIMIT_SECONDS * 2))


def test_a_session_has_a_server_of_its_own_until_it_is_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        async with web(tmp_path) as opened:
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
            begun = opened.send(Request(hello))
            assert (await begun.message())["result"]["serverInfo"]["name"] == "plain"
            session = {SESSION: begun.headers[SESSION]}
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert await opened.status(Request(ready, headers=session)) == 202
            params = {"name": "charge", "arguments": {"cents": 4}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            for _ in range(2):
                said = await opened.send(Request(call, headers=session)).message()
                assert said["result"]["structuredContent"] == {"charged": 4}
            listening = opened.send(Request(method="GET", headers=session))
            assert await opened.status(Request(method="GET", headers=session)) == 409
            listening.leave()
            assert await opened.status(Request(method="DELETE", headers=session)) == 204
            assert await opened.status(Request(call, headers=session)) == 404
            assert await opened.status(Request(call)) == 400
            assert await opened.status(Request(method="GET")) == 405
            assert await opened.status(Request([])) == 400
            assert len(effects(tmp_path)) == 2, "the first answer had arrived"

    run(main)


def test_clients_without_sessions_share_a_server_and_keep_their_own_ids(tmp_path: Path) -> None:
    async def main() -> None:
        async with web(tmp_path) as opened:
            calls = [opened.modern("charge", 1, peer, cents=peer) for peer in (1, 2, 3)]
            for peer, call in enumerate(calls, 1):
                progress = await call.message()
                assert progress["params"]["progressToken"] == "token 1"
                said = await call.message()
                assert said["id"] == 1
                assert said["result"]["structuredContent"] == {"charged": peer}

    run(main)


def test_a_call_whose_stream_is_lost_is_answered_when_it_is_issued_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with web(tmp_path) as opened:
            (tmp_path / "hold").touch()
            lost = opened.modern("charge", 1, cents=4)
            while not effects(tmp_path):
                await asyncio.sleep(0.01)
            lost.leave()
            await asyncio.wait(set(opened.serving), timeout=LIMIT_SECONDS)
            (tmp_path / "hold").unlink()
            again = opened.modern("charge", 2, cents=4)
            said = await again.message()
            while "result" not in said:
                said = await again.message()
            assert said["id"] == 2
            assert "[nottwice]" in said["result"]["content"][1]["text"]
            assert effects(tmp_path) == [["charge", {"cents": 4}]]
            # That answer was written, and the client sends more: it arrived.
            fresh = opened.modern("charge", 3, cents=4)
            while "result" not in (said := await fresh.message()):
                pass
            assert len(effects(tmp_path)) == 2

    run(main)


def test_a_call_whose_stream_is_closed_before_it_was_sent_is_not_sent(tmp_path: Path) -> None:
    """Closing the stream is how a client without a session cancels."""

    async def main() -> None:
        async with web(tmp_path) as opened:
            opened.modern("charge", 1, cents=4).leave()
            await asyncio.wait(set(opened.serving), timeout=LIMIT_SECONDS)
        assert effects(tmp_path) == []

    run(main)


def test_a_call_that_a_session_left_early_is_made_and_answers_the_next_one(tmp_path: Path) -> None:
    async def main() -> None:
        async with web(tmp_path) as opened:
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
            begun = opened.send(Request(hello))
            await begun.message()
            session = {SESSION: begun.headers[SESSION]}
            params = {"name": "charge", "arguments": {"cents": 4}}
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            opened.send(Request(call, headers=session)).leave()
            while not effects(tmp_path):
                await asyncio.sleep(0.01)
            said = await opened.send(Request({**call, "id": 2}, headers=session)).message()
            assert said["result"]["structuredContent"] == {"charged": 4}
            assert effects(tmp_path) == [["charge", {"cents": 4}]]

    run(main)


def test_a_session_that_is_being_deleted_has_ended_when_the_proxy_has(tmp_path: Path) -> None:
    async def main() -> None:
        async with web(tmp_path) as opened:
            hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
            begun = opened.send(Request(hello))
            await begun.message()
            (session,) = opened.front._sessions.values()
            leaving = Request(method="DELETE", headers={SESSION: begun.headers[SESSION]})
            assert await opened.status(leaving) == 204
        process = session.relay._upstream._process
        assert process is not None
        assert process.returncode is not None

    run(main)
