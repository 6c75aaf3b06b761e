"""How does a task of LangGraph ask a person, and where are the answers that it has got? (P263)

LangGraph numbers the interrupts of a task by the order in which its code asks. A call whose review
was decided asks no more, so that order changes. Therefore all answers of the task are taken first,
and ``questions.py`` finds the one that is for this call.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt, interrupt

from nottwice.langchain.order import CHECKPOINTER

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

_SCRATCHPAD = "__pregel_scratchpad"
_TASK = "__pregel_task_id"
_INTERRUPT = "__interrupt__"

# The tools of one ToolNode share a task, and run in threads. LangGraph hands an answer to the one
# that asks at the right moment, and fails if two ask at the same time.
_one_at_a_time = threading.Lock()


class GraphAsking:
    """The questions and answers of one task of a graph."""

    def __init__(self, configurable: Mapping[str, Any]) -> None:
        self._configurable = configurable

    @staticmethod
    def of(config: RunnableConfig) -> GraphAsking | None:
        """None: this code is in no task that could be resumed with an answer."""
        configurable = config.get("configurable", {})
        if configurable.get(_SCRATCHPAD) is None or not configurable.get(CHECKPOINTER):
            return None
        return GraphAsking(configurable)

    def answers(self) -> Sequence[Any]:
        """Every answer that this task has got so far, in order."""
        with _one_at_a_time:
            try:
                while True:
                    interrupt(None)
            except GraphInterrupt:
                # There are no more. Nothing has seen this interrupt.
                return list(self._configurable[_SCRATCHPAD].resume)

    def asked_last(self) -> Any:
        """The question of this task that was saved last."""
        return self._question_in(self._configurable[CHECKPOINTER].get_tuple(self._checkpoint()))

    async def asked_last_async(self) -> Any:
        """The same without blocking the event loop."""
        saver = self._configurable[CHECKPOINTER]
        return self._question_in(await saver.aget_tuple(self._checkpoint()))

    def pause(self, question: Mapping[str, Any]) -> NoReturn:
        """Raise what pauses the graph."""
        with _one_at_a_time:
            while True:
                # An answer that came for another tool of this task, a moment ago, is not for this.
                interrupt(question)

    def _checkpoint(self) -> RunnableConfig:
        """The checkpoint that this task belongs to. Its own namespace is one below."""
        namespace = str(self._configurable.get("checkpoint_ns") or "").rpartition("|")[0]
        checkpoints = self._configurable.get("checkpoint_map") or {}
        named = {
            "thread_id": self._configurable.get("thread_id"),
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoints.get(namespace),
        }
        return {"configurable": named}

    def _question_in(self, found: Any) -> Any:
        writes = [] if found is None else found.pending_writes or []
        for task_id, channel, value in writes:
            if task_id == self._configurable.get(_TASK) and channel == _INTERRUPT:
                asked = value if isinstance(value, Sequence) else [value]
                return asked[-1].value if asked and isinstance(asked[-1], Interrupt) else None
        return None
