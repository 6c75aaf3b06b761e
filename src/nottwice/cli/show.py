"""What happened in one run? `nottwice show`: the timeline, the cut, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

import click

from nottwice.agent.state import RunState
from nottwice.cli.agent_view import (
    agent_document,
    agent_facts,
    agent_state,
    show_conversation,
    unanswered_messages,
)
from nottwice.cli.deployed import named_ledger
from nottwice.cli.documents import details_document, outcome_of
from nottwice.cli.graph_documents import graph_parts
from nottwice.cli.output import (
    safe,
    shorten,
    show_facts,
    show_json,
    show_line,
    show_table,
    utc_text,
)
from nottwice.cli.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.views import (
    INTERRUPTED,
    CallView,
    Holders,
    RunDetails,
    abort_text,
    after_text,
    find_run,
    look_into,
    migration_texts,
    wait_text,
)
from nottwice.cli.waits import Reason, reasons_of, resume_command
from nottwice.engine.blocking import call_text
from nottwice.guard.ledger import Ledger
from nottwice.model.call import ROOT_NODE, CallRow, CallStatus, ResultKind
from nottwice.model.review import Review, ReviewStatus
from nottwice.model.run import EventRecord, Life, RunStatus, StepRecord, WaitKind

MOST_CALLS = 50
DATE_CHARACTERS = len("2026-01-31")

# One row of the timeline; what happened comes last, because it is the longest.
COLUMNS = ("when (UTC)", "status", "took", "class", "what")
Row = tuple[str, str, str, str, str]


@click.command(cls=Command, short_help="Show one run as a timeline.")
@click.argument("run_id", metavar="ID")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    default=MOST_CALLS,
    show_default=True,
    help="How many calls and steps to show; those in doubt or decided about always are.",
)
@click.option("--all", "show_all", is_flag=True, help="Show every call and step.")
@common_options
@pass_settings
def show(settings: Settings, run_id: str, limit: int, show_all: bool) -> None:
    """Show one run as a timeline.

    ID is the id of the run, a beginning of it that fits only one run, or the id of one of its
    reviews. The timeline says what ran, in which step and process, with which class, how often and
    how long; what was found out about a call in doubt; where the run was cut off; and what it waits
    for. A call that is DONE has a receipt: when the run is opened again it is replayed, not run.

    Of a run of a graph it also shows the nodes, each pending, in_progress, done or failed; how many
    checkpoints there are (see `nottwice history`), the runs it spawned, and the events it was told.
    None of your code is needed for that. Of a run of an agent it shows goal, plan, conditions with
    their evidence, cost, answer, and the conversation.

    \b
    Examples:
      nottwice show ticket-7
      nottwice show ticket-7 --all --json
    """
    with named_ledger(settings) as ledger:
        run = find_run(ledger, run_id, list_command=settings.command("runs"))
        details = look_into(ledger, run, limit=None if show_all else limit)
        agent = agent_state(ledger.store, run)
        if settings.as_json:
            document = {**details_document(details), **graph_parts(details)}
            document["agent"] = agent_document(agent)
            show_json({"ledger": ledger.location, **document})
            return
        reasons = reasons_of(ledger.store, run, settings)
        _show_summary(details, ledger, agent)
        _show_next(details, reasons, settings)
        show_line()
        if agent is not None:
            whole = settings.command("show --all", run.workflow_id)
            said = unanswered_messages(ledger.store, run.workflow_id, agent)
            show_conversation(agent, said, limit=None if show_all else limit, whole=whole)
            show_line()
        elif details.nodes:
            _show_nodes(details)
            show_line()
        _show_timeline(details, settings)


def _show_summary(details: RunDetails, ledger: Ledger, agent: RunState | None) -> None:
    view = details.view
    run = view.run
    holder = None
    if view.holder is not None and view.holder_life is not None:
        holder = f"{view.holder}, {_LIVES[view.holder_life]}"
    failure = None
    if run.failure is not None:
        failure = shorten(f"{run.failure.error_type}: {run.failure.message}")
    show_facts(
        f"Run {run.workflow_id}",
        (
            ("state", view.state),
            ("graph", run.graph_id),
            ("version", run.version if run.graph_id is None else None),
            *(("migrated", text) for text in migration_texts(ledger.store, run)),
            ("ledger", ledger.location),
            ("started", f"{utc_text(run.created_at)} UTC"),
            ("changed", f"{utc_text(run.updated_at)} UTC"),
            ("opened", "once" if run.epoch == 1 else f"{run.epoch} times"),
            ("holder", holder),
            ("parent", run.parent_id),
            ("forked from", run.origin),
            ("checkpoints", _checkpoints_text(details)),
            *([] if agent is None else agent_facts(agent)),
            *(("child", f"{child.run.workflow_id}, {child.state}") for child in details.children),
            ("failure", failure),
            ("aborted", abort_text(ledger.store, run)),
            *(("cut off", text) for text in _cut_off(details)),
            *(("waits for", _waiting_text(review)) for review in details.waits_for),
            *(
                ("waits for", wait_text(wait))
                for wait in run.waits
                if wait.kind is not WaitKind.REVIEW
            ),
        ),
    )


def _checkpoints_text(details: RunDetails) -> str | None:
    if not details.checkpoints:
        return None
    *_, before, last = (None, *details.checkpoints)
    after = after_text(last, before)
    return f"{len(details.checkpoints)}, the last one is version {last.version}, after {after}"


def _show_nodes(details: RunDetails) -> None:
    """The nodes in the order of the graph, each with its mark (D6)."""
    rows = [
        (node.node, node.status, node.visit or "", shorten(node.error or "", 120))
        for node in details.nodes
    ]
    show_table(("node", "status", "visits", "error"), rows)


_LIVES = {
    Life.ALIVE: "alive",
    Life.DEAD: "proven dead",
    Life.NOT_PROVEN: "which can be proven neither alive nor dead",
}


def _cut_off(details: RunDetails) -> Iterator[str]:
    """Where the run was interrupted, in words."""
    for row in details.cut_off:
        yield (
            f"during attempt {row.attempt} of {call_text(row)}, made by "
            f"{details.holders.describe(row.holder_id)}"
            f"{'' if row.identity.node_id == ROOT_NODE else f' in step {row.identity.node_id}'}"
        )
    if details.view.state == INTERRUPTED and not details.cut_off:
        calls = details.calls
        yield f"after {call_text(calls[-1].row)}" if calls else "before its first recorded call"


def _waiting_text(review: Review) -> str:
    if review.status is ReviewStatus.DECIDED and review.decision is not None:
        decision = review.decision
        return (
            f"review {review.review_id}, decided {decision.verb.value!r} by {decision.by}: used "
            "when the run is opened again"
        )
    return f"review {review.review_id}: {review.summary}"


def _show_next(details: RunDetails, reasons: list[Reason], settings: Settings) -> None:
    """Say what goes on from here, with the command to type."""
    undecided = [one for one in details.waits_for if one.status is ReviewStatus.OPEN]
    for review in undecided:
        show_line(f"Decide with: {safe(settings.command(f'decide {review.review_id}'))}")
    for reason in reasons:
        match reason.wait.kind:
            case WaitKind.EVENT if reason.command is not None:
                show_line(f"Send it with: {safe(reason.command)}")
            case WaitKind.REVIEW if reason.run_id != details.view.run.workflow_id:
                show_line(f"Its child run {safe(reason.run_id)} waits for {safe(reason.text)}")
                if reason.command is not None:
                    show_line(f"Decide with: {safe(reason.command)}")
    stopped = details.view.state in (INTERRUPTED, RunStatus.FAILED.value)
    resumable = stopped or details.waits_for or reasons
    if resumable and not undecided:
        _show_how_to_resume(details, settings)


def _show_how_to_resume(details: RunDetails, settings: Settings) -> None:
    command = resume_command(details.view.run, settings)
    if command is not None:
        show_line(f"Resume with: {safe(command)}")
    else:
        show_line("Run your program: it opens the run again and continues by itself.")


def _show_timeline(details: RunDetails, settings: Settings) -> None:
    omitted = details.omitted_calls + details.omitted_steps
    if omitted:
        command = settings.command("show --all", details.view.run.workflow_id)
        show_line(f"… and {omitted} more, mostly earlier: {safe(command)}")
    rows = list(_timeline(details))
    if len({row[0][:DATE_CHARACTERS] for row in rows}) == 1:
        # The day is in the summary; the room is needed for what happened.
        rows = [(row[0][DATE_CHARACTERS + 1 :], *row[1:]) for row in rows]
    if rows:
        show_table(COLUMNS, rows)
    else:
        show_line("Nothing was recorded in this run.")


def _timeline(details: RunDetails) -> Iterator[Row]:
    """All rows in the order of time, with a line wherever another process went on."""
    moments: list[tuple[float, int, StepRecord | CallView | EventRecord]] = []
    moments += [(step.started_at, 0, step) for step in details.steps]
    moments += [(event.sent_at, 2, event) for event in details.events]
    moments += [(call.row.created_at, 1, call) for call in details.calls]
    moments.sort(key=lambda moment: moment[:2])
    holder_id: str | None = None
    for at, _, what in moments:
        if isinstance(what, StepRecord):
            yield _step_row(what)
            continue
        if isinstance(what, EventRecord):
            taken = "" if what.received_by is None else ", taken"
            text = f"event {what.name} from {what.sent_by}{taken}: {what.json}"
            yield (utc_text(at) or "", "", "", "", shorten(text, 240))
            continue
        first = what.row.past[0].holder_id if what.row.past else what.row.holder_id
        if first != holder_id:
            who = details.holders.describe(first)
            text = f"process {who}" if holder_id is None else f"another process went on: {who}"
            yield (utc_text(at) or "", "", "", "", text)
        holder_id = what.row.holder_id
        yield _call_row(what.row)
        yield from _detail_rows(what, details.holders)


def _step_row(step: StepRecord) -> Row:
    visit = step.checkpoint_id.rpartition("/")[2]
    name = f"step {step.node_id}{f' at {visit}' if visit else ''}"
    if step.failure is not None:
        name += f": {step.failure.error_type}"
    took = _took(step.started_at, step.finished_at)
    return (utc_text(step.started_at) or "", step.status.value, took, "", shorten(name))


def _call_row(row: CallRow) -> Row:
    inside = "" if row.identity.node_id == ROOT_NODE else "  "
    repeated = f" again: {row.label}" if row.label is not None else ""
    return (
        utc_text(row.created_at) or "",
        row.status.value,
        _took(row.created_at, row.finished_at),
        row.replay_class.value,
        f"{inside}{shorten(call_text(row) + repeated, 240)}",
    )


def _took(started_at: float, finished_at: float | None) -> str:
    return "" if finished_at is None else f"{max(0.0, finished_at - started_at):.3f} s"


def _detail_rows(call: CallView, holders: Holders) -> Iterator[Row]:
    """What is to be said about one call, in the order of time."""
    indent = "  " if call.row.identity.node_id == ROOT_NODE else "    "
    details = [*_attempts(call.row, holders), *_outcome(call.row)]
    # The reason of a review is evidence, too; it is said once, where the review opens.
    summaries = {review.summary for review in call.reviews}
    details += [
        (item.at, f"{item.source}: {item.text}")
        for item in call.evidence
        if item.text not in summaries
    ]
    for review in call.reviews:
        details += _review_details(review)
    details.sort(key=lambda detail: detail[0])
    for at, text in details:
        yield (utc_text(at) or "", "", "", "", f"{indent}{shorten(text, 400)}")


def _attempts(row: CallRow, holders: Holders) -> Iterator[tuple[float, str]]:
    for past in row.past:
        who = holders.describe(past.holder_id)
        yield past.ended_at, f"attempt {past.attempt} by {who} ended: {past.outcome}"
    if row.status is CallStatus.PENDING:
        who = holders.describe(row.holder_id)
        if holders.life(row.holder_id) is Life.ALIVE:
            text = f"attempt {row.attempt} by {who} is under way"
        else:
            text = f"attempt {row.attempt} by {who} never came back"
        yield row.started_at, text
    elif row.attempt > 1:
        who = holders.describe(row.holder_id)
        yield row.started_at, f"attempt {row.attempt} by {who} began"


def _outcome(row: CallRow) -> Iterator[tuple[float, str]]:
    at = row.finished_at or row.started_at
    if row.failure is not None:
        failure = row.failure
        how = outcome_of(row)
        yield at, f"attempt {row.attempt}, {how}: {failure.error_type}: {failure.message}"
    if row.retry_at is not None:
        yield at, f"another attempt is due at {utc_text(row.retry_at)}"
    if row.settled_by is not None:
        yield at, f"settled by {row.settled_by}"
    if row.key is not None:
        yield row.created_at, f"key {row.key}"
    if row.result is not None:
        kept = "" if row.result.kind is not ResultKind.NOT_KEPT else " (not kept)"
        yield at, f"result{kept} {row.result.json}"


def _review_details(review: Review) -> Iterator[tuple[float, str]]:
    yield review.opened_at, f"review {review.review_id} opened: {review.summary}"
    if review.decision is not None:
        decision = review.decision
        text = f"review {review.review_id} decided: {decision.verb.value} by {decision.by}"
        yield decision.at, f"{text}, because: {decision.why}" if decision.why else text
    if review.closed_at is not None:
        yield review.closed_at, f"review {review.review_id} ended, by {review.closed_by}"
