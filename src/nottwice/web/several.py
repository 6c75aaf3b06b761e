"""How do several ledgers share one page? Each has its own pages below a name of its own.

``/`` is the inbox of all of them, and ``/in/NAME/`` is the page of one, as if it were alone. The
same checks are in front of all. Promise kept here: P356.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nottwice.guard.ledger import Ledger
from nottwice.views.ledger.pulse import Pulse
from nottwice.views.people.inbox import GROUPS
from nottwice.views.people.inboxes import feel_all, read_inboxes
from nottwice.views.shape import to_plain
from nottwice.web.desk import Desk
from nottwice.web.inbox import read_filter
from nottwice.web.live import Pulses, stream
from nottwice.web.rendering import Renderer


def routes(desks: Sequence[Desk], render: Renderer) -> list[Route]:
    """The inbox of all ledgers, as a page, as JSON, and live."""
    ledgers = {desk.render.name: desk.ledger for desk in desks}
    pulses = _AllPulses(ledgers)

    def show(request: Request) -> Response:
        wanted = read_filter(request)
        found = read_inboxes(ledgers, wanted)
        return render.page(
            request, "several.html", now=found.now, inbox=found, wanted=wanted, groups=list(GROUPS)
        )

    def plain(request: Request) -> Response:
        return JSONResponse(to_plain(read_inboxes(ledgers, read_filter(request))))

    async def listen(request: Request) -> Response:
        return stream(desks[0].ledger.clock, pulses, None)

    return [Route("/", show), Route("/api/reviews", plain), Route("/live", listen)]


class _AllPulses(Pulses):
    """The pulse of all ledgers together."""

    def __init__(self, ledgers: Mapping[str, Ledger]) -> None:
        super().__init__(next(iter(ledgers.values())))
        self._ledgers = ledgers

    def read(self, run_id: str | None) -> Pulse:
        return feel_all(self._ledgers)
