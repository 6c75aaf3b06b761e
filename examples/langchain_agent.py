"""A LangChain agent that pays, killed after it paid and before LangGraph has saved that.

    pip install 'nottwice[langchain]'
    python examples/langchain_agent.py bare kill    # without nottwice: it pays, and dies
    python examples/langchain_agent.py bare         # the documented resume pays again
    python examples/langchain_agent.py kill         # with nottwice, in another thread
    python examples/langchain_agent.py              # the resume asks a person, and pays nothing
    python examples/langchain_agent.py "it happened"

The model is scripted, so it needs no key. `langchain-bank.txt` has a line for every payment.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.types import Command

from nottwice.langchain import NottwiceMiddleware, NottwiceSaver

FOLDER = Path(os.environ.get("EXAMPLE_FOLDER", "."))
WORDS = sys.argv[1:]


def charge(cents: int) -> dict[str, int]:
    """Charge the customer's card."""
    with (FOLDER / "langchain-bank.txt").open("a") as bank:
        bank.write(f"{cents}\n")
    if "kill" in WORDS:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"charged": cents}


class Model(BaseChatModel):
    """It asks for one charge, and then it is done."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        return self

    def _generate(self, messages: list[Any], *given: Any, **options: Any) -> ChatResult:
        asked = [{"name": "charge", "args": {"cents": 4000}, "id": "call_1", "type": "tool_call"}]
        done = any(isinstance(one, AIMessage) for one in messages)
        reply = AIMessage("Done.") if done else AIMessage("", tool_calls=asked)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def main() -> None:
    ledger = str(FOLDER / "langchain.db")
    agent: Any = create_agent(
        Model(),
        [charge],
        checkpointer=NottwiceSaver(ledger),
        middleware=[] if "bare" in WORDS else [NottwiceMiddleware(ledger)],
    )
    config = {"configurable": {"thread_id": "bare" if "bare" in WORDS else "ticket-7"}}
    asked: Any = {"messages": "Charge the customer for order 7."}
    if agent.get_state(config).next:
        asked = None  # It was killed on its way: LangGraph's way to resume.
    if "it happened" in WORDS:
        asked = Command(resume={"decisions": [{"type": "respond", "message": "it is paid"}]})
    state = agent.invoke(asked, config)
    for question in state.get("__interrupt__", ()):
        (request,) = question.value["action_requests"]
        print("Did this happen?", request["name"], request["args"])
    print(state["messages"][-1].text)


if __name__ == "__main__":
    main()
