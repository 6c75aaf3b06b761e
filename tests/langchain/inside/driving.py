"""Plays the scenes of the adapter suite with LangChain and LangGraph themselves.

`drive_agent` continues a killed conversation from its checkpoint: `create_agent`, the saver of
nottwice, async. `drive_node` has forgotten it, because LangGraph's `InMemorySaver` died with the
process: a `StateGraph` with a `ToolNode`, sync. There the model asks again, with new ids.
`drive_task` has no graph: an `@entrypoint` whose `@task`s ask the model and call the tools.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command

from nottwice.adapters import REPEAT
from nottwice.langchain import NottwiceMiddleware, NottwiceSaver, protect
from nottwice.testing.adapters import Driven, Scene
from tests.langchain.inside.models import ScriptedModel

YES = {"decisions": [{"type": "approve"}]}


def drive_agent(scene: Scene) -> Driven:
    """The tools are awaited."""
    return asyncio.run(_agent(scene))


async def _agent(scene: Scene) -> Driven:
    guards = [NottwiceMiddleware(scene.store, tools=classes(scene))] if scene.protected else []
    model = _model(scene)
    graph: Any = create_agent(
        model,
        [tool(_awaited(each)) for each in scene.tools.values()],
        middleware=guards,
        checkpointer=NottwiceSaver(scene.store),
    )
    config: Any = {"configurable": {"thread_id": scene.thread}}
    known = await graph.aget_state(config)
    asked: Any = None if known.next else {"messages": [HumanMessage("Do it.")]}
    seen: set[str] = set()
    while True:
        if scene.streams:
            async for part in graph.astream(asked, config, stream_mode="values"):
                state = part
        else:
            state = await graph.ainvoke(asked, config)
        asked = _answered(state, scene, seen)
        if asked is None:
            return _driven(state, model.offered)


def drive_node(scene: Scene) -> Driven:
    """The tools are called, those of one reply in threads of one task."""
    node = ToolNode([tool(each) for each in scene.tools.values()], handle_tool_errors=True)
    if scene.protected:
        node = protect(node, scene.store, tools=classes(scene))
    model = _model(scene)
    model.bind_tools(list(node.tools_by_name.values()))
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", node)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    agent = graph.compile(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": scene.thread}}
    asked: Any = {"messages": [HumanMessage("Do it.")]}
    seen: set[str] = set()
    while True:
        if scene.streams:
            *_, state = agent.stream(asked, config, stream_mode="values", durability="sync")
        else:
            state = agent.invoke(asked, config, durability="sync")
        asked = _answered(state, scene, seen)
        if asked is None:
            return _driven(state, model.offered)


def drive_task(scene: Scene) -> Driven:
    """The tools of one reply are tasks that run at the same time."""
    tools = [tool(each) for each in scene.tools.values()]
    if scene.protected:
        tools = protect(tools, scene.store, tools=classes(scene))
    by_name = {each.name: each for each in tools}
    model = _model(scene)
    messages: list[Any] = []

    @task
    def reply(conversation: list[Any]) -> Any:
        return model.invoke(conversation)

    @task
    def use(asked: dict[str, Any]) -> Any:
        return by_name[asked["name"]].invoke(asked)

    @entrypoint(checkpointer=NottwiceSaver(scene.store))
    def flow(text: str) -> None:
        messages[:] = [HumanMessage(text)]
        while True:
            said = reply(list(messages)).result()
            messages.append(said)
            if not said.tool_calls:
                return
            messages.extend([each.result() for each in [use(one) for one in said.tool_calls]])

    config: Any = {"configurable": {"thread_id": scene.thread}}
    asked: Any = None if flow.get_state(config).next else "Do it."
    seen: set[str] = set()
    while True:
        state = flow.invoke(asked, config) or {}
        asked = _answered(state, scene, seen)
        if asked is None:
            return _driven({**state, "messages": messages}, model.offered)


def classes(scene: Scene) -> Any:
    """The charge may be repeated on purpose."""
    return {**scene.declared, "charge": {"replay": "unsafe_on_replay", "repeat": "free"}}


def _model(scene: Scene) -> ScriptedModel:
    def reply(messages: list[Any]) -> list[Any]:
        last = max(n for n, one in enumerate(messages) if isinstance(one, HumanMessage))
        replies = sum(isinstance(one, AIMessage) for one in messages[last:])
        return [
            {"name": one.name, "args": _without(one.arguments, scene), "id": one.id}
            for one in scene.reply(replies)
        ]

    return ScriptedModel(reply=reply)


def _without(arguments: dict[str, Any], scene: Scene) -> dict[str, Any]:
    """A model that was not offered the parameter does not use it."""
    if scene.protected:
        return arguments
    return {name: one for name, one in arguments.items() if name != REPEAT}


def _answered(state: Any, scene: Scene, seen: set[str]) -> Any:
    """The answers to all questions, by id. None: there is no question that is new."""
    asked = state.get("__interrupt__") or ()
    reviews = {one.id: one.value["nottwice"]["review"] for one in asked}
    if not reviews or not scene.is_answered or seen.issuperset(reviews.values()):
        return None
    seen.update(reviews.values())
    given = {key: scene.answers.get(one, True) for key, one in reviews.items()}
    return Command(resume={key: YES if one is True else one for key, one in given.items()})


def _driven(state: Any, offered: list[Any]) -> Driven:
    messages = state["messages"]
    last = max(n for n, one in enumerate(messages) if isinstance(one, HumanMessage))
    told = {one.tool_call_id: one for one in messages[last:] if isinstance(one, ToolMessage)}
    asked = [
        one for each in messages[last:] if isinstance(each, AIMessage) for one in each.tool_calls
    ]
    return Driven(
        told=[str(told[one["id"]].text) for one in asked if one["id"] in told],
        paused=[one.value["nottwice"]["review"] for one in state.get("__interrupt__") or ()],
        schemas={one["function"]["name"]: one["function"]["parameters"] for one in offered},
    )


def _awaited(function: Any) -> Any:
    """The same function, async."""

    @functools.wraps(function)
    async def awaited(*given: Any, **named: Any) -> Any:
        # In a thread: the suite lets the calls of one reply wait for each other.
        return await asyncio.to_thread(function, *given, **named)

    return awaited
