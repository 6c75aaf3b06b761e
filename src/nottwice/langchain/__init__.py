"""LangChain and LangGraph on a nottwice ledger. Needs ``pip install 'nottwice[langchain]'``.

Importing nottwice imports none of this, and importing this imports LangGraph only when one of its
names is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.langchain.saver import NottwiceSaver

__all__ = ["NottwiceSaver"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from nottwice.langchain import saver
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("langgraph", "langchain_core"):
            raise
        raise ImportError(
            f"nottwice.langchain.{name} needs LangGraph, which is not installed. Install it: "
            "pip install 'nottwice[langchain]'",
            name=error.name,
        ) from error
    return getattr(saver, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
