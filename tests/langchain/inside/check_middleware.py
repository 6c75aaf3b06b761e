"""Do agents and graphs of every shape act once, and is a person asked in LangGraph's way?
(P260-P263, P265)"""

from __future__ import annotations

import asyncio
import threading
import warnings
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, ToolNode, ToolRuntime
from langgraph.types import Command, Interrupt, RetryPolicy, Send, interrupt

import nottwice as nt
from nottwice.adapters import REPEAT
from nottwice.errors import RunAborted, StoreError, UsageError
from nottwice.langchain import NottwiceMiddleware, NottwiceSaver, protect
from nottwice.langchain.asking import GraphAsking
from nottwice.langchain.questions import Heard
from tests.langchain.inside.models import ScriptedModel, ask, scripted
from tests.langchain.inside.places import place_for

CONFIG: Any = {"configurable": {"thread_id": "ticket-7"}}
HELLO: Any = {"messages": "Do it."}
CALLS = 40
BROKEN = 13


class Shop:
    """A tool that counts what it does. The connection breaks after a charge of 13 or more."""

    def __init__(self) -> None:
        self.sent: list[int] = []

        @tool
        def charge(cents: int) -> dict[str, int]:
            """Charge the card."""
            self.sent.append(cents)
            if cents >= BROKEN:
                raise ConnectionError("it broke")
            return {"charged": cents}

        self.charge: BaseTool = charge


@pytest.fixture
def shop() -> Shop:
    return Shop()


def charges(*cents: int, first: int = 1) -> list[dict[str, Any]]:
    """Charges that a model asks for in one reply."""
    return [ask("charge", f"call-{n}", cents=each) for n, each in enumerate(cents, first)]


def agent_of(
    place: str, model: ScriptedModel, *tools: BaseTool, saver: Any = None, **options: Any
) -> Any:
    saver = NottwiceSaver(place) if saver is None else saver
    guard = NottwiceMiddleware(place, **options)
    return create_agent(model, list(tools), checkpointer=saver, middleware=[guard])


def graph_of(place: str, model: ScriptedModel, node: Any, **options: Any) -> Any:
    """A hand-written graph: a model, and its tools in one node."""
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", node, **options)
    graph.add_edge(START, "model")
    graph.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else "__end__"
    )
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=NottwiceSaver(place))


def told(state: Any) -> dict[str, str]:
    """What the model was told, by the id of its call."""
    found = [one for one in state["messages"] if isinstance(one, ToolMessage)]
    return {one.tool_call_id: str(one.text) for one in found}


def questions(state: Any) -> dict[int, Any]:
    """The interrupts of a paused graph, by the cents of the call."""
    found = state.get("__interrupt__") or ()
    return {one.value["action_requests"][0]["args"]["cents"]: one for one in found}


def respond(text: str) -> dict[str, Any]:
    """What LangChain's own middleware gets from a page that shows its questions."""
    return {"decisions": [{"type": "respond", "message": text}]}


# Questions and answers


def test_a_question_has_the_shape_of_langchains_own(tmp_path: Path, shop: Shop) -> None:
    agent = agent_of(place_for(tmp_path), scripted(charges(13)), shop.charge)
    question = questions(agent.invoke(HELLO, CONFIG))[13].value
    (request,) = question["action_requests"]
    assert (request["name"], request["args"]) == ("charge", {"cents": 13})
    assert "it is not known whether this happened" in request["description"]
    assert "nottwice decide" not in request["description"]
    assert question["review_configs"] == [
        {"action_name": "charge", "allowed_decisions": ["respond", "reject"]}
    ]
    state = agent.invoke(Command(resume=respond('{"charged": 13}')), CONFIG)
    assert told(state)["call-1"].startswith('{"charged": 13}\n[nottwice] Not done again.')
    assert (shop.sent, state["messages"][-1].text) == ([13], "Done.")


