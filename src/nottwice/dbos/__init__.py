"""DBOS steps that take effect at most once. Needs ``pip install 'nottwice[dbos]'``.

``@nt.dbos.step(store="postgresql://…")`` over ``@nt.tool(...)`` makes a step of a DBOS workflow.
Importing nottwice imports none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nottwice import lazy

if TYPE_CHECKING:
    from nottwice.dbos.steps import step
else:
    __getattr__, __dir__ = lazy.names(
        __name__, {"step": "nottwice.dbos.steps"}, needs={"dbos": "DBOS"}
    )

__all__ = ["step"]
