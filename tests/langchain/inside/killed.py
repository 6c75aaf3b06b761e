"""A graph that counts, in a process that is killed. Arguments: ledger, thread, steps.

It says the number of every step as it begins, and "done" with its final state.
"""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from nottwice.langchain import NottwiceSaver


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    number: int
    steps: int


def say(document: object) -> None:
    print(json.dumps(document), flush=True)


def step(state: State) -> State:
    number = state["number"]
    say(number)
    return {"messages": [AIMessage(f"{number} " * 200, id=str(number))], "number": number + 1}


def counting() -> Any:
    graph = StateGraph(State)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges(
        "step", lambda state: "step" if state["number"] < state["steps"] else END
    )
    return graph


def main(place: str, thread_id: str, steps: int, durability: Any) -> None:
    graph = counting().compile(checkpointer=NottwiceSaver(place))
    config: Any = {"configurable": {"thread_id": thread_id}, "recursion_limit": 10_000}
    # A new thread begins; a killed one continues where it was.
    known = graph.get_state(config).values
    first = None if known else {"messages": [], "number": 0, "steps": steps}
    state = graph.invoke(first, config, durability=durability)
    say({"done": [message.id for message in state["messages"]]})


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
