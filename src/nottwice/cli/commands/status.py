"""How does the ledger stand, and which runs are in it? The bare `nottwice`, and `nottwice runs`."""

from __future__ import annotations

import itertools
from collections.abc import Collection

import click

from nottwice.cli.documents import run_document, status_document
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.by_version import show_versions
from nottwice.cli.render.output import (
    age_text,
    safe,
    shorten,
    show_facts,
    show_json,
    show_line,
    show_table,
    utc_text,
)
from nottwice.cli.views import (
    QUEUED,
    STATES,
    Overview,
    RunView,
    count_runs,
    count_text,
    decided_reviews,
    list_runs,
    look_over,
    subject_text,
    wait_text,
)
from nottwice.cli.waits import resume_command
from nottwice.model.run import RunStatus, Wait
from nottwice.model.tally import DECIDED
from nottwice.reviews.queue import Case

MOST_ROWS = 50
MOST_HINTS = 5
MOST_WAITS = 2


def show_status(settings: Settings) -> None:
    """Print the state of the ledger and the commands worth typing next."""
    with named_ledger(settings) as ledger:
        overview = look_over(ledger)
    hints = _hints(overview, settings)
    if settings.as_json:
        show_json(status_document(overview, [command for command, _ in hints]))
        _end_if_unreadable(overview)
        return
    total = sum(overview.states.values())
    waiting = (("open", overview.open_reviews), ("decided", overview.decided_reviews))
    doubts = overview.calls_in_doubt
    show_facts(
        f"Ledger {overview.location}",
        (
            ("runs", f"{total}: {count_text(overview.states.items())}" if total else "none yet"),
            ("reviews", count_text(waiting)),
            ("waiting", _waiting_text(overview.waiting)),
            ("in doubt", f"{doubts} {'call' if doubts == 1 else 'calls'}" if doubts else "nothing"),
            ("failover" if overview.failover else "a copy", _copy_text(overview)),
            *(("unreadable", text) for text in overview.unreadable),
        ),
    )
    show_line()
    show_line("Next", style="bold")
    for command, reason in hints:
        show_line(f"  {safe(command)}")
        show_line(f"      {safe(reason)}", style="dim")
    _end_if_unreadable(overview)


def _end_if_unreadable(overview: Overview) -> None:
    if overview.unreadable:
        raise click.exceptions.Exit(3)


def _copy_text(overview: Overview) -> str | None:
    """That the ledger has forgotten something; nothing where it is no copy."""
    made = (utc_text(overview.copied_at) or "").partition(".")[0]
    if overview.failover:
        return (
            f"{overview.failover}; the last change that is here is of {made} UTC. Its runs are "
            "held until the processes that worked on them vouch for them, or somebody decides"
        )
    return f"made at {made} UTC; its runs are held until somebody decides" if made else None


_WAITED_FOR = {
    "review": "a person",
    "timer": "time",
    "event": "an event",
    "child": "a child run",
    DECIDED: "you to resume it: a person has decided",
}


def _waiting_text(waiting: dict[str, int]) -> str | None:
    """How many runs wait for what; nothing where none does."""
    shown = [f"{number} for {_WAITED_FOR[kind]}" for kind, number in waiting.items() if number]
    return ", ".join(shown) or None


