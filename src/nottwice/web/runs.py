"""Which runs are there, and what happened in one? Promise kept here: P329."""

from __future__ import annotations

import secrets
import shlex
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from nottwice.errors import UsageError
from nottwice.model.run import WaitKind
from nottwice.views.outcomes import entry_view
from nottwice.views.pages import RunFilter, page_of_runs, runs_command
from nottwice.views.run.conversation import TurnView, turns_of
from nottwice.views.run.details import RunDetails, look_into
from nottwice.views.run.drawing import drawing_of, picture
from nottwice.views.run.graphs import difference, state_at
from nottwice.views.run.resuming import who_resumes
from nottwice.views.run.timeline import timeline_of
from nottwice.views.run.waits import reasons_of
from nottwice.views.runs import STATES, find_run
from nottwice.web.desk import Desk

PARTS = ("timeline", "state", "conversation", "events", "audit")
MOST_CALLS = 200


def routes(desk: Desk) -> list[Route]:
    """The list, and one run."""

    def listed(request: Request) -> Response:
        wanted = read_filter(request)
        found = page_of_runs(desk.ledger, wanted)
        graphs = [one.graph_id for one in desk.ledger.store.graphs()]
        return desk.render.page(
            request,
            "runs.html",
            now=found.now,
            page=found,
            wanted=wanted,
            states=STATES,
            graphs=graphs,
            list_command=runs_command(wanted, desk.commands),
        )

    def one_run(request: Request) -> Response:
        return _run_page(desk, request)

    return [Route("/runs", listed), Route("/run", one_run)]


def read_filter(request: Request) -> RunFilter:
    """Return the filter that an address names."""
    given = request.query_params
    return RunFilter(
        prefix=given.get("prefix", ""),
        state=given.get("state", ""),
        graph=given.get("graph", ""),
        tag=given.get("tag", ""),
        group=given.get("group", ""),
        since=given.get("since", ""),
        after=given.get("after", ""),
    )


def _run_page(desk: Desk, request: Request) -> Response:
    given, ledger = request.query_params, desk.ledger
    run_id = find_run(
        ledger, given.get("id", ""), list_command=desk.commands.command("runs")
    ).run_id
    details = look_into(ledger, run_id, limit=MOST_CALLS)
    part = given.get("part", "timeline")
    if part not in PARTS:
        raise UsageError(f"There is no such part of a run. Choose one of: {', '.join(PARTS)}.")
    now = ledger.clock.now()
    audit = ledger.store.audit(run_id) if part == "audit" else ()
    drawn = drawing_of(ledger.store, details.run.graph, details.nodes)
    return desk.render.page(
        request,
        "run.html",
        now=now,
        details=details,
        run=details.run,
        part=part,
        parts_of=PARTS,
        timeline=timeline_of(details, now=now),
        reasons=reasons_of(ledger.store, run_id, desk.commands),
        resumption=who_resumes(ledger, details.run, desk.commands),
        audit=[entry_view(entry) for entry in audit],
        turns=_turns(desk, details, part),
        drawn=None if drawn is None else Markup(picture(drawn)),
        event_id=secrets.token_hex(8),
        awaited=next((one.subject for one in details.run.waits if one.kind is WaitKind.EVENT), ""),
        send_command=f"nottwice send {shlex.quote(run_id)} NAME{desk.commands.store_words()}",
        cancel_command=desk.commands.command("cancel --why TEXT", run_id),
        show_command=desk.commands.command("show", run_id),
        **_state_part(desk, request, run_id, part),
    )


def _turns(desk: Desk, details: RunDetails, part: str) -> tuple[TurnView, ...]:
    """The conversation, which may be long, only where it is shown."""
    if part != "conversation" or details.agent is None:
        return ()
    return turns_of(desk.ledger, details.run.run_id, details.agent)


def _state_part(desk: Desk, request: Request, run_id: str, part: str) -> dict[str, Any]:
    """The state of one version, and what is different in it from the version before."""
    given = request.query_params.get("version", "")
    versions = [one.version for one in desk.ledger.store.checkpoints(run_id)]
    if part != "state" or not versions:
        return {"state": None, "changes": None}
    version = next((one for one in versions if str(one) == given), versions[-1])
    earlier = [one for one in versions if one < version]
    changes = difference(desk.ledger, run_id, earlier[-1], version) if earlier else None
    return {"state": state_at(desk.ledger, run_id, version), "changes": changes}