def test_a_yes_asks_again_and_a_reject_stops_the_run_permanently(
    tmp_path: Path, shop: Shop
) -> None:
    agent = agent_of(place_for(tmp_path), scripted(charges(13)), shop.charge)
    agent.invoke(HELLO, CONFIG)
    for yes in ({"decisions": [{"type": "approve"}]}, {"type": "approve"}, True, "yes"):
        assert list(questions(agent.invoke(Command(resume=yes), CONFIG))) == [13]
    # A malformed answer is not taken, and can be corrected.
    wrong = {"nottwice": {"answer": "happened"}}
    assert list(questions(agent.invoke(Command(resume=wrong), CONFIG))) == [13]
    reject = {"decisions": [{"type": "reject", "message": "ask the bank"}]}
    with pytest.raises(RunAborted, match="ask the bank"):
        agent.invoke(Command(resume=reject), CONFIG)
    with pytest.raises(RunAborted):
        agent.invoke(None, CONFIG)
    assert shop.sent == [13]


@pytest.mark.parametrize("words", ["explicit", "of LangChain"])
@pytest.mark.parametrize("order", [(13, 14, 15), (15, 13, 14)])
def test_several_doubts_are_answered_by_id_in_any_order(
    tmp_path: Path, shop: Shop, words: str, order: tuple[int, ...]
) -> None:
    agent = agent_of(place_for(tmp_path), scripted(charges(13, 5, 14, 15)), shop.charge)
    state = agent.invoke(HELLO, CONFIG)
    assert sorted(questions(state)) == [13, 14, 15]
    for cents in order:
        asked = questions(state)[cents]
        answer: Any = respond(f"seen {cents}")
        if words == "explicit":
            review = asked.value["nottwice"]["review"]
            answer = nt.happened(f"seen {cents}").payload(review, by="ann", why="saw it")
        state = agent.invoke(Command(resume={asked.id: answer}), CONFIG)
    heard = told(state)
    assert [heard[f"call-{n}"].partition("\n")[0] for n in (1, 2, 3, 4)] == [
        "seen 13",
        '{"charged": 5}',
        "seen 14",
        "seen 15",
    ]
    assert sorted(shop.sent) == [5, 13, 14, 15]


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("way", ["plainly", "by id", "by id, in the same words"])
def test_doubts_of_one_task_are_asked_one_after_the_other_each_answered_on_its_own(
    tmp_path: Path, shop: Shop, kind: str, way: str
) -> None:
    """A ToolNode runs all calls of a reply in one task. LangGraph numbers the answers, but a call
    that was decided asks no more: by number, the second would get the answer of the first."""
    node = protect(ToolNode([shop.charge]), place_for(tmp_path))
    graph = graph_of(place_for(tmp_path), scripted(charges(13, 14, 15)), node)

    def go(asked: Any) -> Any:
        if kind == "sync":
            return graph.invoke(asked, CONFIG)
        return asyncio.run(graph.ainvoke(asked, CONFIG))

    state = go(HELLO)
    for _ in range(3):
        (cents,) = questions(state)
        # Resumed without an answer, an earlier answer is not taken for this question.
        state = go(None)
        assert list(questions(state)) == [cents]
        answer: Any = respond("seen" if "words" in way else f"seen {cents}")
        state = go(Command(resume=answer if way == "plainly" else {_id_of(state): answer}))
    heard = [told(state)[f"call-{n}"].partition("\n")[0] for n in (1, 2, 3)]
    assert heard == (["seen"] * 3 if "words" in way else ["seen 13", "seen 14", "seen 15"])
    assert sorted(shop.sent) == [13, 14, 15]


def test_approvals_of_one_task_in_the_same_words_are_given_by_id(
    tmp_path: Path, shop: Shop
) -> None:
    """LangGraph hands a plain answer out again. A second approval in the same words looks like the
    first one, so it is not taken: no call is made without an approval."""
    options: Any = {"charge": {"replay": "unsafe_on_replay", "approve": True}}
    node = protect(ToolNode([shop.charge]), place_for(tmp_path), tools=options)
    graph = graph_of(place_for(tmp_path), scripted(charges(5, 6)), node)
    approve = {"decisions": [{"type": "approve"}]}
    graph.invoke(HELLO, CONFIG)
    for _ in range(3):
        state = graph.invoke(Command(resume=approve), CONFIG)
        assert len(questions(state)) == 1
        assert len(shop.sent) == 1
    state = graph.invoke(Command(resume={_id_of(state): approve}), CONFIG)
    assert sorted(shop.sent) == [5, 6]
    assert len(told(state)) == 2


