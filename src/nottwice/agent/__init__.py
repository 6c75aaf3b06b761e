"""An agent that you can kill at any point of its loop: plan, context, reason, act, observe, learn.

``nt.Agent`` and ``nt.Budget`` declare an agent. This module has the names that fewer programs need:
what a model sees (``Context``, ``File``), what it costs (``Price``), what a run holds
(``RunState``), and notes that survive the process (``Scratchpad``).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.agent.calls.scratchpad import Scratchpad
    from nottwice.agent.context import Context
    from nottwice.agent.provider import Price
    from nottwice.agent.requests.files import File
    from nottwice.agent.state import RunState

__all__ = ["Context", "File", "Price", "RunState", "Scratchpad"]

# Imported when first used, because every module of this package runs this file.
_HOME = {
    "Context": "nottwice.agent.context",
    "File": "nottwice.agent.requests.files",
    "Price": "nottwice.agent.provider",
    "RunState": "nottwice.agent.state",
    "Scratchpad": "nottwice.agent.calls.scratchpad",
}


if not TYPE_CHECKING:
    # Hidden from type checkers, which would otherwise accept every name, even a misspelt one.

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'nottwice.agent' has no attribute {name!r}")
        found = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
