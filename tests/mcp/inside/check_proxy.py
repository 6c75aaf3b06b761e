"""The real SDK on both sides of the proxy, in both protocols, on every transport (P270 to P275)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitResult

SERVER = str(Path(__file__).with_name("shop_server.py"))
CONFIG = '[tools.mail]\nclass = "unsafe_on_replay"\n'
TRANSPORTS = ["stdio", "command", "url"]
MODES = ["legacy", "auto"]


class Place:
    """A folder with a server, and proxies in front of it."""

    def __init__(self, folder: Path, transport: str) -> None:
        self.folder, self.transport = folder, transport
        self.port = self.upstream_port = 0
        self.processes: list[subprocess.Popen[bytes]] = []
        (folder / "shop.toml").write_text(CONFIG)
        if transport == "url":
            self.upstream_port = free_port()
            self.run([sys.executable, SERVER, str(folder), str(self.upstream_port)])
            wait_for_port(self.upstream_port)

    def run(self, words: list[str]) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            started = subprocess.Popen(words, stderr=log, stdout=log)
        self.processes.append(started)
        return started

    @property
    def server(self) -> list[str]:
        if self.transport == "url":
            return [f"http://127.0.0.1:{self.upstream_port}/mcp"]
        return [sys.executable, SERVER, str(self.folder)]

    def proxy(self, *options: str) -> list[str]:
        words = [sys.executable, "-m", "nottwice", "proxy", "--name", "shop"]
        words += ["--store", str(self.folder / "shop.db")]
        return [*words, "--config", str(self.folder / "shop.toml"), *options, "--", *self.server]

    @asynccontextmanager
    async def client(
        self, mode: str, *options: str, bare: bool = False, answer: Any = None
    ) -> AsyncIterator[Client]:
        """Connect through a proxy that is started if need be."""
        more: dict[str, Any] = {"mode": mode}
        if answer is not None:
            more["elicitation_callback"] = answer
        if self.transport == "stdio":
            command, *args = self.server if bare else self.proxy(*options)
            environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "HOME")}
            given = StdioServerParameters(command=command, args=args, env=environment)
            with (self.folder / "log").open("a") as log:
                async with Client(stdio_client(given, errlog=log), **more) as client:
                    yield client
            return
        if bare and self.transport == "url":
            url = self.server[0]
        else:
            if not self.port:
                self.port = free_port()
                self.run(self.proxy("--http", str(self.port), *options))
                wait_for_port(self.port)
            url = f"http://127.0.0.1:{self.port}/mcp"
        async with Client(url, **more) as client:
            yield client

    def kill_proxy(self) -> None:
        if self.transport == "stdio":
            os.kill(int((self.folder / "parent").read_text()), signal.SIGKILL)
        else:
            self.processes.pop().kill()
            self.port = 0

    def effects(self, tool: str) -> list[Any]:
        file = self.folder / "effects"
        lines = file.read_text().splitlines() if file.exists() else []
        return [what for name, what in map(json.loads, lines) if name == tool]

    def end(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()


@pytest.fixture(params=TRANSPORTS)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = Place(tmp_path, request.param)
    yield made
    made.end()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def wait_for_port(port: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.05)
    raise AssertionError("the server did not start")


async def wait_until(true: Callable[[], Any]) -> None:
    until = time.monotonic() + 60
    while not true():
        assert time.monotonic() < until
        await asyncio.sleep(0.01)


def said(result: Any) -> str:
    return "\n".join(one.text for one in result.content)


def run(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 120))


async def killed_in_mid_call(place: Place, mode: str, *, bare: bool = False) -> None:
    """Kill the proxy, or the bare server, while it makes a charge."""
    (place.folder / "hold").touch()
    # The client's own tasks fail when its server is gone.
    with suppress(BaseException):
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(place.client(mode, bare=bare))
            call = asyncio.create_task(client.call_tool("charge", {"cents": 4}))
            await wait_until(lambda: place.effects("charge"))
            if bare:
                pids = subprocess.run(
                    ["pgrep", "-f", f"{SERVER} {place.folder}"], capture_output=True, text=True
                )
                os.kill(int(pids.stdout.split()[0]), signal.SIGKILL)
            else:
                place.kill_proxy()
            await asyncio.wait({call}, timeout=5)
            call.cancel()
    (place.folder / "hold").unlink()


@pytest.mark.parametrize("mode", MODES)
def test_killed_in_mid_call_the_repeated_call_makes_one_effect(place: Place, mode: str) -> None:
    async def main() -> None:
        await killed_in_mid_call(place, mode)
        async with place.client(mode) as client:
            told = await client.call_tool("charge", {"cents": 4})
            assert told.is_error
            assert "STOPPED: it is not known whether this happened" in said(told)
            assert not (await client.call_tool("charge", {"cents": 5})).is_error
        assert place.effects("charge") == [4, 5]

    run(main)


def test_without_a_proxy_the_same_kill_makes_two(tmp_path: Path) -> None:
    """A negative control: the test above can fail."""

    async def main() -> None:
        place = Place(tmp_path, "stdio")
        await killed_in_mid_call(place, "auto", bare=True)
        async with place.client("auto", bare=True) as client:
            await client.call_tool("charge", {"cents": 4})
        assert place.effects("charge") == [4, 4]

    run(main)


@pytest.mark.parametrize("mode", MODES)
def test_files_are_never_stale_and_classed_tools_run_once(place: Place, mode: str) -> None:
    async def main() -> None:
        async with place.client(mode) as client:
            assert said(await client.call_tool("read", {})) == "nothing"
            for text in ("v1", "v2", "v1"):
                assert said(await client.call_tool("write", {"text": text})) == f"wrote {text}"
                assert said(await client.call_tool("read", {})) == text
            assert said(await client.call_tool("mail", {"to": "ann"})) == "sent to ann"
            again = await client.call_tool("mail", {"to": "ann"})
            assert said(again).startswith("sent to ann\n[nottwice] Not done again.")
            assert again.structured_content == {"result": "sent to ann"}
            twice = {"to": "ann", "nottwice_repeat": "the user lost it"}
            assert said(await client.call_tool("mail", twice)) == "sent to ann"
        assert place.effects("mail") == ["ann", "ann"]
        assert (place.folder / "file").read_text() == "v1"

    run(main)


@pytest.mark.parametrize("mode", MODES)
def test_the_list_is_that_of_the_server_but_for_the_repeat(place: Place, mode: str) -> None:
    if place.transport == "command":
        pytest.skip("the bare server of a command speaks stdio")

    async def main() -> None:
        async with place.client(mode, bare=True) as client:
            bare = (await client.list_tools()).model_dump()["tools"]
        async with place.client(mode) as client:
            shown = (await client.list_tools()).model_dump()["tools"]
        mail = next(tool for tool in shown if tool["name"] == "mail")
        assert mail["input_schema"]["properties"].pop("nottwice_repeat")["type"] == "string"
        assert shown == bare

    run(main)


@pytest.mark.parametrize("mode", MODES)
def test_several_doubts_are_answered_in_the_client_each_on_its_own_call(
    place: Place, mode: str
) -> None:
    if mode == "legacy" and place.transport == "url":
        pytest.skip("a client of an older protocol is not asked through a URL")
    answers = {"4": "It happened", "5": "It did not happen: send it again", "6": "Leave it open"}

    async def answer(context: Any, params: Any) -> ElicitResult:
        cents = params.message.partition("cents=")[2][0]
        content = {"answer": answers[cents], "result": '{"charged": 4}'}
        return ElicitResult(action="accept", content=content)

    async def main() -> None:
        (place.folder / "hold").touch()
        with suppress(BaseException):
            async with place.client(mode, "--let-client-decide") as client:
                calls = [
                    asyncio.create_task(client.call_tool("charge", {"cents": cents}))
                    for cents in (4, 5, 6)
                ]
                await wait_until(lambda: len(place.effects("charge")) == 3)
                place.kill_proxy()
                await asyncio.wait(calls, timeout=5)
        (place.folder / "hold").unlink()
        async with place.client(mode, "--let-client-decide", answer=answer) as client:
            assert "STOPPED" in said(await client.call_tool("charge", {"cents": 6}))
            assert said(await client.call_tool("charge", {"cents": 5})).startswith("{")
            assert "its answer was lost" in said(await client.call_tool("charge", {"cents": 4}))
        assert sorted(place.effects("charge")) == [4, 5, 5, 6]

    run(main)


def test_a_client_that_leaves_a_call_gets_its_answer_later(place: Place) -> None:
    """The stream of a client is lost in mid-call, and the call is issued again."""
    if place.transport == "stdio":
        pytest.skip("a pipe has no streams; see tests/mcp/proxy/test_stdio.py")

    async def main() -> None:
        (place.folder / "hold").touch()
        async with place.client("auto") as client:
            call = asyncio.create_task(client.call_tool("charge", {"cents": 4}))
            await wait_until(lambda: place.effects("charge"))
            call.cancel()
            await asyncio.wait({call})
            (place.folder / "hold").unlink()
        async with place.client("auto") as client:
            assert "[nottwice]" in said(await client.call_tool("charge", {"cents": 4}))
        assert place.effects("charge") == [4]

    run(main)


@pytest.mark.parametrize("mode", MODES)
def test_a_call_that_is_cancelled_while_another_proxy_makes_it_is_not_sent(
    place: Place, mode: str
) -> None:
    other = Place(place.folder, place.transport)

    async def main() -> None:
        (place.folder / "hold").touch()
        async with other.client("auto") as first, place.client(mode) as client:
            made = asyncio.create_task(first.call_tool("charge", {"cents": 4}))
            await wait_until(lambda: place.effects("charge"))
            call = asyncio.create_task(client.call_tool("charge", {"cents": 4}))
            # It waits for the other proxy.
            await asyncio.wait({call}, timeout=1)
            call.cancel()
            await asyncio.wait({call})
            # The proxy reads in order: it has the cancellation when it answers this.
            await client.list_tools()
            (place.folder / "hold").unlink()
            assert not (await made).is_error
            # There is no doubt about it: the same call is made now.
            assert said(await client.call_tool("charge", {"cents": 4})).startswith("{")
        assert place.effects("charge") == [4, 4]

    try:
        run(main)
    finally:
        other.end()
