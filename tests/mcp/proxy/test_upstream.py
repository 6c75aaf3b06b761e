"""The process of a server ends with the proxy, whatever happens at the same time."""

from __future__ import annotations

import asyncio
import sys

import pytest

from nottwice.mcp.proxy.upstream import ServerProcess, UpstreamGone

ECHO = [sys.executable, "-c", "import sys; [print(line, flush=True) for line in sys.stdin]"]


def test_a_server_that_is_started_while_it_is_closed_does_not_stay() -> None:
    async def main() -> None:
        async def ignore(line: bytes = b"") -> None:
            return

        server = ServerProcess(ECHO, ignore, ignore, say=lambda text: None)
        starting = asyncio.create_task(server.start())
        await asyncio.sleep(0)
        await server.close()
        with pytest.raises(UpstreamGone, match="not started any more"):
            await starting
        assert [one.returncode for one in server._started] == [0]
        assert not server.is_running()

    asyncio.run(main())
