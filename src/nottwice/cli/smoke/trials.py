"""Does the upstream of a tool honour its key? `nottwice check --smoke TOOL`, in a sandbox (T6).

Nothing is called unless the command line names a sandbox and allows the calls.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from nottwice.cli.inputs.application import load_application
from nottwice.cli.render.output import output_to_stderr, show_json, show_line, show_progress
from nottwice.errors import NottwiceError, UsageError
from nottwice.guard.check.report import duration_text
from nottwice.model.tool import parse_duration
from nottwice.testing.smoke import (
    KeyFinding,
    Report,
    Sandbox,
    Trial,
    check_can_be_tried,
    how_much,
    smoke,
)
from nottwice.testing.smoke_caller import Caller
from nottwice.views.outcomes import SmokeReport, TrialView
from nottwice.views.text import safe

LIMIT_SECONDS = 120.0
_STYLES = {
    KeyFinding.HONOURS: "green",
    KeyFinding.REJECTS: "green",
    KeyFinding.FIRST_RESULT: "yellow",
    KeyFinding.ANOTHER_CALL: "yellow",
    KeyFinding.NOT_TRIED: "yellow",
}
_ADVICE = {
    KeyFinding.HONOURS: "It may stay idempotent_with_key.",
    KeyFinding.RACES: "It is unsafe_on_replay for callers that overlap: declare it so, or let the "
    "upstream look at the key and act in one step.",
    KeyFinding.IGNORES: "In fact it is unsafe_on_replay: declare it so, with a verify hook, "
    "or send nt.current_call().key where the upstream looks for it.",
    KeyFinding.UNCLEAR: "Nothing is proven. Fix what the evidence shows, and try again.",
}


def smoke_check(tool_name: str, target: str, sandbox_name: str | None, *, yes: bool) -> Report:
    """Load what is named, check that it may be tried, and try it."""
    if sandbox_name is None:
        raise click.UsageError(
            "--smoke makes real calls, so it needs a place for them: --sandbox MODULE:NAME. "
            "Nothing was called."
        )
    tool = _find_tool(tool_name, target)
    check_can_be_tried(tool)
    sandbox = _find_sandbox(sandbox_name)
    if not yes:
        settles = duration_text(parse_duration(sandbox.settles, what="settles"))
        raise click.UsageError(
            f"This is {how_much()}: {tool_name} in {sandbox_name}, with {settles} to settle after "
            "each. Nothing was called. If that is a sandbox and not production, confirm with: --yes"
        )
    start = partial(_start_caller, target, sandbox_name, tool_name)
    with output_to_stderr():
        try:
            return smoke(tool, sandbox, start, on_trial=_tell)
        except (NottwiceError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise UsageError(
                f"The sandbox {sandbox_name} raised {type(error).__name__}: {error}. Calls may "
                "have been made in it. Fix it, and try again."
            ) from error


def show_smoke(report: Report) -> None:
    """Print what was found, with the evidence for it."""
    for trial in report.trials:
        show_line(f"{trial.name}: {trial.finding.value}", style=_STYLES.get(trial.finding, "red"))
        for line in trial.evidence:
            show_line(f"  {safe(line)}")
    verdict = f"{safe(report.tool)} {report.finding.value}. {_ADVICE[report.finding]}"
    show_line(verdict, style="bold green" if report.passed else "bold red")


def show_smoke_json(report: Report) -> None:
    """The same as one JSON document."""
    show_json(
        SmokeReport(
            tool=report.tool,
            finding=report.finding.value,
            trials=tuple(map(_trial_view, report.trials)),
            failed=not report.passed,
        )
    )


def _trial_view(trial: Trial) -> TrialView:
    return TrialView(
        name=trial.name,
        finding=trial.finding.value,
        effects=trial.effects,
        evidence=tuple(trial.evidence),
    )


def load_tool(tool_name: str, target: str, sandbox_name: str) -> Any:
    """The tool in a process that is to call it, with what the sandbox sets up on import."""
    tool = _find_tool(tool_name, target)
    _find_sandbox(sandbox_name)
    return tool


def _find_tool(name: str, target: str) -> Callable[..., Any]:
    tools = {tool.tool.name: tool for tool in load_application(target).tools}  # type: ignore[attr-defined]
    if name not in tools:
        near = difflib.get_close_matches(name, tools, n=3) or sorted(tools)
        known = ", ".join(map(repr, near)) or "none"
        raise UsageError(
            f"{target} declares no tool {name!r}. Nothing was called. There is: {known}."
        )
    return tools[name]


def _find_sandbox(name: str) -> Sandbox:
    if ":" not in name:
        raise UsageError(
            f"--sandbox {name} does not say which. Nothing was called. Write MODULE:NAME, where "
            "NAME is a nottwice.testing.Sandbox."
        )
    found = load_application(name).named
    if not isinstance(found, Sandbox):
        raise UsageError(
            f"{name} is {type(found).__name__}, not a nottwice.testing.Sandbox. Nothing was "
            "called. Write: sandbox = Sandbox(arguments=..., count=...)."
        )
    return found


def _start_caller(target: str, sandbox_name: str, tool_name: str) -> Caller:
    command = [sys.executable, "-m", "nottwice.cli.smoke.child", tool_name, target, sandbox_name]
    return Caller(command, limit_seconds=LIMIT_SECONDS)


def _tell(trial: Trial) -> None:
    show_progress(f"{trial.name}: {trial.finding.value}")
