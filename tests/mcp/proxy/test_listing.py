"""The tools of a server are listed as a client would list them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nottwice.errors import UsageError
from nottwice.mcp.proxy.listing import list_tools
from tests.mcp.plain_client import server_command
from tests.mcp.plain_server import TOOLS


def test_all_tools_are_listed(tmp_path: Path) -> None:
    assert asyncio.run(list_tools(server_command(tmp_path))) == TOOLS


@pytest.mark.parametrize("command", [["/no/such/server"], ["sh", "-c", "exit 3"]])
def test_a_server_that_does_not_answer_is_named(command: list[str]) -> None:
    with pytest.raises(UsageError, match="did not list its tools"):
        asyncio.run(list_tools(command))
