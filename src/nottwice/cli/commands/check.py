"""Are all tools of a module declared well? `nottwice check`, for people and CI (T5, T7)."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import click

from nottwice.cli.checks.forgotten import forgotten_findings
from nottwice.cli.checks.rewording import rewording_findings
from nottwice.cli.commands.lock import LOCK_FILE, lock_findings
from nottwice.cli.inputs.application import Application, load_application
from nottwice.cli.inputs.deployed import app_of
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_facts, show_json, show_line
from nottwice.errors import NottwiceError, SchemaTooNew, UsageError
from nottwice.graphs.binding import check_against_each_other
from nottwice.guard.check.report import Finding, Level, ToolReport, duration_text, report_on
from nottwice.guard.upkeep.preview import LedgerFormat, preview_ledger
from nottwice.views.ledger.tools import CheckReport, finding_view, format_view, tool_view
from nottwice.views.text import safe

FOUND_SOMETHING = 3

_HELP = """Check how the tools of a MODULE are declared, and whether a decorator was forgotten.

If a ledger exists, or --store names one, its format is checked, too: whether this nottwice can
open it, and what that would change. Nothing in it or beside it is touched.

MODULE is a module's name or the path of a .py file; without it, what --app or pyproject.toml
name. It is imported, which runs its top level: keep what starts your program behind
`if __name__ == "__main__":`. No tool and no hook is run, except with --smoke.

\b
For every tool that the import declares, it lists class, key, window, verify,
settles, time limit, retries, once_per, volatile arguments and durable, and
answers four questions:
  does a second run have effects?
  how is "already done" detected?
  is the detection free of effects?
  does the client inside it retry on its own?

It also reads the nodes of graphs, the hooks of agents and the blocks under nt.run, with what they
call in your own modules. It names code that sends a request or mail, starts a program, or writes
to files or a database outside of any tool, with its line and the calls that lead there. If such a
line has no effect, say why in a comment on it:  # nottwice: no effect, <why>

\b
Exit code:
  0       nothing must change
  1 or 2  it could not be checked
  3       there are errors, or warnings with --strict

\b
Errors:
  the import fails
  a tool has no replay class, or contradicts itself
  a verify hook runs an effectful tool
  a graph uses a tool without a class, or changed more than its version says
    since nottwice.lock was written
  a comment `# nottwice: no effect` without a reason
  the ledger was written by a newer nottwice

\b
Warnings:
  an effect outside of any tool
  an unsafe tool without verify, or whose client retries on its own
  a verify hook that reads neither the call's id nor its start
  a keyed tool that never reads nt.current_call()
  an annotation that cannot be used
  an effectful tool whose result may not come back: no return annotation, or
    one that nothing can be read as
  an unsafe tool of an agent that takes a text which the model writes, and
    does not say once_per=
  no tool at all

With --smoke a tool is called, in a sandbox that you name: twice with one key, with changed
arguments under one key, two at the same time, and with its process killed during the call. The
report says whether the upstream honours the key, ignores it or races, with the evidence. Without
--sandbox and --yes nothing is called.

\b
Examples:
  nottwice check agent.py
  nottwice check my_package.tools --strict --json
  nottwice check --app agent:app --lock nottwice.lock
  nottwice check --store agent.db
  nottwice check agent.py --smoke refund --sandbox sandbox:stripe --yes
