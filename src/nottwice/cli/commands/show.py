"""What happened in one run? `nottwice show`: the timeline, the cut, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

import click

from nottwice.cli.inputs.completing import run_ids
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.options import all_option
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import (
    show_command,
    show_facts,
    show_how_to_resume,
    show_json,
    show_line,
    show_table,
)
from nottwice.model.call import ROOT_NODE, CallStatus, ResultKind
from nottwice.model.review import ReviewStatus
from nottwice.model.run import Life, RunStatus, WaitKind
from nottwice.model.runs.labels import tag_text
from nottwice.views.commands import CommandLine
from nottwice.views.people.reviews import ReviewView
from nottwice.views.run.calls import CallView, StepView
from nottwice.views.run.details import MOST_CALLS, RunDetails, look_into
from nottwice.views.run.graphs import ToldView
from nottwice.views.run.waits import Reason, reasons_of, resume_command, wait_text
from nottwice.views.runs import INTERRUPTED, find_run
from nottwice.views.text import local_text, local_zone, moment_text, safe, shorten

MOST_OPENINGS = 20
DATE_CHARACTERS = len("2026-01-31")

# One row of the timeline; what happened comes last, because it is the longest.
Row = tuple[float, str, str, str, str]


@click.command(cls=Command)
@click.argument("run_id", metavar="ID", shell_complete=run_ids)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    default=MOST_CALLS,
    show_default=True,
    help="How many calls and steps to show; those in doubt or decided about are always shown.",
)
@all_option("Show every call and step.")
@common_options
@pass_settings
def show(settings: Settings, run_id: str, limit: int, show_all: bool) -> None:
    """Show one run as a timeline.

    ID is the id of the run, a unique prefix of it, or the id of one of its reviews. The
    timeline says what ran, in which step and process, with which class, how often and how long;
    what was found out about a call in doubt; where the run was cut off; and what it waits for. A
    call that is DONE has a receipt: when the run is opened again, it is replayed, not run.

    For a run of a graph it also shows the nodes, each pending, in_progress, done or failed; how
    many checkpoints there are (see `nottwice history`), the runs it spawned, and the events it
    received. None of your code is needed for that. For a run of an agent it shows goal, plan,
    conditions with their evidence, cost, answer, and the conversation.

    \b
    Examples:
      nottwice show ticket-7
      nottwice show ticket-7 --all --json
    """
    with named_ledger(settings) as ledger:
        name = find_run(ledger, run_id, list_command=settings.command("runs")).run_id
        details = look_into(ledger, name, limit=None if show_all else limit)
        if settings.as_json:
            show_json(details)
            return
        commands = settings.commands()
        reasons = reasons_of(ledger.store, name, commands)
    _show_summary(details)
    _show_next(details, reasons, commands)
    show_line()
    if details.agent is not None:
        # Only for a run of an agent, because this loads its room (P226).
        from nottwice.cli.render.agent import show_conversation

        whole = commands.command("show --all", name)
        show_conversation(details.agent, limit=None if show_all else limit, whole=whole)
        show_line()
    elif details.nodes:
        _show_nodes(details)
        show_line()
    _show_openings(details)
    _show_timeline(details, commands)


def _show_summary(details: RunDetails) -> None:
    run = details.run
    holder = None
    if run.holder is not None and run.holder_life is not None:
        holder = f"{run.holder}, {_LIVES[run.holder_life]}"
    show_facts(
        f"Run {run.run_id}",
        (
            ("state", run.state),
            ("graph", run.graph),
            ("version", run.version if run.graph is None else None),
            *(("migrated", text) for text in details.migrated),
            ("ledger", details.ledger),
            ("started", moment_text(run.started_at)),
            ("changed", moment_text(run.updated_at)),
            ("opened", "once" if run.opened == 1 else f"{run.opened} times"),
            ("holder", holder),
            ("tags", ", ".join(tag_text(*tag) for tag in run.tags.items()) or None),
            ("group", run.group),
            ("saved", _saved_text(details)),
            ("parent", run.parent),
            ("forked from", run.origin),
            ("checkpoints", _checkpoints_text(details)),
            *_agent_facts(details),
            *(("child", f"{child.run_id}, {child.state}") for child in details.children),
            ("failure", None if run.failure is None else shorten(run.failure)),
            ("aborted", details.aborted),
            *(("cut off", text) for text in _cut_off(details)),
            *(("waits for", _waiting_text(review)) for review in details.pending_reviews),
            *(
                ("group waits", f"{_waiting_text(review)} ({review.run_id})")
                for review in details.group_reviews
            ),
            *(
                ("waits for", wait_text(wait))
                for wait in run.waits
                if wait.kind is not WaitKind.REVIEW
            ),
        ),
    )


def _agent_facts(details: RunDetails) -> list[tuple[str, object]]:
    if details.agent is None:
        return []
    from nottwice.cli.render.agent import agent_facts

    return agent_facts(details.agent.state)


def _saved_text(details: RunDetails) -> str | None:
    """What its openings got from the ledger instead of doing or paying for it again."""
    receipts = sum(one.receipts or 0 for one in details.openings)
    tokens = sum(one.tokens_saved or 0 for one in details.openings)
    usd = sum(one.usd_saved or 0.0 for one in details.openings)
    if not receipts:
        return None
    parts = ["1 receipt" if receipts == 1 else f"{receipts:,} receipts"]
    parts += [f"{tokens:,} tokens"] if tokens else []
    parts += [f"${usd:.4f}"] if usd else []
    were = "was" if receipts == 1 and len(parts) == 1 else "were"
    return f"{', '.join(parts)} of earlier openings {were} used again"


def _show_openings(details: RunDetails) -> None:
    """Who held the run. A run that was opened once needs no list."""
    openings = details.openings[-MOST_OPENINGS:]
    if len(details.openings) < 2:
        return
    if len(details.openings) > MOST_OPENINGS:
        show_line(f"… and {len(details.openings) - MOST_OPENINGS} openings before")
    zone = local_zone(openings[-1].began_at)
    rows = [
        (
            local_text(one.began_at, zone),
            local_text(one.ended_at, zone),
            None if one.ended is None else one.ended.value,
            one.receipts,
            one.holder,
        )
        for one in openings
    ]
    columns = (f"opened ({zone})", "until", "ended", "receipts used", "by")
    show_table(columns, rows, cut=("by",), spare=("receipts used",))
    show_line()


def _checkpoints_text(details: RunDetails) -> str | None:
    if not details.checkpoints:
        return None
    last = details.checkpoints[-1]
    count = len(details.checkpoints)
    return f"{count}, the last one is version {last.version}, after {last.after}"


def _show_nodes(details: RunDetails) -> None:
    """The nodes in the order of the graph, each with its mark (D6)."""
    rows = [
        (node.node, node.status, node.visits or "", shorten(node.error or "", 120))
        for node in details.nodes
    ]
    show_table(("node", "status", "visits", "error"), rows, cut=("error",))


_LIVES = {
    Life.ALIVE: "alive",
    Life.DEAD: "proven dead",
    Life.NOT_PROVEN: "which can be proven neither alive nor dead",
}


def _cut_off(details: RunDetails) -> Iterator[str]:
    """Where the run was interrupted, in words."""
    for call in details.cut_off_calls:
        last, step = call.last, "" if call.step == ROOT_NODE else f" in step {call.step}"
        yield f"during attempt {last.attempt} of {call.text}, made by {last.holder}{step}"
    if details.run.state == INTERRUPTED and not details.cut_off:
        calls = details.calls
        yield f"after {calls[-1].text}" if calls else "before its first recorded call"


def _waiting_text(review: ReviewView) -> str:
    if review.status is ReviewStatus.DECIDED and review.decision is not None:
        decision = review.decision
        return (
            f"review {review.review_id}, decided {decision.verb.value!r} by {decision.by}: used "
            "when the run is opened again"
        )
    return f"review {review.review_id}: {review.summary}"


def _show_next(details: RunDetails, reasons: list[Reason], commands: CommandLine) -> None:
    """Say how the run continues, with the command to type."""
    undecided = [one for one in details.pending_reviews if one.is_open]
    for review in undecided:
        show_command("Decide with:", commands.command(f"decide {review.review_id}"))
    for review in details.group_reviews:
        command = commands.command(f"decide {review.review_id}")
        show_command("No new effect of the group is made until you decide:", command)
    for reason in reasons:
        match reason.kind:
            case WaitKind.EVENT if reason.command is not None:
                show_command("Send it with:", reason.command)
            case WaitKind.REVIEW if reason.run_id != details.run.run_id:
                show_line(f"Its child run {safe(reason.run_id)} waits for {safe(reason.text)}")
                if reason.command is not None:
                    show_command("Decide with:", reason.command)
    stopped = details.run.state in (INTERRUPTED, RunStatus.FAILED.value)
    resumable = stopped or details.waits_for or reasons
    if resumable and not undecided:
        show_how_to_resume(resume_command(details.run, commands))


def _show_timeline(details: RunDetails, commands: CommandLine) -> None:
    omitted = sum(details.omitted.values())
    if omitted:
        command = commands.command("show --all", details.run.run_id)
        show_command(f"… and {omitted} more, mostly earlier:", command)
    rows = list(_timeline(details))
    if rows:
        zone = local_zone(rows[-1][0])
        times = [local_text(row[0], zone) or "" for row in rows]
        if len({time[:DATE_CHARACTERS] for time in times}) == 1:
            # The day is in the summary; what happened needs the room.
            times = [time[DATE_CHARACTERS + 1 :] for time in times]
        columns = (f"when ({zone})", "status", "took", "class", "what")
        shown = [(time, *row[1:]) for time, row in zip(times, rows, strict=True)]
        show_table(columns, shown, wrap=("what",), spare=("class", "took"))
    elif details.run.state == RunStatus.REMOVED.value:
        show_line("Its rows were removed, so what it did is no longer on record.")
        show_command("When and why:", commands.command("audit", details.run.run_id))
    else:
        show_line("Nothing was recorded in this run.")


def _timeline(details: RunDetails) -> Iterator[Row]:
    """All rows in the order of time, with a line wherever another process continued."""
    moments: list[tuple[float, int, StepView | CallView | ToldView]] = []
    moments += [(step.started_at, 0, step) for step in details.steps]
    moments += [(event.sent_at, 2, event) for event in details.events]
    moments += [(call.started_at, 1, call) for call in details.calls]
    moments.sort(key=lambda moment: moment[:2])
    reviews = {review.review_id: review for review in details.reviews}
    holder_id: str | None = None
    for at, _, what in moments:
        if isinstance(what, StepView):
            yield _step_row(what)
            continue
        if isinstance(what, ToldView):
            taken = "" if what.received_by is None else ", taken"
            text = f"event {what.name} from {what.sent_by}{taken}: {what.json}"
            yield (at, "", "", "", shorten(text, 240))
            continue
        first = what.attempts[0]
        if first.holder_id != holder_id:
            before = "process" if holder_id is None else "another process continued:"
            yield (at, "", "", "", f"{before} {first.holder}")
        holder_id = what.last.holder_id
        yield _call_row(what)
        yield from _detail_rows(what, [reviews[review_id] for review_id in what.reviews])


def _step_row(step: StepView) -> Row:
    visit = step.visit.rpartition("/")[2]
    name = f"step {step.step}{f' at {visit}' if visit else ''}"
    if step.failure is not None:
        name += f": {step.failure.error_type}"
    took = _took(step.started_at, step.finished_at)
    return (step.started_at, step.status.value, took, "", shorten(name))


def _call_row(call: CallView) -> Row:
    inside = "" if call.step == ROOT_NODE else "  "
    repeated = f" again: {call.label}" if call.label is not None else ""
    return (
        call.started_at,
        call.status.value,
        _took(call.started_at, call.finished_at),
        call.replay_class.declared_as(call.key),
        f"{inside}{shorten(_named(call) + repeated, 240)}",
    )


def _named(call: CallView) -> str:
    return call.text if call.title is None else f"{call.title}: {call.text}"


def _took(started_at: float, finished_at: float | None) -> str:
    return "" if finished_at is None else f"{max(0.0, finished_at - started_at):.3f} s"


def _detail_rows(call: CallView, reviews: list[ReviewView]) -> Iterator[Row]:
    """What else is known about one call, in the order of time."""
    indent = "  " if call.step == ROOT_NODE else "    "
    details = [*_attempts(call), *_outcome(call)]
    # The reason for a review is evidence, too; it is shown once, where the review opens.
    summaries = {review.summary for review in reviews}
    details += [
        (item.at, f"{item.source}: {item.text}")
        for item in call.evidence
        if item.text not in summaries
    ]
    for review in reviews:
        details += _review_details(review)
    details.sort(key=lambda detail: detail[0])
    for at, text in details:
        yield (at, "", "", "", f"{indent}{shorten(text, 400)}")


def _attempts(call: CallView) -> Iterator[tuple[float, str]]:
    *past, last = call.attempts
    for one in past:
        ended_at = one.started_at if one.ended_at is None else one.ended_at
        yield ended_at, f"attempt {one.attempt} by {one.holder} ended: {one.outcome}"
    if call.status is CallStatus.PENDING:
        how = "is running" if last.is_alive else "never came back"
        yield last.started_at, f"attempt {last.attempt} by {last.holder} {how}"
    elif last.attempt > 1:
        yield last.started_at, f"attempt {last.attempt} by {last.holder} began"


def _outcome(call: CallView) -> Iterator[tuple[float, str]]:
    last = call.last
    at = call.finished_at or last.started_at
    if call.failure is not None:
        yield at, f"attempt {last.attempt}, {last.outcome}: {call.failure}"
    if call.retry_at is not None:
        yield at, f"another attempt is due at {moment_text(call.retry_at)}"
    if call.settled_by is not None:
        yield at, f"settled by {call.settled_by}"
    if call.key is not None:
        yield call.started_at, f"key {call.key}"
    if call.look is not None and call.status.in_doubt:
        yield at, f"check upstream: {call.look}"
    if call.result is not None:
        kept = "" if call.result.kind is not ResultKind.NOT_KEPT else " (not kept)"
        yield at, f"result{kept} {call.result.json}"


def _review_details(review: ReviewView) -> Iterator[tuple[float, str]]:
    yield review.opened_at, f"review {review.review_id} opened: {review.summary}"
    if review.decision is not None:
        decision = review.decision
        text = f"review {review.review_id} decided: {decision.verb.value} by {decision.by}"
        yield decision.at, f"{text}, because: {decision.why}" if decision.why else text
    if review.closed_at is not None:
        yield review.closed_at, f"review {review.review_id} ended, by {review.closed_by}"