def test_a_question_that_is_saved_meanwhile_is_not_answered_by_what_came_before(
    tmp_path: Path,
) -> None:
    """A tool of the task has paused, and LangGraph saves its question while this one still runs."""
    saver = NottwiceSaver(place_for(tmp_path))
    seen = []

    def node(state: Any, config: RunnableConfig) -> dict[str, Any]:
        first = GraphAsking.of(config)
        assert first is not None
        seen.append(first.hear())
        other = Interrupt.from_ns(value={"nottwice": {"review": "other"}}, ns="tools")
        task = config["configurable"]["__pregel_task_id"]
        saver.put_writes(first._checkpoint(), [("__interrupt__", (other,))], task)
        second = GraphAsking.of(config)
        assert second is not None
        seen.append(second.hear())
        seen.append(asyncio.run(second.hear_async()))
        return {}

    graph: Any = StateGraph(MessagesState)
    graph.add_node("tools", node)
    graph.add_edge(START, "tools")
    graph.compile(checkpointer=saver).invoke(HELLO, CONFIG, durability="sync")
    assert seen == [Heard()] * 3


def _id_of(state: Any) -> str:
    (asked,) = state["__interrupt__"]
    return str(asked.id)


def test_an_approval_is_no_answer_to_what_the_tool_asks_itself(tmp_path: Path) -> None:
    sent = []

    @tool
    def charge(cents: int) -> str:
        """Charge the card."""
        sent.append(interrupt("sure?"))
        return "charged"

    options: Any = {"charge": {"replay": "unsafe_on_replay", "approve": True}}
    agent = agent_of(place_for(tmp_path), scripted(charges(7)), charge, tools=options)
    for by_id in (False, True):
        config: Any = {"configurable": {"thread_id": f"ticket-{by_id}"}}
        state = agent.invoke(HELLO, config)
        for answer in ({"decisions": [{"type": "approve"}]}, "sure"):
            state = agent.invoke(
                Command(resume={_id_of(state): answer} if by_id else answer), config
            )
        assert told(state)["call-1"] == "charged"
    assert sent == ["sure", "sure"]


def test_an_approval_is_no_answer_to_a_later_doubt(tmp_path: Path, shop: Shop) -> None:
    options: Any = {"charge": {"replay": "unsafe_on_replay", "approve": True}}
    agent = agent_of(place_for(tmp_path), scripted(charges(13)), shop.charge, tools=options)
    asked = questions(agent.invoke(HELLO, CONFIG))[13]
    assert asked.value["review_configs"][0]["allowed_decisions"] == ["approve", "reject"]
    assert shop.sent == []
    yes = {"decisions": [{"type": "approve"}]}
    doubt = questions(agent.invoke(Command(resume=yes), CONFIG))[13]
    assert doubt.value["review_configs"][0]["allowed_decisions"] == ["respond", "reject"]
    assert doubt.value["nottwice"]["review"] != asked.value["nottwice"]["review"]
    state = agent.invoke(Command(resume=respond("seen")), CONFIG)
    assert told(state)["call-1"].startswith("seen")
    assert shop.sent == [13]


def test_what_was_decided_in_nottwice_needs_no_answer(tmp_path: Path, shop: Shop) -> None:
    place = place_for(tmp_path)
    agent = agent_of(place, scripted(charges(13)), shop.charge)
    review = questions(agent.invoke(HELLO, CONFIG))[13].value["nottwice"]["review"]
    with nt.Reviews(place) as inbox:
        inbox.decide(review, "happened", by="ann", why="saw it", result="seen")
    assert told(agent.invoke(None, CONFIG))["call-1"].startswith("seen")
    assert shop.sent == [13]


def test_a_tool_that_asks_by_itself_is_resumed_and_acts_once(tmp_path: Path) -> None:
    sent = []

    @tool
    def charge(cents: int) -> str:
        """Charge the card."""
        answer = interrupt({"sure?": cents})
        sent.append(cents)
        return f"charged, {answer}"

    agent = agent_of(place_for(tmp_path), scripted(charges(7), charges(7, first=2)), charge)
    (asked,) = agent.invoke(HELLO, CONFIG)["__interrupt__"]
    assert (asked.value, sent) == ({"sure?": 7}, [])
    state = agent.invoke(Command(resume="sure"), CONFIG)
    assert told(state)["call-1"] == "charged, sure"
    assert told(state)["call-2"].startswith("charged, sure\n[nottwice] Not done again.")
    assert sent == [7]