"""


@click.command(cls=Command, help=_HELP)
@click.argument("module", required=False)
@click.option(
    "--lock", "lock_file", metavar="PATH", help="The lock file to compare with; else nottwice.lock."
)
@click.option("--strict", is_flag=True, help="Also fail on warnings.")
@click.option(
    "--smoke", metavar="TOOL", help="Instead: try out whether the upstream of TOOL honours its key."
)
@click.option(
    "--sandbox", metavar="MODULE:NAME", help="With --smoke: the nottwice.testing.Sandbox to call."
)
@click.option("--yes", is_flag=True, help="With --smoke: yes, make these calls there.")
@common_options
@pass_settings
@click.pass_context
def check(
    context: click.Context,
    settings: Settings,
    module: str | None,
    lock_file: str | None,
    strict: bool,
    smoke: str | None,
    sandbox: str | None,
    yes: bool,
) -> None:
    """Check the tools of a module, or try one of them out."""
    target = module if module is not None else settings.application()
    if smoke is not None:
        _smoke(context, settings, smoke, target, sandbox, yes=yes)
    if sandbox is not None or yes:
        raise click.UsageError("--sandbox and --yes belong to --smoke TOOL. Nothing was called.")
    if target is None and settings.store is None:
        raise click.UsageError("Which module? nottwice check MODULE, or --app MODULE.")
    ledger, findings = _look_at_ledger(settings)
    application: Application | None = None
    if target is not None:
        application, found = _load(target)
        findings += found + _graph_findings(application, lock_file)
        if application is not None:
            findings += forgotten_findings(application) + rewording_findings(application)
    reports = [] if application is None else [report_on(tool) for tool in application.tools]
    errors = _count(findings, reports, Level.ERROR)
    warnings = _count(findings, reports, Level.WARNING)
    failed = errors > 0 or (strict and warnings > 0)
    if settings.as_json:
        show_json(_report(target, ledger, findings, reports, failed=failed))
    else:
        for report in reports:
            _show_report(report)
        if ledger is not None:
            show_line(f"ledger {safe(ledger)}", style="yellow" if ledger.goes_forward else None)
        for finding in findings:
            _show_finding(finding, indent="")
        if target is not None:
            show_line(_summary(len(reports), errors, warnings, strict=strict))
    context.exit(FOUND_SOMETHING if failed else 0)


def _smoke(
    context: click.Context,
    settings: Settings,
    tool: str,
    target: str | None,
    sandbox: str | None,
    *,
    yes: bool,
) -> NoReturn:
    if target is None:
        raise click.UsageError("Which module declares it? nottwice check MODULE --smoke TOOL.")
    # Loaded only here: no other check starts processes.
    trying = importlib.import_module("nottwice.cli.smoke.trials")
    report = trying.smoke_check(tool, target, sandbox, yes=yes)
    if settings.as_json:
        trying.show_smoke_json(report)
    else:
        trying.show_smoke(report)
    context.exit(0 if report.passed else FOUND_SOMETHING)


def _look_at_ledger(settings: Settings) -> tuple[LedgerFormat | None, list[Finding]]:
    """The format of the ledger; one that was not named need not exist."""
    try:
        return preview_ledger(settings.store_path()), []
    except SchemaTooNew as error:
        return None, [Finding(Level.ERROR, error.message, "")]
    except NottwiceError:
        if settings.store is not None:
            raise
        return None, []


def _load(target: str) -> tuple[Application | None, list[Finding]]:
    try:
        application = load_application(target)
    except UsageError as error:
        return None, [Finding(Level.ERROR, error.message, "")]
    if not application.tools:
        text = f"importing {target} declared no tool"
        return application, [Finding(Level.WARNING, text, "name the module that declares them")]
    return application, []


def _graph_findings(application: Application | None, lock_file: str | None) -> list[Finding]:
    """What is wrong with the graphs of an application, and in what they left their lock file."""
    if application is None:
        return []
    try:
        app = app_of(application)
    except UsageError as error:
        if lock_file is None and not Path(LOCK_FILE).exists():
            # A module of tools alone.
            return []
        return [Finding(Level.WARNING, f"no lock file was compared: {error.message}", "")]
    try:
        for graph in app.graphs:
            # This alone finds tools without a class, even in drafts (T5).
            graph.fingerprint()
        check_against_each_other(app.graphs)
        return lock_findings(app, lock_file)
    except (NottwiceError, OSError) as error:
        return [Finding(Level.ERROR, str(error), "")]


def _count(findings: list[Finding], reports: list[ToolReport], level: Level) -> int:
    all_findings = [*findings, *(finding for report in reports for finding in report.findings)]
    return sum(finding.level is level for finding in all_findings)


def _report(
    target: str | None,
    ledger: LedgerFormat | None,
    findings: list[Finding],
    reports: list[ToolReport],
    *,
    failed: bool,
) -> CheckReport:
    return CheckReport(
        module=target,
        format=None if ledger is None else format_view(ledger),
        tools=tuple(map(tool_view, reports)),
        findings=tuple(map(finding_view, findings)),
        errors=_count(findings, reports, Level.ERROR),
        warnings=_count(findings, reports, Level.WARNING),
        failed=failed,
    )


def _show_report(report: ToolReport) -> None:
    answers = report.answers
    show_facts(
        report.name,
        (
            ("declared", _relative(report.place)),
            *_declared(report),
            ("a second run has effects?", answers.second_run),
            ('how is "already done" detected?', answers.detection),
            ("is the detection free of effects?", answers.detection_is_free),
            ("does its client retry?", answers.client_retries),
        ),
    )
    for finding in report.findings:
        _show_finding(finding, indent="  ")
    show_line()


def _declared(report: ToolReport) -> Iterator[tuple[str, object]]:
    kind = report.replay_class.declared_as(report.key)
    yield "class", kind + (", async" if report.is_async else "")
    yield "returns", report.result_type
    yield "key", report.key
    yield "window", _seconds(report.window_seconds)
    if report.replay_class.effectful:
        yield "verify", report.verify or "none"
        yield "settles", _seconds(report.settles_seconds) or "not declared"
    yield "time limit", _seconds(report.time_limit_seconds) or "none"
    retry = report.retry
    if retry.attempts == 1:
        yield "retry", "never"
    else:
        yield (
            "retry",
            f"up to {retry.attempts} attempts, {retry.first_seconds:g} to "
            f"{retry.most_seconds:g} s apart, after failures without effect",
        )
    if report.once_per is not None:
        yield "done once for each", ", ".join(report.once_per)
    yield "volatile", ", ".join(report.volatile) or None
    if report.durable and not report.replay_class.effectful:
        yield "durable", "before it returns"
    if report.bound_by is not None:
        yield "bound by", ", ".join(report.bound_by) or "nothing"
    yield "tags", ", ".join(report.tags) or None
    if report.approve:
        lasts = _seconds(report.approval_seconds)
        yield "approval", "needed" + (f", counts for {lasts}" if lasts else "")
    if report.replay_class.effectful:
        yield "repeat by a model", _REPEATS[report.repeat]
    if report.parallel:
        yield "order in a reply", "none: parallel"
    yield "keep", _seconds(report.keep_seconds)
    yield "rate", report.rate_class


_REPEATS = {"ask": "a person is asked first", "free": "free", "never": "never"}


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else duration_text(seconds)


def _relative(place: str) -> str:
    here = os.getcwd() + os.sep
    return place.removeprefix(here)


def _show_finding(finding: Finding, *, indent: str) -> None:
    style = "bold red" if finding.level is Level.ERROR else "yellow"
    show_line(f"{indent}{finding.level.value}: {safe(finding.text)}", style=style)
    if finding.fix:
        show_line(f"{indent}  {safe(finding.fix)}")


def _summary(tools: int, errors: int, warnings: int, *, strict: bool) -> str:
    words = [_plural(tools, "tool"), _plural(errors, "error"), _plural(warnings, "warning")]
    fatal = " (fatal: --strict)" if strict and warnings else ""
    return f"{', '.join(words)}{fatal}"


def _plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
