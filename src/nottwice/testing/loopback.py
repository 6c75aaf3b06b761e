"""How does a test start a server that outlives the process under test, and ends with the test?

``World``, ``LossyProxy`` and ``FakeModels`` are processes of their own on a loopback port. This is
the starter's side of all three; ``loopback_server.py`` is the side of the process.
"""

from __future__ import annotations

import os
import selectors
import shutil
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import IO, Self

START_LIMIT_SECONDS = 10.0
# The package itself is not imported: that would triple the start-up time, and an upstream must not
# share code with what it judges.
_START = """
import importlib, sys, types
package, module, *words = sys.argv[1:]
for name, place in (("nottwice", package), ("nottwice.testing", package + "/testing")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [place]
importlib.import_module(module).main(*words)
"""


class LoopbackServer:
    """A server in a process of its own; it ends with ``stop``, its block, or its starter."""

    def __init__(
        self, process: subprocess.Popen[bytes], port: int, temporary_folder: Path | None = None
    ) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self._process = process
        weakref.finalize(self, _tidy_up, process, temporary_folder, os.getpid())

    def stop(self) -> None:
        """End the process.

        In a forked child of the starter this does nothing: a child that unwinds its parent's
        ``with`` block must not take the server away from its parent.
        """
        _end(self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()


def server_command(module: str, *words: str) -> list[str]:
    """The command that runs ``main(starter_pid, *words)`` of a server module as a process."""
    # Isolated and without site-packages: half the start-up time, and nothing that the environment
    # of the process under test says can change the server.
    package = str(Path(__file__).parents[1])
    return [sys.executable, "-I", "-S", "-c", _START, package, module, str(os.getpid()), *words]


def start_server(
    module: str, *words: str, stderr: IO[bytes] | None = None
) -> tuple[subprocess.Popen[bytes], int] | None:
    """Start a server and wait until it listens; None if it did not come up, and was ended."""
    process = subprocess.Popen(
        server_command(module, *words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        # Signals for the terminal's process group are not for the server.
        start_new_session=True,
    )
    port = _read_port(process)
    if port is None:
        _end(process)
        return None
    return process, port


def _read_port(process: subprocess.Popen[bytes]) -> int | None:
    """Read the port, or None when the process ended or kept silent for too long."""
    if process.stdout is None:
        return None
    give_up_at = time.monotonic() + START_LIMIT_SECONDS
    line = b""
    with process.stdout, selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, give_up_at - time.monotonic())):
                return None
            part = os.read(process.stdout.fileno(), 100)
            if not part:
                return None
            line += part
    return int(line)


def _tidy_up(
    process: subprocess.Popen[bytes], temporary_folder: Path | None, starter_pid: int
) -> None:
    # A forked child inherits this finalizer, but not the right to end its parent's server.
    if os.getpid() != starter_pid:
        return
    _end(process)
    if temporary_folder is not None:
        shutil.rmtree(temporary_folder, ignore_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    # Popen signals only a child of the calling process: in a fork of the starter nothing happens.
    process.kill()
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
