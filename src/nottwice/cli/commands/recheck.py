"""What do the verify hooks say now? `nottwice recheck`."""

from __future__ import annotations

import contextlib
import sys

import click

from nottwice.cli.inputs.application import need_application
from nottwice.cli.inputs.deployed import named_ledger
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_command, show_json, show_line, show_table
from nottwice.errors import DecisionConflict
from nottwice.guard import registry
from nottwice.guard.ledger import Ledger
from nottwice.reviews.queue import open_cases
from nottwice.reviews.recheck import Rechecked
from nottwice.reviews.recheck import recheck as ask_again
from nottwice.store.interface import Outdated
from nottwice.views.outcomes import RecheckReport, rechecked_view
from nottwice.views.people.reviews import case_view, list_reviews
from nottwice.views.runs import Holders
from nottwice.views.text import safe


@click.command(cls=Command)
@click.option("--tool", metavar="NAME", help="Only reviews about this tool.")
@common_options
@pass_settings
def recheck(settings: Settings, tool: str | None) -> None:
    """Ask the verify hooks again about open reviews. No tool is run.

    Needs your code (--app), which has the hooks. Only "it happened" ends a doubt here: it is
    recorded as the decision, and the run continues from it when your program opens it again. Any
    other answer is kept as evidence, and the review stays open.

    \b
    Examples:
      nottwice recheck --app agent
      nottwice recheck --app agent.py --tool send_email
    """
    application = need_application(settings, what_for="recheck")
    with named_ledger(settings) as ledger:
        answers: list[Rechecked] = []
        # A hook may print; that must not mix with what a script reads.
        with contextlib.redirect_stdout(sys.stderr):
            try:
                answers.extend(ask_again(ledger.host, registry.find_tool, tool_name=tool))
            except Outdated:
                raise DecisionConflict(
                    "A review was decided by another process while its verify hook was asked. That "
                    "decision stands. Ask again: "
                    f"{settings.command(f'recheck --app {application.name}')}"
                ) from None
        report = _report(ledger, answers)
    if settings.as_json:
        show_json(report)
    else:
        _show(report, settings)


def _report(ledger: Ledger, answers: list[Rechecked]) -> RecheckReport:
    holders = Holders(ledger.store)
    # The cases are read again: an answer may have decided its review.
    now = {case.review.review_id: case for case in open_cases(ledger.store)}
    views = [
        rechecked_view(
            case_view(now.get(one.case.review.review_id, one.case), holders),
            answer=one.answer,
            resolved=one.resolved,
        )
        for one in answers
    ]
    left = list_reviews(ledger).open
    return RecheckReport(ledger=ledger.location, rechecked=tuple(views), open=left)


def _show(report: RecheckReport, settings: Settings) -> None:
    if not report.rechecked:
        show_line("No open review to ask about.")
        return
    rows = [
        (
            one.review.review_id,
            one.review.run_id,
            one.review.tool if one.call is None else one.call.text,
            one.answer,
        )
        for one in report.rechecked
    ]
    show_table(("review", "run", "call", "answer"), rows, cut=("call",), wrap=("answer",))
    show_line()
    for one in report.rechecked:
        if one.resolved:
            run_id = safe(repr(one.review.run_id))
            show_line(f"Open run {run_id} again to continue: run your program.")
    if report.open:
        show_command(f"Still open: {report.open}. See:", settings.command("reviews"))
