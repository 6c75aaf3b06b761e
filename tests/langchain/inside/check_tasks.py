"""Does a protected tool in a `@task` act once, and is a person asked as ever? (P256, P263)

A `@task` has a namespace, but no checkpoints of its own. `check_suite.py` kills the same.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import Command

from nottwice.errors import UsageError
from nottwice.langchain import NottwiceSaver, protect
from tests.langchain.inside.places import place_for

CONFIG: Any = {"configurable": {"thread_id": "ticket-7"}}
BROKEN = 13
SHAPES = ["entrypoint", "entrypoint, async", "task of a task", "node", "node of a subgraph"]


class State(TypedDict, total=False):
    cents: list[int]
    paid: list[str]


class Shop:
    """A charge in a task. The connection breaks after a charge of 13 or more."""

    def __init__(self, shape: str, place: str, saver: Any) -> None:
        self.sent: list[int] = []
        self._shape, self._place, self._saver = shape, place, saver

    def invoke(self, asked: Any, **options: Any) -> Any:
        """Charge what was asked. The interrupts, or what the task returned."""
        graph = self._graph()
        if self._shape == "entrypoint, async":
            state = asyncio.run(graph.ainvoke(asked, CONFIG, **options))
        else:
            state = graph.invoke(asked, CONFIG, **options)
        if "__interrupt__" in state:
            # LangGraph names an interrupt of a task in a subgraph twice, under one id.
            return list({one.id: one for one in state["__interrupt__"]}.values())
        return state["paid"]

    def first(self, *cents: int, **options: Any) -> Any:
        return self.invoke({"cents": list(cents)}, **options)

    def _graph(self) -> Any:
        """The graph as another process would make it."""

        @tool
        def charge(cents: int) -> str:
            """Charge the card."""
            self.sent.append(cents)
            if cents >= BROKEN:
                raise ConnectionError("it broke")
            return f"charged {cents}"

        protected = protect(charge, self._place)

        @task
        def pay(cents: int) -> str:
            return str(protected.invoke({"cents": cents}))

        @task
        def pay_deeper(cents: int) -> str:
            return str(pay(cents).result())

        @task
        async def pay_async(cents: int) -> str:
            return str(await protected.ainvoke({"cents": cents}))

        def node(state: State) -> Any:
            pays = pay_deeper if self._shape == "task of a task" else pay
            started = [pays(each) for each in state["cents"]]
            return {"paid": [each.result() for each in started]}

        async def node_async(state: State) -> Any:
            started = [pay_async(each) for each in state["cents"]]
            return {"paid": await asyncio.gather(*started)}

        if self._shape.startswith("node"):
            graph = _around(node)
            if self._shape == "node of a subgraph":
                graph = _around(graph.compile())
            return graph.compile(checkpointer=self._saver)
        flow = node_async if self._shape == "entrypoint, async" else node
        return entrypoint(checkpointer=self._saver)(flow)


def _around(node: Any) -> Any:
    graph: Any = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    return graph


def respond(text: str) -> dict[str, Any]:
    return {"decisions": [{"type": "respond", "message": text}]}


@pytest.fixture(params=SHAPES)
def shape(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("durability", ["async", "sync"])
def test_a_tool_in_a_task_acts_once(tmp_path: Path, shape: str, durability: str) -> None:
    place = place_for(tmp_path)
    shop = Shop(shape, place, NottwiceSaver(place))
    assert shop.first(5, durability=durability) == ["charged 5"]
    shop.first(5, durability=durability)
    assert shop.sent == [5]


@pytest.mark.parametrize("saver", ["of nottwice", "of LangGraph"])
@pytest.mark.parametrize("way", ["plainly", "by id"])
def test_a_doubt_in_a_task_pauses_and_its_answer_is_heard(
    tmp_path: Path, shape: str, saver: str, way: str
) -> None:
    place = place_for(tmp_path)
    ours = saver == "of nottwice"
    shop = Shop(shape, place, NottwiceSaver(place) if ours else InMemorySaver())
    durability = "async" if ours else "sync"
    (question,) = shop.first(13, durability=durability)
    # A yes is no answer.
    (question,) = shop.invoke(Command(resume=True), durability=durability)
    assert question.value["action_requests"][0]["args"] == {"cents": 13}
    answer = respond("seen") if way == "plainly" else {question.id: respond("seen")}
    assert shop.invoke(Command(resume=answer), durability=durability) == ["seen"]
    assert shop.sent == [13]


def test_doubts_of_several_tasks_are_answered_by_id(tmp_path: Path, shape: str) -> None:
    place = place_for(tmp_path)
    shop = Shop(shape, place, NottwiceSaver(place))
    asked = shop.first(13, 14)
    for _ in range(4):
        if isinstance(asked[0], str):
            break
        cents = {one.id: one.value["action_requests"][0]["args"]["cents"] for one in asked}
        answers = {key: respond(f"seen {one}") for key, one in cents.items()}
        asked = shop.invoke(Command(resume=answers))
    assert asked == ["seen 13", "seen 14"]
    assert sorted(shop.sent) == [13, 14]


def test_without_checkpoints_before_the_end_a_task_makes_no_effect(
    tmp_path: Path, shape: str
) -> None:
    place = place_for(tmp_path)
    shop = Shop(shape, place, NottwiceSaver(place))
    with pytest.raises(UsageError, match=r'durability="exit".*The call was not made'):
        shop.first(5, durability="exit")
    assert shop.sent == []