@click.command(cls=Command, short_help="List runs and their state.")
@click.argument("prefix", default="")
@click.option("--graph", metavar="NAME", help="Only runs of this graph: name, or name@version.")
@click.option(
    "--state",
    "--status",
    "states",
    multiple=True,
    type=click.Choice(STATES),
    help="Only runs in this state; can be given several times.",
)
@click.option(
    "--by-version", is_flag=True, help="Per version of a graph: what is open, what can be removed."
)
@click.option("--all", "show_all", is_flag=True, help=f"Also beyond the last {MOST_ROWS}.")
@common_options
@pass_settings
def runs(
    settings: Settings,
    prefix: str,
    graph: str | None,
    states: tuple[str, ...],
    by_version: bool,
    show_all: bool,
) -> None:
    """List runs, last changed first; with PREFIX those whose id begins with it.

    A run is *queued* when nobody has begun it yet: a worker does. It is *interrupted* when its
    status is running and its process is dead: run your program again, and it continues by itself.
    It is *waiting* when a person must decide, or for a time, an event or a child run; the last
    column says for what.

    With --by-version: per version of a graph how many runs are open, since when, what they wait
    for, and with --app which deployed version takes them and whether its code can be removed.

    \b
    Examples:
      nottwice runs --state interrupted
      nottwice runs --graph refund --state waiting
      nottwice runs ticket- --all --json
      nottwice runs --by-version --app agent:app
    """
    if by_version:
        if states:
            raise click.UsageError("--by-version counts all states; leave --state out.")
        show_versions(settings, prefix=prefix, graph=graph)
        return
    with named_ledger(settings) as ledger:
        found = list_runs(ledger, prefix=prefix, states=states, graph=graph)
        shown = list(found if show_all else itertools.islice(found, MOST_ROWS))
        omitted = 0
        if not show_all and len(shown) == MOST_ROWS:
            counted = count_runs(ledger, prefix=prefix, states=states, graph=graph)
            # Others may have removed some meanwhile.
            omitted = max(0, counted - len(shown))
        now, location = ledger.clock.now(), ledger.location
        decided = decided_reviews(ledger.store, (view.run for view in shown))
    if settings.as_json:
        documents = [run_document(view) for view in shown]
        show_json({"ledger": location, "runs": documents, "omitted": omitted})
        return
    if not shown:
        show_line("No runs." if not (prefix or states or graph) else "No such runs.")
        return
    rows = [
        (
            view.run.workflow_id,
            view.state,
            view.run.graph_id,
            age_text(now - view.run.updated_at),
            view.holder,
            _waits_text(view.run.waits, decided),
        )
        for view in shown
    ]
    show_table(("run", "state", "graph", "changed", "holder", "waits for"), rows)
    if omitted:
        show_line(f"… and {omitted} more: {safe(settings.command('runs --all', prefix))}")


def _waits_text(waits: tuple[Wait, ...], decided: Collection[str]) -> str | None:
    shown = [shorten(wait_text(wait, decided=decided), 60) for wait in waits[:MOST_WAITS]]
    more = [f"{len(waits) - MOST_WAITS} more"] if len(waits) > MOST_WAITS else []
    return ", ".join([*shown, *more]) or None


def _hints(overview: Overview, settings: Settings) -> list[tuple[str, str]]:
    """Commands, each with the reason to type it; what waits for a person comes first."""
    found = [
        (settings.command(f"decide {case.review.review_id}"), _question(case))
        for case in overview.cases
    ]
    undecided = {case.review.identity.workflow_id for case in overview.cases}
    for view in overview.ready:
        if view.run.workflow_id not in undecided:
            came = "was decided" if overview.is_decided(view) else "has what it waited for"
            found.append(_resuming(view, came, settings))
    found += [_resuming(view, "was interrupted", settings) for view in overview.interrupted]
    # A child is resumed by resuming its root, which may be there for its own sake.
    found = list(dict(reversed(found)).items())[::-1]
    more = len(found) - MOST_HINTS + overview.more
    found = found[:MOST_HINTS]
    if more > 0:
        found.append((settings.command("reviews"), f"… and {more} more that need somebody"))
    if overview.failover:
        account = settings.command("backup --accounted-for --why 'what you looked up'")
        found.append((account, "says for all runs that what they did since is accounted for"))
    queued = overview.states.get(QUEUED, 0)
    if queued:
        many = "1 run is queued" if queued == 1 else f"{queued} runs are queued"
        found.append((settings.worker_command(), f"{many}: a worker begins them in their turn"))
    failed = overview.states.get(RunStatus.FAILED.value, 0)
    if not found and failed:
        many = "1 run failed: run it" if failed == 1 else f"{failed} runs failed: run each"
        look = settings.command(f"runs --state {RunStatus.FAILED.value}")
        found.append((look, f"{many} again when its cause is mended"))
    if not found:
        found.append((settings.command("runs"), "all runs; nothing needs you"))
    return found


def _resuming(view: RunView, why: str, settings: Settings) -> tuple[str, str]:
    """What to type for a run that can go on, and why."""
    run_id, command = view.run.workflow_id, resume_command(view.run, settings)
    if command is not None:
        return command, f"run {run_id!r} {why}: this resumes it"
    look = settings.command("show", run_id)
    return look, f"run {run_id!r} {why}: run your program, it continues by itself"


def _question(case: Case) -> str:
    review, run_id = case.review, case.review.identity.workflow_id
    if review.kind.asks_first:
        return f"run {run_id!r} asks: {review.summary}"
    return f"{subject_text(review, case.row)} in run {run_id!r}: {review.summary}"
