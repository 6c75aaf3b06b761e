"""Servers in processes of their own, killed during a call and started again, with a real client."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

ROOT = Path(__file__).parents[3]
LIMIT_SECONDS = 120.0


class Shop:
    """A server of one framework, and the file that counts its effects."""

    def __init__(self, framework: str, transport: str, folder: Path, *, protected: bool) -> None:
        self.world = folder / "world.txt"
        self.pid = folder / "pid"
        self._transport = transport
        store = str(folder / "shop.db") if protected else ""
        module = "tests.mcp.inside.server_program"
        self._words = [sys.executable, "-m", module, framework, transport, store, str(self.world)]
        paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self._environment = {**os.environ, "PYTHONPATH": paths, "FASTMCP_SHOW_SERVER_BANNER": "0"}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def effects(self) -> list[str]:
        return self.world.read_text().split("\n")[:-1] if self.world.exists() else []

    def client(self) -> Client:
        """Start the server, and return a client of it."""
        if self._transport != "stdio":
            self._process = subprocess.Popen(self._words, env=self._environment)
            self._wait_for_port()
            return Client(f"http://127.0.0.1:{self._transport}/mcp")
        # The shell notes its pid and becomes the server.
        script = f'echo $$ > "{self.pid}"; exec "$@"'
        return Client(
            StdioServerParameters(
                command="sh", args=["-c", script, "sh", *self._words], env=self._environment
            )
        )

    def kill(self) -> None:
        if self._process is None:
            os.kill(int(self.pid.read_text()), signal.SIGKILL)
        else:
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """End a server that its client did not start."""
        if self._process is not None:
            self.kill()

    def _wait_for_port(self) -> None:
        begun = time.monotonic()
        while time.monotonic() - begun < LIMIT_SECONDS:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(self._transport))) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("the server did not start")


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


async def call(client: Client) -> Any:
    async with asyncio.timeout(LIMIT_SECONDS):
        return await client.call_tool("charge", {"cents": 7})


async def killed_during_a_call(shop: Shop) -> None:
    """Kill the server after the effect. How a client reports that is its own matter."""
    try:
        async with shop.client() as client:
            calling = asyncio.create_task(call(client))
            while not shop.effects:
                await asyncio.sleep(0.02)
            shop.kill()
            await asyncio.gather(calling, return_exceptions=True)
    except Exception:
        return


async def again(shop: Shop) -> str:
    """Start the server again, and make the same call."""
    shop.world.with_name("may-answer").touch()
    async with shop.client() as client:
        answer = await call(client)
        return "\n".join(block.text for block in answer.content)


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("framework", ["sdk", "fastmcp"])
def test_a_server_that_is_killed_during_a_call_does_not_make_it_again(
    framework: str, transport: str, tmp_path: Path
) -> None:
    place = transport if transport == "stdio" else free_port()
    shop = Shop(framework, place, tmp_path, protected=True)
    asyncio.run(killed_during_a_call(shop))
    told = asyncio.run(again(shop))
    shop.end()
    assert "STOPPED: it is not known whether this happened" in told
    assert shop.effects == ["charge 7"]


@pytest.mark.parametrize("framework", ["sdk", "fastmcp"])
def test_without_protection_the_same_kill_makes_two_effects(framework: str, tmp_path: Path) -> None:
    """The control."""
    shop = Shop(framework, "stdio", tmp_path, protected=False)
    asyncio.run(killed_during_a_call(shop))
    assert "7" in asyncio.run(again(shop))
    assert shop.effects == ["charge 7", "charge 7"]