# Runs


def test_a_call_that_belongs_to_no_run_is_refused(tmp_path: Path, shop: Shop) -> None:
    place = place_for(tmp_path)
    tools = [shop.charge]
    bare = create_agent(scripted(charges(7)), tools, middleware=[NottwiceMiddleware(place)])
    with pytest.raises(UsageError, match=r"thread_id.*run=.*nt\.run"):
        bare.invoke(HELLO)
    assert shop.sent == []
    with nt.run("ticket-8", store=place):
        bare.invoke(HELLO)
    named = create_agent(
        scripted(charges(7)), tools, middleware=[NottwiceMiddleware(place, run="ticket-9")]
    )
    named.invoke(HELLO)
    agent_of(place, scripted(charges(7)), shop.charge).invoke(HELLO, CONFIG)
    assert shop.sent == [7, 7, 7]
    with nt.Ledger(place) as ledger:
        found = [next(ledger.calls(run)).args for run in ("ticket-7", "ticket-8", "ticket-9")]
    assert found == [{"cents": 7}] * 3


def test_a_thread_that_cannot_name_a_run_stops_the_agent(tmp_path: Path, shop: Shop) -> None:
    agent = agent_of(place_for(tmp_path), scripted(charges(7)), shop.charge)
    for thread_id in ("user\u200b7", "x" * 600):
        with pytest.raises(UsageError, match=r"The thread id .* Nothing happened"):
            agent.invoke(HELLO, {"configurable": {"thread_id": thread_id}})
    assert shop.sent == []


class Adding(AgentMiddleware[Any, Any, Any]):
    """Another middleware, which brings a tool."""

    def __init__(self, more: BaseTool) -> None:
        super().__init__()
        self.tools = [more]


@pytest.mark.parametrize("way", ["create_agent", "ToolNode"])
def test_a_class_for_a_tool_that_is_not_there_is_warned_of(
    tmp_path: Path, shop: Shop, way: str
) -> None:
    @tool
    def read() -> str:
        """Read."""
        return "v0"

    def invoke(name: str) -> None:
        place = place_for(tmp_path)
        guard = NottwiceMiddleware(place, tools={name: "pure"})
        model = scripted(charges(5))
        if way == "ToolNode":
            node = ToolNode([shop.charge, read], wrap_tool_call=guard.wrap_tool_call)
            graph_of(place, model, node).invoke(HELLO, CONFIG)
        else:
            create_agent(
                model,
                [shop.charge],
                checkpointer=NottwiceSaver(place),
                middleware=[Adding(read), guard],
            ).invoke(HELLO, CONFIG)

    with pytest.warns(RuntimeWarning, match=r"names 'raed'.*charge, read"):
        invoke("raed")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        invoke("read")


# The order of checkpoints and effects


def test_with_another_saver_only_sync_durability_runs_effects(tmp_path: Path, shop: Shop) -> None:
    place = place_for(tmp_path)

    @tool
    def read() -> str:
        """Read."""
        return "v0"

    model = scripted([ask("read", "r")], charges(7))
    saver = InMemorySaver()
    agent = agent_of(place, model, shop.charge, read, saver=saver, tools={"read": "pure"})
    for durability in (None, "async", "exit"):
        with pytest.raises(UsageError, match=r"InMemorySaver.*NottwiceSaver.*durability=\"sync\""):
            agent.invoke(HELLO, CONFIG, durability=durability)
        saver.delete_thread("ticket-7")
    assert shop.sent == []
    state = agent.invoke(HELLO, CONFIG, durability="sync")
    assert (shop.sent, told(state)["r"]) == ([7], "v0")
    mine = agent_of(place, scripted(charges(8)), shop.charge)
    with pytest.raises(UsageError, match=r'durability="exit"'):
        mine.invoke(HELLO, CONFIG, durability="exit")
    assert shop.sent == [7]


