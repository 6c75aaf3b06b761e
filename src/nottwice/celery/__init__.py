"""Celery tasks that take effect at most once. Needs ``pip install 'nottwice[celery]'``.

``@nt.celery.task(app, store="postgresql://…", run="order_id")`` over ``@nt.tool(...)`` makes a task
of a Celery app. Importing nottwice imports none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nottwice import lazy

if TYPE_CHECKING:
    from nottwice.celery.tasks import task
else:
    __getattr__, __dir__ = lazy.names(
        __name__, {"task": "nottwice.celery.tasks"}, needs={"celery": "Celery"}
    )

__all__ = ["task"]
