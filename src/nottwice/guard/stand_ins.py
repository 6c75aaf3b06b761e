"""What do ledgers use instead of what they were opened with, while code is examined or replayed?"""

from __future__ import annotations

import contextvars
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from nottwice.engine.host import Host
from nottwice.engine.opening import Opening
from nottwice.store.interface import Store


class StandIn(Protocol):
    """Replaces what ledgers were opened with, while code is examined or replayed."""

    def opened(self, given: str | Path | None) -> Store | None:
        """Return the store to use for this name; None: open the ledger as usual."""

    def host(self, named: Host) -> Host:
        """Return what runs are opened and driven with, instead of what the ledger has."""


_everywhere: StandIn | None = None
_here: contextvars.ContextVar[StandIn | None] = contextvars.ContextVar(
    "nottwice_stand_in", default=None
)


def stand_in_everywhere(instead: StandIn | None) -> None:
    """Make every ledger of this process use the stand-in, including ledgers that are open.

    Runs in progress keep what they were opened with. None: use the named ones again.
    """
    global _everywhere
    _everywhere = instead


def stand_in_here(instead: StandIn) -> None:
    """Do the same for code that runs in this context, permanently."""
    _here.set(instead)


def host_here(named: Host) -> Host:
    """Return what runs are opened with here, given what their ledger has."""
    stand_in = current_stand_in()
    return named if stand_in is None else stand_in.host(named)


def opened_here(opening: Opening) -> Opening:
    """Return how a run is opened here, if its ledger was named somewhere else.

    A block may be made before its code is examined, and entered while it is.
    """
    host = host_here(opening.host)
    return opening if host is opening.host else replace(opening, host=host)


def current_stand_in() -> StandIn | None:
    """Return what replaces it here, if anything does."""
    return _here.get() or _everywhere
