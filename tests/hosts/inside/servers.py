"""Ports, and databases that a test may restart."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest


def free_port() -> int:
    """A port of this machine that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def is_listening(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def is_connected(pid: int, port: int) -> bool:
    """Whether a process of this machine has a connection to a port of it."""
    mine = set()
    for file in Path(f"/proc/{pid}/fd").iterdir():
        # It may be closed by now.
        with suppress(FileNotFoundError):
            mine.add(os.readlink(file))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(
        row[2].endswith(f":{port:04X}") and row[3] == "01" and f"socket:[{row[9]}]" in mine
        for row in rows
    )


@pytest.fixture(scope="session")
def database() -> Iterator[Any]:
    """A PostgreSQL that only the tests of this process have. It can be restarted."""
    from tests.postgres.server import Server

    server = Server()
    try:
        yield server
    finally:
        server.end()
