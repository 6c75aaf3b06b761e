"""Temporal activities that take effect at most once. Needs ``pip install 'nottwice[temporal]'``.

``plugins=[nt.temporal.Plugin("postgresql://…")]`` for the client or the worker. An activity that is
a protected tool is then made once, whatever Temporal retries, resets or times out. Importing
nottwice imports none of this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nottwice import lazy

if TYPE_CHECKING:
    from nottwice.temporal.plugin import Plugin
else:
    __getattr__, __dir__ = lazy.names(
        __name__, {"Plugin": "nottwice.temporal.plugin"}, needs={"temporalio": "Temporal's SDK"}
    )

__all__ = ["Plugin"]
