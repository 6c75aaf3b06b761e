"""An agent that you can kill at any point of its loop: plan, context, reason, act, observe, learn.

``nt.Agent`` and ``nt.Budget`` declare an agent. This module has the names that fewer programs need:
what a model sees (``Context``, ``File``), what it costs (``Price``), what a run holds
(``RunState``), and notes that survive the process (``Scratchpad``).
"""

from typing import TYPE_CHECKING

from nottwice import lazy

if TYPE_CHECKING:
    from nottwice.agent.calls.scratchpad import Scratchpad
    from nottwice.agent.context import Context
    from nottwice.agent.provider import Price
    from nottwice.agent.requests.files import File
    from nottwice.agent.state import RunState
else:
    # Imported when first used, because every module of this package runs this file.
    __getattr__, __dir__ = lazy.names(
        __name__,
        {
            "Context": "nottwice.agent.context",
            "File": "nottwice.agent.requests.files",
            "Price": "nottwice.agent.provider",
            "RunState": "nottwice.agent.state",
            "Scratchpad": "nottwice.agent.calls.scratchpad",
        },
    )

__all__ = ["Context", "File", "Price", "RunState", "Scratchpad"]
