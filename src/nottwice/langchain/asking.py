"""How does a task of LangGraph ask a person, and where does it find the answers? (P263)

``interrupt()`` hands out answers by number, in the order in which code asks. A call whose review
was decided does not ask again, so that order changes. This file only reads the answers, and
``questions.py`` finds the one that is for this call.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt

from nottwice.langchain.order import CHECKPOINTER, around, checkpoints_of
from nottwice.langchain.questions import Heard

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

_SCRATCHPAD = "__pregel_scratchpad"
_TASK = "__pregel_task_id"
_INTERRUPT = "__interrupt__"
_RESUME = "__resume__"

# What each task had asked, and which answers it had, when it began. The first of its tools that
# asks reads this, and the others get the same. The tools of a ToolNode share a task and run at the
# same time. When one of them pauses, its question is saved while the others still run, and they
# must not take an answer that came before for an answer to that question. Each task has a function
# of its own in LangGraph, which lives as long as the task.
_heard: weakref.WeakKeyDictionary[Callable[..., Any], Heard] = weakref.WeakKeyDictionary()
_guard = threading.Lock()


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

    def hear(self) -> Heard:
        """What this task had asked when it began, and what it has heard."""
        known = self._known()
        if known is not None:
            return known
        return self._first(self._configurable[CHECKPOINTER].get_tuple(self._checkpoint()))

    async def hear_async(self) -> Heard:
        """The same without blocking the event loop."""
        known = self._known()
        if known is not None:
            return known
        saver = self._configurable[CHECKPOINTER]
        return self._first(await saver.aget_tuple(self._checkpoint()))

    def take(self, answer: Any) -> None:
        """Note that an answer was used, so that ``interrupt()`` in a tool does not get it."""
        scratchpad = self._configurable[_SCRATCHPAD]
        with _guard:
            for number, given in enumerate(scratchpad.resume):
                if given is answer:
                    del scratchpad.resume[number]
                    return
            scratchpad.get_null_resume(True)

    def pause(self, question: Mapping[str, Any]) -> NoReturn:
        """Raise what pauses the graph, as ``interrupt()`` does when it has no answer."""
        namespace = self._configurable["checkpoint_ns"]
        raise GraphInterrupt((Interrupt.from_ns(value=question, ns=namespace),))

    def _checkpoint(self) -> RunnableConfig:
        """The checkpoint that this task belongs to: the nearest of those around it."""
        checkpoints = checkpoints_of(self._configurable)
        namespace = around(str(self._configurable.get("checkpoint_ns") or ""))
        while namespace and namespace not in checkpoints:
            namespace = around(namespace)
        named = {
            "thread_id": self._configurable.get("thread_id"),
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoints.get(namespace),
        }
        return {"configurable": named}

    def _known(self) -> Heard | None:
        with _guard:
            return _heard.get(self._configurable[_SCRATCHPAD].get_null_resume)

    def _first(self, checkpoint: Any) -> Heard:
        """Keep what was found, unless another tool of the task was faster."""
        scratchpad = self._configurable[_SCRATCHPAD]
        asked = self._saved(checkpoint, _INTERRUPT)
        # What is saved was given earlier, to an interrupt of a tool itself.
        earlier = len(self._saved(checkpoint, _RESUME))
        last = asked[-1].value if asked and isinstance(asked[-1], Interrupt) else None
        with _guard:
            given = tuple(scratchpad.resume[earlier:])
            found = Heard(last, given, scratchpad.get_null_resume(False))
            return _heard.setdefault(scratchpad.get_null_resume, found)

    def _saved(self, checkpoint: Any, wanted: str) -> Sequence[Any]:
        """What the checkpoint has saved of this task."""
        writes = [] if checkpoint is None else checkpoint.pending_writes or []
        for task_id, channel, value in writes:
            if task_id == self._configurable.get(_TASK) and channel == wanted:
                return value if isinstance(value, list | tuple) else [value]
        return []
