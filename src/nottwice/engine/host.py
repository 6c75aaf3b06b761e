"""What a ledger provides for its runs: a store, a clock, a driver, policies and keys.

The engine consists of generators that ask, and the driver answers. The driver is a value, like the
store: a ledger can be opened with another driver, which answers itself or wraps the usual one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from nottwice.engine.asks import Ask
from nottwice.engine.clock import Clock
from nottwice.model.policy import ProposedCall
from nottwice.model.runs.limits import Limit
from nottwice.model.sealing.keyring import Keyring
from nottwice.store.interface import Store

Policy = Callable[[ProposedCall], Any]
FindKeys = Callable[[], Keyring | None]


class Driver(Protocol):
    """Does what the engine asks for. Errors that it raises are raised in the engine."""

    def answer(self, ask: Ask, host: Host) -> Any:
        """Answer one ask in this thread."""

    async def answer_async(self, ask: Ask, host: Host) -> Any:
        """Answer one ask without blocking the event loop."""


class Host(Protocol):
    """A ledger, or a run of it: everything needed to drive and to open a run."""

    @property
    def store(self) -> Store: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def driver(self) -> Driver: ...

    @property
    def policies(self) -> tuple[Policy, ...]:
        """The policies that are asked before every call without a receipt."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits that its runs and their calls keep."""

    @property
    def keys(self) -> FindKeys:
        """Where to find the keys that fingerprint secrets."""
