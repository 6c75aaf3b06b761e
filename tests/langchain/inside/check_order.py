"""Is no effect made before the checkpoint that led to it is durable? (P256)

Savers whose ``put`` is held back by a gate show what would happen otherwise: the tool runs first.
"""

from __future__ import annotations

import asyncio
import operator
import os
import threading
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from nottwice.errors import StoreError, UsageError
from nottwice.langchain import NottwiceSaver
from tests.langchain.inside.places import place_for

CONFIG: Any = {"configurable": {"thread_id": "ticket-7"}}
TOOLS = 40


class State(TypedDict, total=False):
    made: Annotated[list[Any], operator.add]


class Held(NottwiceSaver):
    """A saver that is slow: its second checkpoint, which leads to the tools, waits for a gate."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.gate = threading.Event()
        self.asked = threading.Event()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if metadata["step"] == 1:
            assert self.gate.wait(30)
        return super().put(config, checkpoint, metadata, new_versions)


def is_saved(place: str, config: RunnableConfig) -> bool:
    """Whether a saver that knows nothing finds the checkpoints of a task's config."""
    fresh = NottwiceSaver(place)
    for namespace, checkpoint_id in config["configurable"]["checkpoint_map"].items():
        asked = {
            "thread_id": "ticket-7",
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
        if fresh.get_tuple({"configurable": asked}) is None:
            return False
    return True


def fanning(tool: Any) -> Any:
    """A model that asks for forty tools in one reply, each of which becomes a task."""

    def model(state: State) -> State:
        return {"made": []}

    def send(state: State) -> list[Send]:
        return [Send("tool", {"number": number}) for number in range(TOOLS)]

    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tool", tool)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", send, ["tool"])
    return graph


@pytest.mark.parametrize("waits", [True, False])
def test_forty_parallel_tools_wait_for_their_checkpoint(tmp_path: Path, waits: bool) -> None:
    place = place_for(tmp_path)
    saver = Held(place)

    def tool(state: Any, config: RunnableConfig) -> State:
        if waits:
            # The first of them lets the checkpoint through, while the others occupy all threads.
            threading.Timer(0.2, saver.gate.set).start()
            saver.wait_until_durable(config)
        saved = is_saved(place, config)
        saver.gate.set()
        return {"made": [saved]}

    graph = fanning(tool).compile(checkpointer=saver)
    made = graph.invoke({"made": []}, CONFIG, durability="async")["made"]
    assert len(made) == TOOLS
    assert all(made) == waits, "without waiting, a tool runs before its checkpoint is durable"


@pytest.mark.parametrize("kind", ["sync tools", "async tools"])
def test_forty_parallel_tools_of_an_event_loop_wait_for_their_checkpoint(
    tmp_path: Path, kind: str
) -> None:
    """Sync tools occupy the threads of the event loop, in which other savers would save."""
    place = place_for(tmp_path)
    saver = Held(place)

    def tool(state: Any, config: RunnableConfig) -> State:
        threading.Timer(0.2, saver.gate.set).start()
        saver.wait_until_durable(config)
        return {"made": [is_saved(place, config)]}

    async def async_tool(state: Any, config: RunnableConfig) -> State:
        threading.Timer(0.2, saver.gate.set).start()
        await saver.await_until_durable(config)
        return {"made": [is_saved(place, config)]}

    graph = fanning(tool if kind == "sync tools" else async_tool).compile(checkpointer=saver)
    made = asyncio.run(graph.ainvoke({"made": []}, CONFIG, durability="async"))["made"]
    assert made == [True] * TOOLS


def test_a_tool_in_a_subgraph_waits_for_the_checkpoints_of_all_graphs_around_it(
    tmp_path: Path,
) -> None:
    place = place_for(tmp_path)
    seen = []

    def tool(state: State, config: RunnableConfig) -> State:
        found = NottwiceSaver.in_use(config)
        assert found is not None
        found.wait_until_durable(config)
        seen.append((len(config["configurable"]["checkpoint_map"]), is_saved(place, config)))
        return {"made": [1]}

    def nested(levels: int, **options: Any) -> Any:
        graph = StateGraph(State)
        graph.add_node("tool", nested(levels - 1, **options).compile(**options) if levels else tool)
        graph.add_edge(START, "tool")
        return graph

    for options in ({}, {"checkpointer": True}):
        graph = nested(2, **options).compile(checkpointer=NottwiceSaver(place))
        graph.invoke({"made": []}, CONFIG, durability="async")
    assert seen == [(3, True), (3, True)]


def one_tool(tool: Any, saver: Any, **options: Any) -> Any:
    inner = StateGraph(State)
    inner.add_node("tool", tool)
    inner.add_edge(START, "tool")
    graph = StateGraph(State)
    graph.add_node("inner", inner.compile(**options))
    graph.add_edge(START, "inner")
    return graph.compile(checkpointer=saver)


def test_checkpoints_that_will_never_be_saved_refuse_the_call(tmp_path: Path) -> None:
    saver = NottwiceSaver(place_for(tmp_path))
    called = []

    def tool(state: State, config: RunnableConfig) -> State:
        saver.wait_until_durable(config, timeout="100ms")
        called.append(1)
        return {}

    with pytest.raises(UsageError, match=r'durability="exit".*The call was not made'):
        one_tool(tool, saver).invoke({"made": []}, CONFIG, durability="exit")
    with pytest.raises(StoreError, match=r"not durable after 0\.1 s.*checkpointer=False"):
        one_tool(tool, saver, checkpointer=False).invoke({"made": []}, CONFIG)
    with pytest.raises(UsageError, match="names no checkpoint"):
        saver.wait_until_durable({"configurable": {"thread_id": "ticket-7"}})
    assert called == []


def test_another_saver_is_not_taken_for_ours() -> None:
    seen = []

    def tool(state: State, config: RunnableConfig) -> State:
        seen.append(NottwiceSaver.in_use(config))
        return {}

    one_tool(tool, InMemorySaver()).invoke({"made": []}, CONFIG)
    assert seen == [None]


@pytest.mark.skipif(bool(os.environ.get("NOTTWICE_PLACE")), reason="it takes a file away")
def test_a_checkpoint_that_cannot_be_saved_fails_the_tools_that_it_led_to(tmp_path: Path) -> None:
    place = tmp_path / "agent.db"
    saver = Held(str(place))
    called = []
    once = threading.Lock()

    def tool(state: Any, config: RunnableConfig) -> State:
        with once:
            if place.exists():
                place.rename(tmp_path / "away.db")
        saver.gate.set()
        saver.wait_until_durable(config)
        called.append(1)
        return {}

    with pytest.raises(StoreError, match=r"could not be (saved|used)|deleted"):
        fanning(tool).compile(checkpointer=saver).invoke({"made": []}, CONFIG, durability="async")
    assert called == []
