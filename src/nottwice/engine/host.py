"""What a ledger provides for its runs: a store, a clock, a driver, policies and keys.

The engine consists of generators that ask, and the driver answers. The driver is a value, like the
store: a ledger can be opened with another driver, which answers itself or wraps the usual one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from nottwice.engine.asks import Ask
from nottwice.engine.clock import Clock
from nottwice.model.data.records import frozen_record
from nottwice.model.policy import ProposedCall
from nottwice.model.runs.limits import Limit
from nottwice.model.sealing.keyring import Keyring
from nottwice.model.tool import Tool
from nottwice.store.interface import Store

Policy = Callable[[ProposedCall], Any]
FindTool = Callable[[str], Tool | None]
FindKeys = Callable[[], Keyring | None]


class Driver(Protocol):
    """Does what the engine asks for. Errors that it raises are raised in the engine."""

    def answer(self, ask: Ask, host: Host) -> Any:
        """Answer one ask in this thread."""

    async def answer_async(self, ask: Ask, host: Host) -> Any:
        """Answer one ask without blocking the event loop."""


@frozen_record(frozen=True, slots=True, kw_only=True, eq=False)
class Host:
    """What a run needs to be opened and driven. Each ledger owns one, and its runs share it."""

    store: Store
    clock: Clock
    driver: Driver
    keys: FindKeys
    """Loads the keys that fingerprint secrets."""
    find_tool: FindTool
    """Finds a tool that this process declares, by its name."""
    policies: tuple[Policy, ...] = ()
    """The policies that are asked before every call without a receipt."""
    limits: tuple[Limit, ...] = ()
    """The limits that its runs and their calls keep."""