class Held(NottwiceSaver):
    """A saver that saves the checkpoint with the model's reply only when a tool waits for it."""

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.gate = threading.Event()
        self.saved = threading.Event()

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        if metadata["step"] != 1:
            return super().put(config, checkpoint, metadata, new_versions)
        assert self.gate.wait(30)
        made = super().put(config, checkpoint, metadata, new_versions)
        self.saved.set()
        return made

    def wait_until_durable(self, config: Any, **options: Any) -> None:
        threading.Timer(0.1, self.gate.set).start()
        super().wait_until_durable(config, **options)

    async def await_until_durable(self, config: Any, **options: Any) -> None:
        threading.Timer(0.1, self.gate.set).start()
        await super().await_until_durable(config, **options)


@pytest.mark.parametrize("kind", ["sync", "async", "sync tools in an event loop"])
def test_forty_parallel_sends_are_each_made_once_after_their_checkpoint(
    tmp_path: Path, kind: str
) -> None:
    place = place_for(tmp_path)
    saver = Held(place)
    made: list[tuple[int, bool]] = []

    if kind == "async":

        @tool
        async def charge(cents: int) -> str:
            """Charge the card."""
            made.append((cents, saver.saved.is_set()))
            return "charged"

    else:

        @tool
        def charge(cents: int) -> str:
            """Charge the card."""
            made.append((cents, saver.saved.is_set()))
            return "charged"

    agent = agent_of(place, scripted(charges(*range(CALLS))), charge, saver=saver)
    if kind == "sync":
        state = agent.invoke(HELLO, CONFIG, durability="async")
    else:
        state = asyncio.run(agent.ainvoke(HELLO, CONFIG, durability="async"))
    assert sorted(made) == [(cents, True) for cents in range(CALLS)]
    assert len(told(state)) == CALLS


def test_without_protection_a_tool_runs_before_its_checkpoint(tmp_path: Path) -> None:
    """A negative control: the test above can fail."""
    saver = Held(place_for(tmp_path))
    early = []

    @tool
    def charge(cents: int) -> str:
        """Charge the card."""
        early.append(not saver.saved.is_set())
        saver.gate.set()
        return "charged"

    agent = create_agent(scripted(charges(7)), [charge], checkpointer=saver)
    agent.invoke(HELLO, CONFIG, durability="async")
    assert early == [True]


# Shapes of graphs


@pytest.mark.parametrize("way", ["wrap_tool_call", "protect", "Send"])
def test_hand_written_graphs_act_once(tmp_path: Path, shop: Shop, way: str) -> None:
    place = place_for(tmp_path)
    guard = NottwiceMiddleware(place)
    model = scripted(charges(5, 13), charges(5, first=3))
    if way == "wrap_tool_call":
        node: Any = ToolNode(
            [shop.charge],
            wrap_tool_call=guard.wrap_tool_call,
            awrap_tool_call=guard.awrap_tool_call,
        )
    else:
        node = ToolNode(protect([shop.charge], place))
    graph: Any = graph_of(place, model, node)
    if way == "Send":
        graph = _sending(place, model, node)
    state = graph.invoke(HELLO, CONFIG)
    assert list(questions(state)) == [13]
    state = graph.invoke(Command(resume=respond("seen")), CONFIG)
    heard = told(state)
    assert heard["call-2"].startswith("seen")
    assert heard["call-3"].startswith('{"charged": 5}\n[nottwice] Not done again.')
    assert sorted(shop.sent) == [5, 13]


def _sending(place: str, model: ScriptedModel, node: Any) -> Any:
    graph: Any = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", node)
    graph.add_edge(START, "model")

    def send(state: Any) -> Any:
        calls = state["messages"][-1].tool_calls
        return [Send("tools", [{**one, "type": "tool_call"}]) for one in calls] or "__end__"

    graph.add_conditional_edges("model", send, ["tools", "__end__"])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=NottwiceSaver(place))


@pytest.mark.parametrize("levels", [1, 2])
def test_a_tool_in_a_subgraph_pauses_the_whole_and_is_answered_there(
    tmp_path: Path, shop: Shop, levels: int
) -> None:
    place = place_for(tmp_path)
    inner: Any = create_agent(
        scripted(charges(13, 5)), [shop.charge], middleware=[NottwiceMiddleware(place)]
    )
    for _ in range(levels):
        graph: Any = StateGraph(MessagesState)
        graph.add_node("inner", inner)
        graph.add_edge(START, "inner")
        inner = graph.compile(checkpointer=NottwiceSaver(place) if _ == levels - 1 else None)
    state = inner.invoke(HELLO, CONFIG)
    assert list(questions(state)) == [13]
    state = inner.invoke(Command(resume=respond("seen")), CONFIG)
    assert told(state)["call-1"].startswith("seen")
    assert sorted(shop.sent) == [5, 13]


