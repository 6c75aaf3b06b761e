"""Does the span that a framework itself makes for a tool get the attributes, and no second one?

Pydantic AI, Google ADK and Microsoft Agent Framework themselves, with scripted models, in an
environment of their own, which the first run builds. Promise: P345.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.test_frameworks import environment
from tests.tidy.source import ROOT

BEFORE = """
import asyncio
import json
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
import nottwice as nt

memory = InMemorySpanExporter()
tracers = TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(memory))
trace.set_tracer_provider(tracers)

@nt.tool("unsafe_on_replay")
def refund(order_id: int) -> str:
    "Give the money of an order back."
    return f"refunded {order_id}"
"""
# A run, and the same run resumed: the second time, the tool is answered from its receipt.
AFTER = """
with nt.Ledger(":memory:") as ledger:
    nt.otel.instrument(ledger)
    for _ in range(2):
        with ledger.run("r"):
            asyncio.run(work())
print(json.dumps([
    [one.name, dict(one.attributes or {}), [event.name for event in one.events]]
    for one in memory.get_finished_spans() if "refund" in one.name
], default=str))
"""
PYDANTIC_AI = """
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel

Agent.instrument_all()

async def work():
    await Agent(TestModel(), tools=[refund]).run("Refund it.")
"""
ADK = """
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        told = any(part.function_response for part in llm_request.contents[-1].parts)
        call = types.FunctionCall(name="refund", args={"order_id": 7})
        part = types.Part(text="It is done.") if told else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

async def work():
    agent = LlmAgent(name="desk", model=Scripted(model="scripted"), tools=[refund])
    runner = InMemoryRunner(agent=agent, app_name="desk")
    session = await runner.session_service.create_session(app_name="desk", user_id="ann")
    asked = types.Content(role="user", parts=[types.Part(text="Refund it.")])
    async for _ in runner.run_async(user_id="ann", session_id=session.id, new_message=asked):
        pass
"""
AGENT_FRAMEWORK = """
from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer
from agent_framework import Message

class Scripted(FunctionInvocationLayer, BaseChatClient):
    async def _inner_get_response(self, *, messages, stream, options, **more):
        told = messages[-1].role == "tool"
        call = Content.from_function_call("c-1", "refund", arguments={"order_id": 7})
        said = Content.from_text("It is done.") if told else call
        return ChatResponse(messages=[Message("assistant", [said])])

async def work():
    await Agent(client=Scripted(), tools=[refund]).run("Refund it.")
"""
PROGRAMS = {"pydantic-ai": PYDANTIC_AI, "google-adk": ADK, "agent-framework": AGENT_FRAMEWORK}
PINNED = [
    "pydantic-ai-slim==2.66.0",
    "google-adk==2.13.0",
    "agent-framework-core==1.23.0",
    "opentelemetry-sdk>=1.27",
    "pydantic>=2.7",
    "typing-extensions>=4.10",
]
NEWEST = os.environ.get("NOTTWICE_FRAMEWORKS") == "newest"
REQUIREMENTS = [each.partition("==")[0] if NEWEST else each for each in PINNED]


@pytest.mark.deep(part="adapters")
@pytest.mark.parametrize("framework", PROGRAMS)
def test_a_framework_has_one_span_for_each_use_of_a_tool(framework: str, tmp_path: Path) -> None:
    live, replayed = _spans(PROGRAMS[framework], tmp_path)
    assert (live[0], live[1]["nottwice.replayed"], live[1]["nottwice.outcome"]) == (
        "execute_tool refund",
        False,
        "done",
    )
    assert live[1]["gen_ai.tool.name"] == "refund"
    assert (replayed[0], replayed[1]["nottwice.replayed"], replayed[2]) == (
        "execute_tool refund",
        True,
        ["nottwice.receipt"],
    )


def _spans(program: str, folder: Path) -> list[Any]:
    """The name, the attributes and the events of each span about the tool."""
    python = environment(ROOT / ".venv-frameworks-otel", REQUIREMENTS)
    told = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [python, "-c", BEFORE + program + AFTER],
        cwd=folder,
        env=told,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found
