"""A server of the real SDK that has what the official conformance tool asks for.

    python everything.py PORT      streamable HTTP
    python everything.py           stdio
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.streamable_http import EventMessage, EventStore
from mcp_types import (
    AudioContent,
    Completion,
    EmbeddedResource,
    ImageContent,
    SamplingMessage,
    TextContent,
    TextResourceContents,
)
from pydantic import BaseModel, Field

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
server = MCPServer("everything")


def embedded(uri: str) -> EmbeddedResource:
    text = TextResourceContents(uri=uri, mime_type="text/plain", text="This is embedded.")
    return EmbeddedResource(type="resource", resource=text)


@server.tool(description="Simple text.")
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@server.tool(description="Image content.")
def test_image_content() -> list[ImageContent]:
    return [ImageContent(type="image", data=PIXEL, mime_type="image/png")]


@server.tool(description="Audio content.")
def test_audio_content() -> list[AudioContent]:
    return [AudioContent(type="audio", data=SOUND, mime_type="audio/wav")]


@server.tool(description="Embedded resource.")
def test_embedded_resource() -> list[EmbeddedResource]:
    return [embedded("test://embedded-resource")]


@server.tool(description="Multiple content types.")
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    return [
        TextContent(type="text", text="Multiple content types test:"),
        ImageContent(type="image", data=PIXEL, mime_type="image/png"),
        embedded("test://mixed-content-resource"),
    ]


@server.tool(description="Tool with logging.")
async def test_tool_with_logging(context: Context) -> str:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(text)
        await asyncio.sleep(0.05)
    return "Logged."


@server.tool(description="Tool with progress.")
async def test_tool_with_progress(context: Context) -> str:
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100, f"{progress} of 100")
        await asyncio.sleep(0.05)
    return "Done."


@server.tool(description="Error handling.")
def test_error_handling() -> str:
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool(description="Sampling.")
async def test_sampling(prompt: str, context: Context) -> str:
    asked = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    said = await context.session.create_message(messages=[asked], max_tokens=100)
    return f"LLM response: {said.content}"


class User(BaseModel):
    username: str = Field(description="The user's name")
    email: str = Field(description="The user's address")


@server.tool(description="Elicitation.")
async def test_elicitation(message: str, context: Context) -> str:
    said = await context.elicit(message=message, schema=User)
    return f"User response: {said.action} {getattr(said, 'data', None)}"


class Defaults(BaseModel):
    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    verified: bool = Field(default=True)


@server.tool(description="Elicitation sep1034 defaults.")
async def test_elicitation_sep1034_defaults(context: Context) -> str:
    said = await context.elicit(message="Please say", schema=Defaults)
    return f"Elicitation completed: {said.action}"


@server.tool(description="Reconnection.")
async def test_reconnection(context: Context) -> str:
    await context.close_sse_stream()
    await asyncio.sleep(0.1)
    return "Reconnected."


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return b"\x89PNG"


@server.resource("test://watched-resource", mime_type="text/plain")
def watched() -> str:
    return "watched"


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return f'{{"id": "{id}", "templateTest": true, "data": "Data for ID: {id}"}}'


@server.prompt(description="Simple prompt.")
def test_simple_prompt() -> str:
    return "This is a simple prompt for testing."


@server.prompt(description="Prompt with arguments.")
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.prompt(description="Prompt with embedded resource.")
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    text = TextContent(type="text", text="Please process the embedded resource above.")
    return [UserMessage(embedded(resourceUri)), UserMessage(text)]


@server.prompt(description="Prompt with image.")
def test_prompt_with_image() -> list[UserMessage]:
    image = ImageContent(type="image", data=PIXEL, mime_type="image/png")
    return [UserMessage(image), UserMessage(TextContent(type="text", text="Please analyze."))]


@server.completion()
async def complete(reference: Any, argument: Any, context: Any) -> Completion:
    return Completion(values=["paris"], total=1, has_more=False)


class Events(EventStore):
    """Keeps all events, so that streams can be continued."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self._kept.append((stream_id, message))
        return str(len(self._kept))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str | None:
        number = int(last_event_id)
        if not 0 < number <= len(self._kept):
            return None
        stream_id = self._kept[number - 1][0]
        for index, (stream, message) in enumerate(self._kept[number:], number + 1):
            if stream == stream_id and message is not None:
                await send_callback(EventMessage(message, str(index)))
        return stream_id


if __name__ == "__main__":
    if len(sys.argv) > 1:
        options: Any = {"event_store": Events(), "retry_interval": 500}
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), **options)
    else:
        server.run("stdio")
