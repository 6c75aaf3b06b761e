"""The servers that the tests in this folder play with, made with the real frameworks.

A driver plays a scene of the adapter suite: server and client in one process, which dies with the
server; or a client, the proxy and a server, which die together. MCP has no model: the client calls
what the script says, a reply's calls at the same time.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import mcp_types

import nottwice as nt
from nottwice.testing.adapters import Driven, Scene

Call = Callable[..., Awaitable[Any]]


def drive_extension(scene: Scene) -> Driven:
    """An MCPServer with the extension, and a client of protocol 2026-07-28."""
    return asyncio.run(_with_sdk(scene, "auto"))


def drive_extension_of_2025(scene: Scene) -> Driven:
    """The same, with a client of protocol 2025-11-25."""
    return asyncio.run(_with_sdk(scene, "legacy"))


def drive_middleware(scene: Scene) -> Driven:
    """A FastMCP server with the middleware."""
    return asyncio.run(_with_fastmcp(scene))


def drive_proxy(scene: Scene) -> Driven:
    """The proxy in front of a server, each a process, and a client of protocol 2026-07-28."""
    return asyncio.run(_through_proxy(scene, "auto"))


def drive_proxy_of_2025(scene: Scene) -> Driven:
    """The same, with a client of protocol 2025-11-25."""
    return asyncio.run(_through_proxy(scene, "legacy"))


async def _through_proxy(scene: Scene, mode: Any) -> Driven:
    from mcp import Client, StdioServerParameters

    (scene.folder / "scene.json").write_text(scene.to_json())
    (scene.folder / "client.pid").write_text(str(os.getpid()))
    words = ["-m", "tests.mcp.inside.scene_server", str(scene.folder)]
    if scene.protected:
        config = scene.folder / "shop.toml"
        config.write_text(_as_toml(classes_of(scene)))
        proxy = ["-m", "nottwice", "proxy", "--name", "shop", "--let-client-decide"]
        proxy += ["--store", scene.store, "--config", str(config), "--", sys.executable]
        words = [*proxy, *words]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    async def asked(context: Any, params: Any) -> Any:
        return mcp_types.ElicitResult(**_answer(scene, params.message))

    async with Client(server, mode=mode, elicitation_callback=asked) as client:
        return await _play(scene, client, client.call_tool)


async def _with_sdk(scene: Scene, mode: Any) -> Driven:
    # Each framework takes seconds to import, and each scene is a process.
    from mcp import Client
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    from nottwice.mcp import Nottwice

    extension = Nottwice(scene.store, tools=classes_of(scene), let_client_decide=True)
    used: list[Any] = [extension] if scene.protected else []
    server = MCPServer("shop", extensions=used, middleware=used)
    for function in scene.tools.values():
        server.tool()(raising(function, ToolError))

    async def asked(context: Any, params: Any) -> Any:
        return mcp_types.ElicitResult(**_answer(scene, params.message))

    async with Client(server, mode=mode, elicitation_callback=asked) as client:
        return await _play(scene, client, client.call_tool)


async def _with_fastmcp(scene: Scene) -> Driven:
    from fastmcp import Client, FastMCP
    from fastmcp.exceptions import ToolError

    from nottwice.mcp import NottwiceToolMiddleware

    middleware = NottwiceToolMiddleware(
        scene.store, tools=classes_of(scene), let_client_decide=True
    )
    server = FastMCP("shop", middleware=[middleware] if scene.protected else [])
    for function in scene.tools.values():
        server.tool(raising(function, ToolError))

    async def asked(message: str, response_type: Any, params: Any, context: Any) -> Any:
        return mcp_types.ElicitResult(**_answer(scene, message))

    async with Client(server, elicitation_handler=asked) as client:
        call = functools.partial(client.call_tool, raise_on_error=False)
        return await _play(scene, client, call)


def classes_of(scene: Scene) -> dict[str, Any]:
    """Everything is classed, so that equal calls of one conversation are made once."""
    classed = {"replay": "unsafe_on_replay"}
    words = {name: {**scene.declared.get(name, classed)} for name in scene.tools}
    return {
        name: {"class": said.pop("replay"), "fresh": "forever", **said}
        for name, said in words.items()
    }


def _as_toml(classes: Mapping[str, Any]) -> str:
    lines = []
    for name, told in classes.items():
        lines += [f"[tools.{name}]", *(f"{key} = {json.dumps(told[key])}" for key in told)]
    return "\n".join(lines)


async def _play(scene: Scene, client: Any, call: Call) -> Driven:
    listed = await client.list_tools()
    tools = listed if isinstance(listed, list) else listed.tools
    schemas = {one.name: one.input_schema for one in tools}
    told: list[str] = []
    paused: list[str] = []
    number = 0
    while wanted := scene.reply(number):
        number += 1
        # The task is named by the client; the ids that the model made up are not sent.
        meta = {"nottwice/run": scene.thread}
        answers = [call(one.name, dict(one.arguments), meta=meta) for one in wanted]
        for result in await asyncio.gather(*answers):
            told.append("\n".join(block.text for block in result.content))
            review = (result.meta or {}).get("nottwice/review")
            if review is not None:
                paused.append(review)
        if paused:
            break
    return Driven(told=told, paused=paused, schemas=schemas)


def raising(function: Callable[..., Any], error: type[Exception]) -> Callable[..., Any]:
    """Return a tool that tells its failures as the framework's authors do."""

    @functools.wraps(function)
    def tool(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except nt.Permanent as failed:
            raise error(str(failed)) from failed

    return tool


def _answer(scene: Scene, message: str) -> Mapping[str, Any]:
    """Return what the client's user answers to a question about a call."""
    with nt.Reviews(scene.store) as inbox:
        for case in inbox.open():
            given = scene.answers.get(case.review.review_id)
            cents = "" if case.row is None else json.loads(case.row.args_json).get("cents")
            if given is not None and f"cents={cents}" in message:
                return _said(given, message)
    return {"action": "cancel"}


def _said(given: Any, message: str) -> Mapping[str, Any]:
    """Return what a person types who wants to say this."""
    if given is True:
        is_approval = message.startswith("May this be done?")
        return {"action": "accept", "content": {"answer": "Approve: do it"} if is_approval else {}}
    told = given["nottwice"]
    if told["answer"] == "happened":
        content = {"answer": "It happened", "result": json.dumps(told["result"])}
    else:
        content = {"answer": "It did not happen: send it again"}
    return {"action": "accept", "content": content}
