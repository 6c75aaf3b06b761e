"""Restate handlers whose effects happen at most once. Needs ``pip install 'nottwice[restate]'``.

``await nt.restate.run(ctx, "refund", refund, {...}, store="postgresql://…")`` in place of
``ctx.run`` makes a protected tool a durable step of a handler. Importing nottwice imports none of
this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nottwice import lazy

if TYPE_CHECKING:
    from nottwice.restate.steps import run
else:
    __getattr__, __dir__ = lazy.names(
        __name__, {"run": "nottwice.restate.steps"}, needs={"restate": "Restate's SDK"}
    )

__all__ = ["run"]
