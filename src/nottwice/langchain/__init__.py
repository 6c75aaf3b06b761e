"""LangChain and LangGraph on a nottwice ledger. Needs ``pip install 'nottwice[langchain]'``.

Importing nottwice imports none of this, and importing this imports LangGraph only when one of its
names is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.langchain.middleware import NottwiceMiddleware
    from nottwice.langchain.saver import NottwiceSaver
    from nottwice.langchain.tools import protect

__all__ = ["NottwiceMiddleware", "NottwiceSaver", "protect"]

_MODULES = {"NottwiceMiddleware": "middleware", "NottwiceSaver": "saver", "protect": "tools"}
_FRAMEWORKS = {"langgraph": "LangGraph", "langchain_core": "LangGraph", "langchain": "LangChain"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    except ImportError as error:
        missing = _FRAMEWORKS.get((error.name or "").partition(".")[0])
        if missing is None:
            raise
        raise ImportError(
            f"nottwice.langchain.{name} needs {missing}, which is not installed. Install it: "
            "pip install 'nottwice[langchain]'",
            name=error.name,
        ) from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
