"""LangChain and LangGraph on a nottwice ledger. Needs ``pip install 'nottwice[langchain]'``.

Importing nottwice imports none of this, and importing this imports LangGraph only when one of its
names is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nottwice import lazy

if TYPE_CHECKING:
    from nottwice.langchain.middleware import NottwiceMiddleware
    from nottwice.langchain.saver import NottwiceSaver
    from nottwice.langchain.tools import protect
else:
    __getattr__, __dir__ = lazy.names(
        __name__,
        {
            "NottwiceMiddleware": "nottwice.langchain.middleware",
            "NottwiceSaver": "nottwice.langchain.saver",
            "protect": "nottwice.langchain.tools",
        },
        needs={"langgraph": "LangGraph", "langchain_core": "LangGraph", "langchain": "LangChain"},
    )

__all__ = ["NottwiceMiddleware", "NottwiceSaver", "protect"]
