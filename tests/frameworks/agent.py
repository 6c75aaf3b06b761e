"""One agent in three frameworks: it refunds an order with a tool that the framework calls.

It runs in an environment that has the frameworks. Importing one takes seconds, so a process does
that once, and forks a real child for every task: one line of JSON in, lines of JSON out. `schemas`
compares what the framework makes of a protected function with what it makes of the bare one;
`refund` calls the tool through the framework, inside a run; `refund-bare` without any protection.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import nottwice as nt
from nottwice.testing import WorldClient

ORDER = {"order_id": 7, "cents": 4000}
Invoke = Callable[[Any], Coroutine[Any, Any, str]]
Describe = Callable[[Any], Awaitable[Any]]


class Shop:
    """The tool, sync and async, protected and bare; the upstream counts what it does."""

    def __init__(self, url: str) -> None:
        self._world = WorldClient(url)

        def refund(order_id: int, cents: int = 500, reason: str | None = None) -> dict[str, str]:
            """Give the money of an order back.

            Args:
                order_id: The number of the order.
                cents: How much to give back.
                reason: What the customer said.
            """
            return self._send(order_id, cents)

        async def refund_async(
            order_id: int, cents: int = 500, reason: str | None = None
        ) -> dict[str, str]:
            """Give the money of an order back.

            Args:
                order_id: The number of the order.
                cents: How much to give back.
                reason: What the customer said.
            """
            return await asyncio.to_thread(self._send, order_id, cents)

        self.bare = {"sync": refund, "async": refund_async}
        self.protected = {
            kind: nt.tool("unsafe_on_replay", verify=self._find)(function)
            for kind, function in self.bare.items()
        }

    def _send(self, order_id: int, cents: int) -> dict[str, str]:
        # The upstream applies it, and then holds its answer back: here the process is killed.
        result: dict[str, str] = self._world.do(
            "refund",
            order_id=order_id,
            cents=cents,
            result={"refunded": str(order_id)},
            hold="gate",
        )
        return result

    def _find(self, call: nt.Call) -> nt.Verification:
        effect = self._world.find("refund", order_id=call.args["order_id"])
        return nt.cannot_tell() if effect is None else nt.happened(effect.result)


# LangChain


async def describe_langchain(function: Any) -> Any:
    made = _langchain_tool(function)
    return [made.name, made.description, made.args_schema.model_json_schema()]


async def invoke_langchain(function: Any) -> str:
    made = _langchain_tool(function)
    call = {"type": "tool_call", "id": "call-1", "name": made.name, "args": ORDER}
    message = await made.ainvoke(call)
    return str(message.content)


def _langchain_tool(function: Any) -> Any:
    from langchain_core.tools import tool

    return tool(parse_docstring=True)(function)


# OpenAI Agents


async def describe_openai(function: Any) -> Any:
    from agents import function_tool  # type: ignore[import-not-found]

    made = function_tool(function)
    return [made.name, made.description, made.params_json_schema]


async def invoke_openai(function: Any) -> str:
    from agents import (
        Agent,
        Model,
        ModelResponse,
        Runner,
        Usage,
        function_tool,
        set_tracing_disabled,
    )
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    made = function_tool(function)

    class Scripted(Model):  # type: ignore[misc]
        """A model that asks for the tool, and then repeats what it answered."""

        async def get_response(self, **asked: Any) -> Any:
            last = asked["input"][-1]
            output = _say(last["output"]) if "output" in last else _ask()
            return ModelResponse(output=[output], usage=Usage(), response_id=None)

        def stream_response(self, **asked: Any) -> Any:
            raise AssertionError("this agent does not stream")

    def _ask() -> Any:
        return ResponseFunctionToolCall(
            type="function_call", call_id="call-1", name=made.name, arguments=json.dumps(ORDER)
        )

    def _say(text: str) -> Any:
        content: list[Any] = [ResponseOutputText(type="output_text", text=text, annotations=[])]
        return ResponseOutputMessage(
            id="1", type="message", role="assistant", status="completed", content=content
        )

    set_tracing_disabled(True)
    ran = await Runner.run(Agent(name="shop", tools=[made], model=Scripted()), "Refund order 7.")
    return str(ran.final_output)


# MCP


async def describe_mcp(function: Any) -> Any:
    (made,) = await _mcp_server(function).list_tools()
    return made.model_dump(mode="json")


async def invoke_mcp(function: Any) -> str:
    from mcp import Client

    async with Client(_mcp_server(function)) as client:
        answer = await client.call_tool(function.__name__, ORDER)
    return str(answer.content[0].text)


def _mcp_server(function: Any) -> Any:
    from mcp.server import MCPServer

    server = MCPServer("shop")
    server.tool()(function)
    return server


FRAMEWORKS: dict[str, tuple[Describe, Invoke]] = {
    "langchain": (describe_langchain, invoke_langchain),
    "openai": (describe_openai, invoke_openai),
    "mcp": (describe_mcp, invoke_mcp),
}


async def carry_out(framework: str, task: str, kind: str, store: str, url: str) -> Any:
    shop = Shop(url)
    describe, invoke = FRAMEWORKS[framework]
    if task == "schemas":
        return [await describe(shop.protected[kind]), await describe(shop.bare[kind])]
    if task == "refund-bare":
        return await invoke(shop.bare[kind])
    async with nt.run("ticket-7", store=store):
        return await invoke(shop.protected[kind])


def say(line: dict[str, Any]) -> None:
    # One write, so that the lines of parent and child never mix.
    os.write(1, json.dumps(line).encode() + b"\n")


def rehearse(order_id: int, cents: int) -> dict[str, str]:
    """Do nothing, so that the framework imports all that a call needs.

    Args:
        order_id: The number of the order.
        cents: How much to give back.
    """
    return {}


def main(framework: str) -> None:
    asyncio.run(FRAMEWORKS[framework][1](rehearse))
    say({"ready": framework})
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            say({"answer": asyncio.run(carry_out(framework, **json.loads(line)))})
            return
        say({"pid": pid})
        _, status = os.waitpid(pid, 0)
        say({"exit": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    main(sys.argv[1])
