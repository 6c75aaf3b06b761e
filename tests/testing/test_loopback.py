"""Does every server of the testing room come up, and end with its block or its starter?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nottwice.testing import FakeModels, World
from nottwice.testing.loopback import LoopbackServer, server_command, start_server
from nottwice.testing.proxy import LossyProxy
from tests.testing.processes import LIMIT_SECONDS, is_running, wait_until_ended

STARTS: dict[str, Callable[[], LoopbackServer]] = {
    "World.start()": World.start,
    "LossyProxy.start('http://127.0.0.1:9')": lambda: LossyProxy.start("http://127.0.0.1:9"),
    "FakeModels.start()": FakeModels.start,
}
servers = pytest.mark.parametrize("start", STARTS)


def pid_of(server: LoopbackServer) -> int:
    return server._process.pid


@servers
def test_a_server_is_there_in_its_block_and_gone_behind_it(start: str) -> None:
    with STARTS[start]() as server:
        pid = pid_of(server)
        assert is_running(pid)
        assert server.url.startswith("http://127.0.0.1:")
    assert not is_running(pid)


@servers
def test_a_server_ends_when_its_starter_is_killed(start: str) -> None:
    code = f"""
import time
from nottwice.testing import FakeModels, World
from nottwice.testing.proxy import LossyProxy
server = {start}
print(server._process.pid, flush=True)
time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        starter.send_signal(signal.SIGKILL)
        wait_until_ended(pid)


@servers
def test_a_forked_child_that_leaves_the_block_does_not_end_its_parents_server(start: str) -> None:
    with STARTS[start]() as server:
        child = os.fork()
        if child == 0:
            server.stop()
            os._exit(0)
        os.waitpid(child, 0)
        assert is_running(pid_of(server))


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("nottwice.testing.world_server", ["world", "60"]),
        ("nottwice.testing.proxy_server", ["http://127.0.0.1:9", "passed.jsonl", "[]", "[]"]),
        ("nottwice.testing.models.server", []),
    ],
)
def test_a_server_ends_when_its_input_is_closed(
    module: str, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "world").mkdir()
    with subprocess.Popen(
        server_command(module, *words),
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
        process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 0


def test_a_server_that_does_not_come_up_is_none(capfd: pytest.CaptureFixture[str]) -> None:
    assert start_server("nottwice.testing.no_such_server") is None
    assert "no_such_server" in capfd.readouterr().err
