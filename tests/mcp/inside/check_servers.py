"""What the extension and the middleware change about a server, and what they do not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import fastmcp
import mcp
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context as SdkContext
from mcp_types import ToolAnnotations

import nottwice as nt
from nottwice.mcp import Nottwice, NottwiceToolMiddleware

FRAMEWORKS = ["sdk", "sdk as middleware", "fastmcp"]
Tools = dict[str, Callable[..., Any]]
READ_ONLY = {"read"}


class Server:
    """One server of a framework, in this process with its client."""

    def __init__(
        self, framework: str, store: Path | None, functions: Tools, **options: Any
    ) -> None:
        self._is_fast = framework == "fastmcp"
        if self._is_fast:
            used: list[Any] = [NottwiceToolMiddleware(str(store), **options)] if store else []
            self.server: Any = fastmcp.FastMCP("shop", middleware=used)
        else:
            used = [Nottwice(str(store), **options)] if store else []
            more = used if framework == "sdk as middleware" else []
            self.server = MCPServer("shop", extensions=used, middleware=more)
        for name, function in functions.items():
            hints = ToolAnnotations(read_only_hint=True) if name in READ_ONLY else None
            self.server.tool(name=name, annotations=hints)(function)

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Any]:
        made: Any = fastmcp.Client(self.server) if self._is_fast else mcp.Client(self.server)
        async with made as client:
            yield client

    def listed(self) -> list[dict[str, Any]]:
        async def whole() -> list[dict[str, Any]]:
            async with self.connected() as client:
                found = await client.list_tools()
            return [one.model_dump(mode="json") for one in getattr(found, "tools", found)]

        return asyncio.run(whole())

    def calls(self, *wanted: tuple[str, dict[str, Any]], at_once: bool = False) -> list[Any]:
        """Make calls on one connection."""

        async def whole() -> list[Any]:
            async with self.connected() as client:
                await client.list_tools()
                more = {"raise_on_error": False} if self._is_fast else {}
                making = [client.call_tool(name, given, **more) for name, given in wanted]
                return await asyncio.gather(*making) if at_once else [await one for one in making]

        return asyncio.run(whole())


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


@pytest.fixture(params=FRAMEWORKS)
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


class Disk:
    """A file server's tools."""

    def __init__(self) -> None:
        self.text, self.written = "v0", 0

    @property
    def tools(self) -> Tools:
        return {"read": self.read, "write": self.write, "fail": self.fail}

    def read(self) -> str:
        return self.text

    def write(self, text: str) -> dict[str, str]:
        self.text, self.written = text, self.written + 1
        return {"written": text}

    def fail(self, text: str) -> str:
        self.written += 1
        raise ValueError(f"no {text}")


def test_the_tools_are_listed_as_without_nottwice(framework: str, store: Path) -> None:
    tools = Disk().tools
    assert Server(framework, store, tools).listed() == Server(framework, None, tools).listed()


def test_only_a_classed_tool_gains_the_parameter_for_a_repeat(framework: str, store: Path) -> None:
    server = Server(framework, store, Disk().tools, tools={"write": "unsafe_on_replay"})
    shown = {one["name"]: set(one["input_schema"]["properties"]) for one in server.listed()}
    # Alone, the extension does not see the list.
    repeat = set() if framework == "sdk" else {"nottwice_repeat"}
    assert shown == {"read": set(), "write": {"text"} | repeat, "fail": {"text"}}


def test_an_ordinary_server_behaves_as_without_nottwice(framework: str, store: Path) -> None:
    disk = Disk()
    write = [("write", {"text": text}) for text in ("v1", "v2", "v1")]
    read: tuple[str, dict[str, Any]] = ("read", {})
    found = Server(framework, store, disk.tools).calls(
        read, write[0], read, write[1], write[2], read
    )
    assert [texts(one) for one in (found[0], found[2], found[5])] == [["v0"], ["v1"], ["v1"]]
    assert [one.structured_content for one in found[3:5]] == [{"written": "v2"}, {"written": "v1"}]
    assert disk.written == 3


def test_an_error_is_told_and_never_becomes_a_receipt(framework: str, store: Path) -> None:
    disk = Disk()
    tools = {"fail": {"class": "unsafe_on_replay", "fresh": "forever"}}
    bare = Server(framework, None, disk.tools).calls(("fail", {"text": "x"}))
    found = Server(framework, store, disk.tools, tools=tools).calls(*[("fail", {"text": "x"})] * 2)
    assert [texts(one) for one in found] == [texts(bare[0])] * 2
    assert all(one.is_error for one in found)
    assert disk.written == 3


def test_a_receipt_keeps_the_structured_content(framework: str, store: Path) -> None:
    disk = Disk()
    tools = {"write": {"class": "unsafe_on_replay", "fresh": "forever"}}
    server = Server(framework, store, disk.tools, tools=tools)
    first, second = server.calls(*[("write", {"text": "v1"})] * 2)
    assert second.structured_content == first.structured_content == {"written": "v1"}
    assert "Not done again" in texts(second)[1]
    assert disk.written == 1


def test_equal_calls_at_the_same_time_are_made_as_often(framework: str, store: Path) -> None:
    disk = Disk()
    Server(framework, store, disk.tools).calls(*[("write", {"text": "v1"})] * 3, at_once=True)
    assert disk.written == 3


def test_read_only_tools_are_recorded_if_annotations_are_not_trusted(
    framework: str, store: Path
) -> None:
    Server(framework, store, Disk().tools).calls(("read", {}))
    with nt.Ledger(store) as ledger:
        assert list(ledger.runs()) == []
    Server(framework, store, Disk().tools, trust_annotations=False).calls(("read", {}))
    with nt.Ledger(store) as ledger:
        assert len(list(ledger.runs())) == 1


def test_a_function_protected_by_nt_tool_keeps_its_own_words(framework: str, store: Path) -> None:
    nt.testing.forget_tools()
    seen = []

    @nt.tool("idempotent_with_key", key="order-{order_id}", window="24h")
    def refund(order_id: int) -> dict[str, int]:
        """Give the money back."""
        seen.append(nt.current_call().key)
        return {"refunded": order_id}

    @nt.tool("pure")
    def look(order_id: int) -> str:
        """Look at an order."""
        return f"order {order_id}"

    tools: Tools = {"refund": refund, "look": look}
    server = Server(framework, store, tools)
    shown = {one["name"]: set(one["input_schema"]["properties"]) for one in server.listed()}
    repeat = set() if framework == "sdk" else {"nottwice_repeat"}
    assert shown == {"refund": {"order_id"} | repeat, "look": {"order_id"}}
    first, second = server.calls(*[("refund", {"order_id": 7})] * 2)
    assert first.structured_content == second.structured_content == {"refunded": 7}
    assert len(texts(first)) == 1
    assert "Not done again" in texts(second)[1]
    assert seen == ["order-7"]
    assert texts(server.calls(("look", {"order_id": 7}))[0]) == ["order 7"]


def test_a_tool_that_needs_its_request_still_has_it(store: Path) -> None:
    """The call runs in a task of its own, so that a cancelled client cancels no effect."""
    said = []

    async def slow(text: str, ctx: SdkContext[Any, Any]) -> str:
        await ctx.report_progress(1, 2)
        said.append(ctx.request_id)
        return text

    assert texts(Server("sdk", store, {"slow": slow}).calls(("slow", {"text": "a"}))[0]) == ["a"]
    assert said[0] is not None
