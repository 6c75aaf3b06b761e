"""Restate handlers whose effects happen at most once. Needs ``pip install 'nottwice[restate]'``.

``await nt.restate.run(ctx, "refund", refund, {...}, store="postgresql://…")`` in place of
``ctx.run`` makes a protected tool a durable step of a handler. Importing nottwice imports none of
this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.restate.steps import run

__all__ = ["run"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from nottwice.restate import steps
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "restate":
            raise
        raise ImportError(
            f"nottwice.restate.{name} needs Restate's SDK, which is not installed. Install it: "
            "pip install 'nottwice[restate]'",
            name=error.name,
        ) from error
    return getattr(steps, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