def test_what_a_graph_injects_is_no_part_of_a_call(tmp_path: Path) -> None:
    sent = []

    @tool
    def charge(
        cents: int, state: Annotated[dict[str, Any], InjectedState], runtime: ToolRuntime
    ) -> str:
        """Charge the card."""
        sent.append((cents, len(state["messages"]), runtime.tool_call_id))
        return "charged"

    place = place_for(tmp_path)
    options: Any = {"charge": {"replay": "unsafe_on_replay", "repeat": "free"}}
    for node in (
        ToolNode(protect([charge], place, tools=options, run="ticket-1")),
        ToolNode(
            [charge],
            wrap_tool_call=NottwiceMiddleware(place, tools=options, run="ticket-2").wrap_tool_call,
        ),
    ):
        sent.clear()
        graph_of(place, scripted(charges(7), charges(7, first=2)), node).invoke(
            HELLO, {"configurable": {"thread_id": str(id(node))}}
        )
        assert sent == [(7, 2, "call-1")]


# Streaming


@pytest.mark.parametrize("mode", ["values", "updates", "messages", "tasks", "debug", "custom"])
def test_a_stream_has_what_it_has_without_nottwice(tmp_path: Path, shop: Shop, mode: Any) -> None:
    place = place_for(tmp_path)
    model = scripted(charges(5))
    bare = create_agent(model, [shop.charge], checkpointer=NottwiceSaver(place))
    there: Any = {"configurable": {"thread_id": "bare"}}
    wanted = [_shape(one) for one in bare.stream(HELLO, there, stream_mode=mode)]
    agent = agent_of(place, model, shop.charge)
    assert [_shape(one) for one in agent.stream(HELLO, CONFIG, stream_mode=mode)] == wanted

    async def streamed() -> list[Any]:
        there: Any = {"configurable": {"thread_id": "async"}}
        return [_shape(one) async for one in agent.astream(HELLO, there, stream_mode=mode)]

    assert asyncio.run(streamed()) == wanted
    assert shop.sent == [5, 5, 5]


def _shape(chunk: Any) -> Any:
    """What a chunk is made of: names and types."""
    if isinstance(chunk, dict):
        return {name: _shape(one) for name, one in chunk.items() if name != "metadata"}
    if isinstance(chunk, list | tuple):
        return [_shape(one) for one in chunk]
    return type(chunk).__name__


def test_a_pause_comes_through_a_stream_and_its_answer_too(tmp_path: Path, shop: Shop) -> None:
    agent = agent_of(place_for(tmp_path), scripted(charges(13)), shop.charge)
    *_, last = agent.stream(HELLO, CONFIG, stream_mode="updates")
    assert last["__interrupt__"][0].value["action_requests"][0]["name"] == "charge"

    async def events() -> list[str]:
        go = agent.astream_events(Command(resume=respond("seen")), CONFIG)
        return [one["event"] async for one in go if one["name"] == "charge"]

    assert asyncio.run(events()) == ["on_tool_start", "on_tool_end"]
    assert shop.sent == [13]


# Time travel and repeats


def test_time_travel_hands_out_no_receipt_silently(tmp_path: Path, shop: Shop) -> None:
    agent = agent_of(place_for(tmp_path), scripted(charges(5)), shop.charge)
    assert told(agent.invoke(HELLO, CONFIG))["call-1"] == '{"charged": 5}'
    before = next(one for one in agent.get_state_history(CONFIG) if one.next == ("tools",))
    note = '{"charged": 5}\n[nottwice] Not done again.'
    assert told(agent.invoke(None, before.config))["call-1"].startswith(note)
    # A fork in which the model says the same under another id.
    messages = [AIMessage("", id=before.values["messages"][-1].id, tool_calls=charges(5, first=9))]
    fork = agent.update_state(before.config, {"messages": messages}, as_node="model")
    assert told(agent.invoke(None, fork))["call-9"].startswith(note)
    assert shop.sent == [5]
    # And one in which it says something else.
    messages = [AIMessage("", id=before.values["messages"][-1].id, tool_calls=charges(6, first=9))]
    fork = agent.update_state(before.config, {"messages": messages}, as_node="model")
    assert told(agent.invoke(None, fork))["call-9"] == '{"charged": 6}'
    assert shop.sent == [5, 6]


