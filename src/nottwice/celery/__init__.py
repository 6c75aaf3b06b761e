"""Celery tasks that take effect at most once. Needs ``pip install 'nottwice[celery]'``.

``@nt.celery.task(app, store="postgresql://…", run="order_id")`` over ``@nt.tool(...)`` makes a task
of a Celery app. Importing nottwice imports none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nottwice.celery.tasks import task

__all__ = ["task"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from nottwice.celery import tasks
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "celery":
            raise
        raise ImportError(
            f"nottwice.celery.{name} needs Celery, which is not installed. Install it: "
            "pip install 'nottwice[celery]'",
            name=error.name,
        ) from error
    return getattr(tasks, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
