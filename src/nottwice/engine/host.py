"""What a ledger lends to its runs: a store, a clock, a driver, policies and keys.

The engine is generators that ask, and the driver answers. It is a value like the store: a
ledger can be opened with another one, which answers by itself or wraps the usual driver.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from nottwice.engine.asks import Ask
from nottwice.engine.clock import Clock
from nottwice.model.policy import ProposedCall
from nottwice.model.sealing.keyring import Keyring
from nottwice.store.interface import Store

Policy = Callable[[ProposedCall], Any]
FindKeys = Callable[[], Keyring | None]


class Driver(Protocol):
    """Does what the engine asks for. An error that it raises is raised in the engine."""

    def answer(self, ask: Ask, seat: Seat) -> Any:
        """Do one thing in this thread."""

    async def answer_async(self, ask: Ask, seat: Seat) -> Any:
        """Do one thing without blocking the event loop."""


class Seat(Protocol):
    """Where a driver sits: the store it asks and the clock it waits by."""

    @property
    def store(self) -> Store: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def driver(self) -> Driver: ...


class Host(Seat, Protocol):
    """A ledger, or a run of it that has children: everything that opening a run needs."""

    @property
    def policies(self) -> tuple[Policy, ...]:
        """Who is asked before every call that has no receipt yet."""

    @property
    def keys(self) -> FindKeys:
        """Where the keys are from that secrets are made unrecognisable with."""
