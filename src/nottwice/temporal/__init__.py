"""Temporal activities that take effect at most once. Needs ``pip install 'nottwice[temporal]'``.

``plugins=[nt.temporal.Plugin("postgresql://…")]`` for the client or the worker. An activity that is
a protected tool is then made once, whatever Temporal retries, resets or times out. Importing
nottwice imports none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.temporal.plugin import Plugin

__all__ = ["Plugin"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from nottwice.temporal import plugin
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "temporalio":
            raise
        raise ImportError(
            f"nottwice.temporal.{name} needs Temporal's SDK, which is not installed. Install it: "
            "pip install 'nottwice[temporal]'",
            name=error.name,
        ) from error
    return getattr(plugin, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
