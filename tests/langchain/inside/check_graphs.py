"""Do real graphs run, resume and travel in time on the saver exactly as on LangGraph's own?

The oracle is LangGraph's InMemorySaver: the same graph, driven in the same way, must show the same
history. Every graph of ours is read back by a second saver, which has nothing in memory.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage
from langgraph.channels import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

from nottwice.errors import InvalidId, LedgerCorrupt
from nottwice.langchain import NottwiceSaver
from nottwice.langchain.rows import Rows
from tests.langchain.inside.places import place_for

CONFIG: Any = {"configurable": {"thread_id": "ticket-7"}, "recursion_limit": 10_000}


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    number: int
    files: dict[str, str]


def looping(steps: int) -> Any:
    """A graph that adds a message of 500 characters at every step."""

    def step(state: State) -> State:
        number = state["number"]
        return {"messages": [AIMessage("x" * 500, id=str(number))], "number": number + 1}

    graph = StateGraph(State)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["number"] < steps else END)
    return graph


def asking() -> Any:
    """A graph with a subgraph that asks a person, and a node that rewrites the conversation."""

    def ask(state: State) -> State:
        answer = interrupt("Go on?")
        return {"messages": [HumanMessage(f"{answer} " * 60, id="answer")]}

    def shorten(state: State) -> State:
        return {"messages": [RemoveMessage("0"), AIMessage("summary " * 40, id="answer")]}

    def write(state: State) -> State:
        return {"files": {**state.get("files", {}), "a.txt": "text " * 100}, "number": 9}

    inner = StateGraph(State)
    inner.add_node("ask", ask)
    inner.add_edge(START, "ask")
    graph = StateGraph(State)
    graph.add_node("inner", inner.compile())
    graph.add_node("shorten", shorten)
    graph.add_node("write", write)
    graph.add_edge(START, "inner")
    graph.add_edge("inner", "shorten")
    graph.add_edge("shorten", "write")
    return graph


def history(graph: Any) -> list[Any]:
    return [
        (
            one.values,
            one.next,
            one.metadata["step"],
            one.metadata["source"],
            [
                (task.name, task.result, [each.value for each in task.interrupts])
                for task in one.tasks
            ],
        )
        for one in graph.get_state_history(CONFIG)
    ]


def drive_loop(graph: Any, how: Any) -> None:
    first = {"messages": [HumanMessage("hello", id="h")], "number": 0}
    graph.invoke(first, CONFIG, durability=how)


def drive_questions(graph: Any, how: Any) -> None:
    first = [AIMessage("y" * 300, id=str(number)) for number in range(3)]
    graph.invoke({"messages": first, "number": 0}, CONFIG, durability=how)
    graph.invoke(Command(resume="yes"), CONFIG, durability=how)


def drive_through_time(graph: Any, how: Any) -> None:
    drive_loop(graph, "sync")
    past = list(graph.get_state_history(CONFIG))
    # A fork in the middle, a change of the past, and a run from there; then another fork.
    graph.invoke(None, past[4].config, durability=how)
    changed = graph.update_state(
        past[5].config, {"messages": [AIMessage("z" * 400, id="new")], "number": 6}, as_node="step"
    )
    graph.invoke(None, changed, durability=how)
    graph.update_state(past[3].config, None, as_node="__copy__")
    graph.update_state(CONFIG, {"messages": [RemoveMessage("h")]})


DRIVES: list[tuple[Any, Callable[[Any, Any], None]]] = [
    (looping(12), drive_loop),
    (asking(), drive_questions),
    (looping(9), drive_through_time),
]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
@pytest.mark.parametrize("number", range(len(DRIVES)))
def test_a_graph_has_the_same_history_as_with_the_saver_in_memory(
    tmp_path: Path, number: int, durability: str
) -> None:
    graph, drive = DRIVES[number]
    expected = graph.compile(checkpointer=InMemorySaver())
    drive(expected, durability)
    ours = graph.compile(checkpointer=NottwiceSaver(place_for(tmp_path)))
    drive(ours, durability)
    assert history(ours) == history(expected)
    reread = graph.compile(checkpointer=NottwiceSaver(place_for(tmp_path)))
    assert history(reread) == history(expected)
    assert reread.get_state(CONFIG).values == expected.get_state(CONFIG).values


def test_an_event_loop_sees_the_same(tmp_path: Path) -> None:
    async def both() -> tuple[list[Any], list[Any]]:
        found = []
        for saver in (InMemorySaver(), NottwiceSaver(place_for(tmp_path))):
            graph = asking().compile(checkpointer=saver)
            await graph.ainvoke({"messages": [AIMessage("y", id="0")], "number": 0}, CONFIG)
            await graph.ainvoke(Command(resume="yes"), CONFIG)
            past = [one async for one in graph.aget_state_history(CONFIG)]
            await graph.aupdate_state(past[1].config, {"number": 3})
            found.append([(one.values, one.next) async for one in graph.aget_state_history(CONFIG)])
        return found[0], found[1]

    expected, ours = asyncio.run(both())
    assert ours == expected


def joined(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(text for each in writes for text in each)]


class Log(TypedDict, total=False):
    log: Annotated[list[str], DeltaChannel(joined, snapshot_frequency=4)]
    number: int


def test_a_delta_channel_is_rebuilt_and_survives_pruning(tmp_path: Path) -> None:
    def step(state: Log) -> Log:
        return {"log": [f"{state['number']} " * 80], "number": state["number"] + 1}

    graph = StateGraph(Log)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: "step" if state["number"] < 7 else END)
    found = []
    for saver in (InMemorySaver(), NottwiceSaver(place_for(tmp_path))):
        made = graph.compile(checkpointer=saver)
        made.invoke({"log": [], "number": 0}, CONFIG)
        found.append([(one.values, one.next) for one in made.get_state_history(CONFIG)])
    assert found[1] == found[0]
    saver = NottwiceSaver(place_for(tmp_path))
    saver.prune(["ticket-7"])
    assert graph.compile(checkpointer=saver).get_state(CONFIG).values == found[0][0][0]


def test_a_message_that_a_node_changes_where_it_is_is_saved(tmp_path: Path) -> None:
    def change(state: State) -> State:
        message = state["messages"][1]
        message.content = "changed " * 50
        return {"messages": [message]}

    graph = StateGraph(State)
    graph.add_node("change", change)
    graph.add_edge(START, "change")
    made = graph.compile(checkpointer=NottwiceSaver(place_for(tmp_path)))
    made.invoke({"messages": [HumanMessage("x" * 300, id=str(n)) for n in range(4)]}, CONFIG)
    reread = NottwiceSaver(place_for(tmp_path)).get_tuple(CONFIG)
    assert reread is not None
    texts = [one.content for one in reread.checkpoint["channel_values"]["messages"]]
    assert texts == ["x" * 300, "changed " * 50, "x" * 300, "x" * 300]


def stored_bytes(place: str) -> int:
    rows: Rows = NottwiceSaver(place)._rows
    parts = (
        ("SELECT sum(length(data)) FROM nottwice.langgraph_values"),
        ("SELECT sum(length(value)) FROM nottwice.langgraph_writes"),
        ("SELECT sum(length(head) + length(places)) FROM nottwice.langgraph_checkpoints"),
    )
    return sum(int(rows._look_up(part, {})[0][0]) for part in parts)


def test_a_growing_conversation_costs_the_same_at_every_step(tmp_path: Path) -> None:
    sizes = []
    for steps in (50, 100, 200):
        folder = tmp_path / str(steps)
        folder.mkdir()
        graph = looping(steps).compile(checkpointer=NottwiceSaver(place_for(folder)))
        graph.invoke({"messages": [], "number": 0}, CONFIG)
        sizes.append(stored_bytes(place_for(folder)) / steps)
    assert max(sizes) < 1.1 * min(sizes)
    assert max(sizes) < 3_000


def test_a_thread_that_is_continued_by_a_new_process_at_every_step_costs_the_same(
    tmp_path: Path,
) -> None:
    place = place_for(tmp_path)
    for steps in range(1, 41):
        graph = looping(steps).compile(checkpointer=NottwiceSaver(place))
        graph.invoke({"number": steps - 1}, CONFIG)
    assert stored_bytes(place) / 40 < 6_000
    assert len(graph.get_state(CONFIG).values["messages"]) == 40


class Cipher:
    """Not a cipher to use: it hides the text, and gives other bytes every time, as real ones do."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        # Never 0, which would leave the text as it is.
        key = 1 + secrets.randbelow(255)
        return "test", bytes([key]) + bytes(byte ^ key for byte in plaintext)

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return bytes(byte ^ ciphertext[0] for byte in ciphertext[1:])


