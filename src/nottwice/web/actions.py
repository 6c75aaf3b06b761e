"""Send an event to a run, or cancel it: with the same checks as the commands, and on record.

A form for an event carries the event's id, so the same form sent again is the same event. Promise
kept here: P331.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nottwice.errors import UsageError
from nottwice.graphs.cancel import cancel
from nottwice.guard.ledger import Ledger
from nottwice.guard.sending import tell
from nottwice.model.run import CANCEL, RunStatus
from nottwice.views.people.forms import form_of, read_form
from nottwice.views.runs import load_run
from nottwice.web.desk import Desk, form_in, visitor_of
from nottwice.web.rendering import go_to


def routes(desk: Desk) -> list[Route]:
    """The forms of a run."""

    def send(request: Request) -> Response:
        form = form_in(request)
        run_id = send_event(desk.ledger, form, by=visitor_of(request).name)
        return go_to(request, "/run", id=run_id, part="events")

    def stop(request: Request) -> Response:
        run_id = cancel_run(desk.ledger, form_in(request), by=visitor_of(request).name)
        return go_to(request, "/run", id=run_id, part="audit")

    return [
        Route("/run/send", send, methods=["POST"]),
        Route("/run/cancel", stop, methods=["POST"]),
    ]


def send_event(ledger: Ledger, form: dict[str, Any], *, by: str) -> str:
    """Send the event that a form describes, and return the id of its run.

    Durable: when it returns.
    """
    run_id, name = str(form.get("id", "")), str(form.get("name", "")).strip()
    load_run(ledger.store, run_id)
    if not name or name == CANCEL:
        raise UsageError("An event needs a name of your own. Nothing was sent.")
    text = str(form.get("data", ""))
    data = read_form(form_of(None), {}, as_json=text) if text.strip() else None
    event_id = str(form.get("event_id", "")) or None
    tell(ledger.host, run_id, name, data, event_id=event_id, by=by)
    return run_id


def cancel_run(ledger: Ledger, form: dict[str, Any], *, by: str) -> str:
    """Cancel the run that a form names. If it is aborted already, nothing changes.

    Durable: when it returns.
    """
    run_id = str(form.get("id", ""))
    if load_run(ledger.store, run_id).status is not RunStatus.ABORTED:
        if form.get("sure") != "yes":
            raise UsageError(
                "You did not confirm that the run should end permanently. Nothing was done."
            )
        cancel(ledger, run_id, by=by, why=str(form.get("why", "")).strip())
    return run_id
