"""A client of MCP on stdio that starts real servers.

python -m tests.mcp.plain_client FOLDER FD      makes one call, then waits to be killed
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.tidy.source import ROOT

SERVER = ROOT / "tests" / "mcp" / "plain_server.py"
LIMIT_SECONDS = 60.0


def server_command(folder: Path) -> list[str]:
    return [sys.executable, str(SERVER), str(folder)]


def proxy_command(folder: Path, *options: str) -> list[str]:
    proxy = [sys.executable, "-m", "nottwice", "proxy", "--name", "shop"]
    store = ["--store", str(folder / "shop.db")]
    return [*proxy, *store, *options, "--", *server_command(folder)]


class PlainClient:
    """One connection to a server, through a proxy or not."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        capabilities: dict[str, Any] | None = None,
        hello: bool = True,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self._errors = (folder / "stderr").open("ab")
        self.folder = folder
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=folder,
            pass_fds=pass_fds,
            env={**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder)},
        )
        self._numbers = itertools.count(1)
        self._answers: dict[Any, queue.Queue[Any]] = {}
        self.others: queue.Queue[Any] = queue.Queue()
        """What the server said that is no answer."""
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        if hello:
            asked = {
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities or {},
                "clientInfo": {"name": "test", "version": "1"},
            }
            self.hello = self.ask("initialize", asked)
            self.notify("notifications/initialized", {})

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        return self.wait_for(self.begin(method, params))

    def begin(self, method: str, params: dict[str, Any]) -> int:
        number = next(self._numbers)
        self._answers[number] = queue.Queue()
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def wait_for(self, number: int) -> Any:
        """The result of a request; its error if there is one."""
        said = self._answers[number].get(timeout=LIMIT_SECONDS)
        if said is None:
            raise ConnectionError(self.errors())
        return said["result"] if "result" in said else said["error"]

    def call(self, tool: str, meta: dict[str, Any] | None = None, **arguments: Any) -> Any:
        return self.wait_for(self.begin_call(tool, meta, **arguments))

    def begin_call(self, tool: str, meta: dict[str, Any] | None = None, **arguments: Any) -> int:
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        return self.begin("tools/call", params if meta is None else {**params, "_meta": meta})

    def text(self, tool: str, **arguments: Any) -> str:
        """The texts of a result."""
        return "\n".join(one["text"] for one in self.call(tool, **arguments)["content"])

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def close(self) -> int:
        """End in order: close the server's input and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(LIMIT_SECONDS)
        self._finish()
        return code

    def kill(self) -> None:
        """Kill the server's process, or the proxy's."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(LIMIT_SECONDS)
        self._finish()

    def errors(self) -> str:
        return (self.folder / "stderr").read_text()

    def _finish(self) -> None:
        self._reading.join(LIMIT_SECONDS)
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            assert stream is not None
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            waiting = self._answers.get(message.get("id"))
            if "method" not in message and waiting is not None:
                waiting.put(message)
            else:
                self.others.put(message)
        for waiting in self._answers.values():
            waiting.put(None)


def vanishing_client(folder: Path) -> None:
    """Make a call in a client that is killed when it has the answer. Return when all is gone.

    If the server holds the call, the client is killed before it has the answer. One that is killed
    closes all its pipes at once, which a thread cannot imitate.
    """
    reading, writing = os.pipe()
    words = [sys.executable, "-m", "tests.mcp.plain_client", str(folder), str(writing)]
    client = subprocess.Popen(words, pass_fds=(writing,), cwd=ROOT, stdout=subprocess.PIPE)
    os.close(writing)
    assert client.stdout is not None
    assert client.stdout.readline().strip() == b"ready"
    client.kill()
    client.wait()
    client.stdout.close()
    (folder / "hold").unlink(missing_ok=True)
    # The proxy has the other end, too: nothing is read before it is gone.
    assert os.read(reading, 1) == b""
    os.close(reading)


def effects(folder: Path) -> list[Any]:
    """What the server has done, in order."""
    return noted(folder, "effects")


def noted(folder: Path, name: str) -> list[Any]:
    file = folder / name
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def wait_for_effects(folder: Path, count: int) -> None:
    until = time.monotonic() + LIMIT_SECONDS
    while len(effects(folder)) < count:
        assert time.monotonic() < until, "the server did nothing"
        time.sleep(0.005)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    started = PlainClient(proxy_command(place), place, pass_fds=[int(sys.argv[2])])
    number = started.begin_call("charge", cents=4)
    if (place / "hold").exists():
        wait_for_effects(place, 1)
    else:
        started.wait_for(number)
    print("ready", flush=True)
    signal.pause()
