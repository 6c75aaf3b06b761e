"""DBOS steps that take effect at most once. Needs ``pip install 'nottwice[dbos]'``.

``@nt.dbos.step(store="postgresql://…")`` over ``@nt.tool(...)`` makes a step of a DBOS workflow.
Importing nottwice imports none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.dbos.steps import step

__all__ = ["step"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from nottwice.dbos import steps
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "dbos":
            raise
        raise ImportError(
            f"nottwice.dbos.{name} needs DBOS, which is not installed. Install it: "
            "pip install 'nottwice[dbos]'",
            name=error.name,
        ) from error
    return getattr(steps, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
