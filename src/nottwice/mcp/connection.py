"""Did an answer arrive at its client? It did if the client sent anything after it was written.

One object for each client: a pair of pipes, a session, a TCP connection. The transport says when an
answer was written, when the client sent something, and how the connection ended (P270).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Protocol

from nottwice.errors import StoreError
from nottwice.mcp.arrivals import Arrivals
from nottwice.model.data.records import frozen_record

log = logging.getLogger("nottwice")


@frozen_record(frozen=True, slots=True)
class Occurrence:
    """One time that a call is made. A ticket for its answer."""

    call_key: str
    generation: int
    number: int
    is_over_on_arrival: bool
    """False: a person classed the tool, and its receipt stays valid."""


@frozen_record(frozen=True, slots=True)
class ToolAnswer:
    """What a client gets for a ``tools/call``."""

    result: dict[str, Any]
    occurrence: Occurrence | None = None
    """None: whether this answer arrives makes no difference."""


class _LiveCalls(Protocol):
    """The part of a guard that a connection tells about its calls."""

    arrivals: Arrivals

    def live(self, occurrence: Occurrence) -> None: ...

    def not_live(self, occurrence: Occurrence) -> None: ...


class ClientConnection:
    """What a client may or may not have received. Made by ``ToolGuard.connect``."""

    def __init__(self, guard: _LiveCalls) -> None:
        self._guard = guard
        self._written: list[Occurrence] = []
        self._open: set[Occurrence] = set()

    def began(self, occurrence: Occurrence) -> None:
        """Note that the client waits for this occurrence, so that an equal call is another one."""
        self._open.add(occurrence)
        self._guard.live(occurrence)

    def written(self, answered: ToolAnswer) -> None:
        """Note that an answer was written. The transport calls it after the write."""
        if answered.occurrence is not None and answered.occurrence in self._open:
            self._written.append(answered.occurrence)

    def lost(self, occurrence: Occurrence | None) -> None:
        """Note that the client does not wait any more, or that its answer was not written."""
        if occurrence is not None and occurrence in self._open:
            self._open.discard(occurrence)
            self._guard.not_live(occurrence)

    async def heard(self) -> None:
        """Note that the client sent something: what was written before has arrived.

        Call it before the client's message is handled. Durable: when it returns.
        """
        arrived = list(self._written)
        ended = [
            (one.call_key, one.generation, one.number) for one in arrived if one.is_over_on_arrival
        ]
        if ended:
            try:
                await asyncio.to_thread(self._guard.arrivals.end, ended)
            except StoreError as error:
                # The message is handled all the same: reads need no ledger, and effects find out
                # themselves. This is noted with the next message.
                log.warning("it could not be noted which answers arrived: %s", error)
                return
        for one in arrived:
            if one in self._written:
                self._written.remove(one)
            self.lost(one)

    async def closed(self, *, orderly: bool) -> None:
        """Note that the connection has ended. ``orderly``: the client has read everything."""
        if orderly:
            await self.heard()
        self._written = []
        for one in list(self._open):
            self.lost(one)