@pytest.mark.parametrize("repeat", ["free", "ask"])
def test_a_model_repeats_on_purpose_where_that_is_declared(
    tmp_path: Path, shop: Shop, repeat: str
) -> None:
    again = ask("charge", "call-2", cents=5, **{REPEAT: "second parcel"})
    model = scripted(charges(5), [again], [{**again, "id": "call-3"}])
    options: Any = {"charge": {"replay": "unsafe_on_replay", "repeat": repeat}}
    agent = agent_of(place_for(tmp_path), model, shop.charge, tools=options)
    state = agent.invoke(HELLO, CONFIG)
    (offered,) = model.offered
    assert REPEAT in offered["function"]["parameters"]["properties"]
    if repeat == "ask":
        asked = questions(state)[5]
        assert "second parcel" in asked.value["action_requests"][0]["description"]
        assert shop.sent == [5]
        state = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)
    heard = told(state)
    assert heard["call-2"] == '{"charged": 5}'
    assert f"call again with {REPEAT}=" in heard["call-3"]
    assert shop.sent == [5, 5]


def test_without_a_declaration_the_model_is_offered_no_repeat(tmp_path: Path, shop: Shop) -> None:
    model = scripted(charges(5), charges(5, first=2))
    agent = agent_of(place_for(tmp_path), model, shop.charge)
    assert REPEAT not in told(agent.invoke(HELLO, CONFIG))["call-2"]
    (offered,) = model.offered
    assert list(offered["function"]["parameters"]["properties"]) == ["cents"]


# Errors


@pytest.mark.parametrize("way", ["ToolNode", "retry middleware", "retry policy"])
def test_a_stop_is_neither_told_to_the_model_nor_tried_again(
    tmp_path: Path, shop: Shop, way: str
) -> None:
    """ToolNode and the retry middleware would make a text of it, and the model would go on."""
    place = place_for(tmp_path)
    guard = NottwiceMiddleware(place)
    model = scripted(charges(13), charges(5, first=2))
    if way == "retry middleware":
        retry = ToolRetryMiddleware(max_retries=2, initial_delay=0)
        agent: Any = create_agent(
            model, [shop.charge], checkpointer=NottwiceSaver(place), middleware=[retry, guard]
        )
    else:
        node = ToolNode([shop.charge], handle_tool_errors=True, wrap_tool_call=guard.wrap_tool_call)
        options = {"retry_policy": RetryPolicy(max_attempts=3, retry_on=Exception)}
        agent = graph_of(place, model, node, **(options if way == "retry policy" else {}))
    agent.invoke(HELLO, CONFIG)
    with pytest.raises(RunAborted) as caught:
        agent.invoke(Command(resume={"type": "reject"}), CONFIG)
    assert isinstance(caught.value, nt.NottwiceError)
    assert shop.sent == [13]


@pytest.mark.skipif(
    "bool(__import__('os').environ.get('NOTTWICE_PLACE'))", reason="it needs a file"
)
def test_a_ledger_that_is_gone_stops_the_agent(tmp_path: Path, shop: Shop) -> None:
    place = tmp_path / "effects.db"
    guard = NottwiceMiddleware(str(place))
    agent: Any = create_agent(
        scripted(charges(5), charges(6, first=2)),
        [shop.charge],
        checkpointer=NottwiceSaver(str(tmp_path / "agent.db")),
        middleware=[guard],
    )
    agent.invoke(HELLO, CONFIG)
    shop.sent.clear()
    for file in tmp_path.glob("effects.db*"):
        file.unlink()
    with pytest.raises(StoreError, match="was deleted"):
        agent.invoke(HELLO, {"configurable": {"thread_id": "ticket-8"}})
    assert shop.sent == []


def test_a_name_that_the_model_made_up_is_told_as_before(tmp_path: Path, shop: Shop) -> None:
    agent = agent_of(place_for(tmp_path), scripted([ask("chrage", "c", cents=1)]), shop.charge)
    assert "not a valid tool" in told(agent.invoke(HELLO, CONFIG))["c"]
