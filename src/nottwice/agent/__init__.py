"""An agent that can be killed at any beat: plan, context, reason, act, observe, learn.

``nt.Agent`` and ``nt.Budget`` declare one. Here is what fewer programs name: what a model is shown
(``Context``, ``File``), what it costs (``Price``), what a run holds (``RunState``), and notes that
survive the process (``Scratchpad``).
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.agent.context import Context
    from nottwice.agent.files import File
    from nottwice.agent.provider import Price
    from nottwice.agent.scratchpad import Scratchpad
    from nottwice.agent.state import RunState

__all__ = ["Context", "File", "Price", "RunState", "Scratchpad"]

# Imported when first used: every module of this room runs this file, also those that these need.
_HOME = {
    "Context": "nottwice.agent.context",
    "File": "nottwice.agent.files",
    "Price": "nottwice.agent.provider",
    "RunState": "nottwice.agent.state",
    "Scratchpad": "nottwice.agent.scratchpad",
}


if not TYPE_CHECKING:
    # Type checkers would take every name, also a misspelt one, for one of ours.

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module 'nottwice.agent' has no attribute {name!r}")
        found = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME})
