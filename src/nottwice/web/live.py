"""How does an open page hear that it is no longer right? Server-sent events, every two seconds.

Each event says when the ledger was read. A page that hears nothing for ten seconds says that it is
stale, and its buttons are off. Promise kept here: P328.
"""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from nottwice.engine.clock import Clock
from nottwice.errors import NottwiceError
from nottwice.guard.ledger import Ledger
from nottwice.views.ledger.pulse import Pulse, feel
from nottwice.views.shape import to_plain
from nottwice.web.desk import Desk

BEAT_SECONDS = 2.0
_FRESH_SECONDS = 1.0
_MOST_KNOWN = 100


class Pulses:
    """What was read last, so that many open pages cost as much as one."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._guard = ledger, threading.Lock()
        self._known: dict[str | None, Pulse] = {}

    def feel(self, run_id: str | None) -> Pulse:
        """Return the pulse of the ledger or of a run, at most a second old."""
        with self._guard:
            known = self._known.get(run_id)
            age = None if known is None else self._ledger.clock.now() - known.at
            if known is None or age is None or not 0 <= age < _FRESH_SECONDS:
                if len(self._known) > _MOST_KNOWN:
                    self._known.clear()
                known = self._known[run_id] = self.read(run_id)
            return known

    def read(self, run_id: str | None) -> Pulse:
        """Read the pulse again."""
        return feel(self._ledger, run_id)


def routes(desk: Desk) -> list[Route]:
    """The stream that open pages listen to."""
    pulses = Pulses(desk.ledger)

    async def listen(request: Request) -> Response:
        return stream(desk.ledger.clock, pulses, request.query_params.get("run") or None)

    return [Route("/live", listen)]


def stream(clock: Clock, pulses: Pulses, run_id: str | None) -> Response:
    """Answer with a beat every two seconds, until the browser has gone."""
    return StreamingResponse(_beats(clock, pulses, run_id), media_type="text/event-stream")


async def _beats(clock: Clock, pulses: Pulses, run_id: str | None) -> AsyncIterator[str]:
    while True:
        try:
            pulse = await run_in_threadpool(pulses.feel, run_id)
            yield f"event: beat\ndata: {json.dumps(to_plain(pulse))}\n\n"
        except NottwiceError as error:
            # No beat: after ten seconds the page says that it is stale, and this says why.
            yield f"event: trouble\ndata: {json.dumps({'message': str(error)})}\n\n"
        await clock.pause_async(BEAT_SECONDS)
