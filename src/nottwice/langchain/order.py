"""May a tool run now, or could a crash still forget the reply that asked for it? (P262)

The checkpoint with the model's reply must be durable before the intent. With ``NottwiceSaver`` the
call waits for that. With another saver only ``durability="sync"`` guarantees it, so anything else
is refused. Without a saver there is no checkpoint, and nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nottwice.errors import UsageError

CHECKPOINTER = "__pregel_checkpointer"
_DURABILITY = "__pregel_durability"
_DEFAULT = "async"
"""What LangGraph does if the caller names no durability. The config says nothing then."""


def checkpoints_of(configurable: Mapping[str, Any]) -> dict[str, str]:
    """Return the checkpoints that led to a task, by namespace: of its graph and those around it.

    A ``@task`` that a node calls is no graph, and has no checkpoints. LangGraph still names one in
    the namespace of that node: the one of the graph around it, a second time.
    """
    named: Mapping[str, str] = configurable.get("checkpoint_map") or {}
    return {
        namespace: checkpoint_id
        for namespace, checkpoint_id in named.items()
        if not namespace or named.get(around(namespace)) != checkpoint_id
    }


def around(namespace: str) -> str:
    """Return the namespace one level up."""
    return namespace.rpartition("|")[0]


def waits(configurable: Mapping[str, Any]) -> bool:
    """Whether the call has to wait for its checkpoint. UsageError: it must not be made at all."""
    saver = configurable.get(CHECKPOINTER)
    if not saver:
        return False
    if hasattr(saver, "wait_until_durable"):
        return True
    durability = configurable.get(_DURABILITY, _DEFAULT)
    if durability == "sync":
        return False
    raise UsageError(
        f"{type(saver).__name__} saves checkpoints with durability={durability!r} "
        f"{'in the background' if durability == _DEFAULT else 'when the graph has ended'}, so a "
        "crash could forget the model's reply after its tools have run. The tool was not run. Use "
        'nottwice.langchain.NottwiceSaver, or pass durability="sync" to invoke or stream.'
    )