def test_an_encrypting_serializer_hides_the_text_and_keeps_the_size(tmp_path: Path) -> None:
    place = place_for(tmp_path)
    graph = looping(40).compile(
        checkpointer=NottwiceSaver(place, serde=EncryptedSerializer(Cipher()))
    )
    graph.invoke({"messages": [], "number": 0}, CONFIG)
    assert len(graph.get_state(CONFIG).values["messages"]) == 40
    assert stored_bytes(place) / 40 < 3_000
    if "://" not in place:
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"xxxxxxxx" not in files
    with pytest.raises((LedgerCorrupt, NotImplementedError)):
        NottwiceSaver(place).get_tuple(CONFIG)


def test_a_clone_with_an_allowlist_shares_what_the_saver_knows(tmp_path: Path) -> None:
    saver = NottwiceSaver(place_for(tmp_path))
    clone = saver.with_allowlist([("somewhere", "Thing")])
    graph = looping(3).compile(checkpointer=clone)
    graph.invoke({"messages": [], "number": 0}, CONFIG)
    saver.wait_until_durable(graph.get_state(CONFIG).config, timeout=None)


def test_threads_are_deleted_copied_and_named_as_text_only(tmp_path: Path) -> None:
    saver = NottwiceSaver(place_for(tmp_path))
    graph = looping(3).compile(checkpointer=saver)
    graph.invoke({"messages": [], "number": 0}, CONFIG)
    saver.copy_thread("ticket-7", "ticket-8")
    saver.delete_thread("ticket-7")
    assert graph.get_state(CONFIG).values == {}
    copied = graph.get_state({"configurable": {"thread_id": "ticket-8"}}).values
    assert len(copied["messages"]) == 3
    graph.invoke({"messages": [], "number": 0}, CONFIG)
    assert len(graph.get_state(CONFIG).values["messages"]) == 3
    with pytest.raises(InvalidId, match="cannot be stored"):
        graph.invoke({"number": 0}, {"configurable": {"thread_id": "a\0b"}})


def test_many_threads_of_one_process_write_their_own_conversations(tmp_path: Path) -> None:
    saver = NottwiceSaver(place_for(tmp_path))
    graph = looping(6).compile(checkpointer=saver)
    configs: list[Any] = [{"configurable": {"thread_id": str(number)}} for number in range(8)]
    graph.batch([{"messages": [], "number": 0} for _ in configs], configs)

    async def more() -> None:
        await asyncio.gather(*(graph.ainvoke({"number": 3}, config) for config in configs))

    asyncio.run(more())
    lengths = [len(graph.get_state(config).values["messages"]) for config in configs]
    assert lengths == [6] * 8
    assert len(list(saver.list(None))) == 8 * len(list(saver.list(configs[0])))
