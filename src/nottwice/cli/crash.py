"""Kill somebody's code at every point it has: `nottwice crash`."""

from __future__ import annotations

import contextlib
import shlex
import sys
from typing import Any

import click
from click.core import ParameterSource

from nottwice.cli.application import load_application
from nottwice.cli.json_input import read_json
from nottwice.cli.output import safe, show_json, show_line
from nottwice.cli.settings import Command, Settings, common_options, pass_settings
from nottwice.errors import UsageError
from nottwice.model.tool import parse_duration
from nottwice.testing.crash.entry import (
    DEFAULT_BUDGET,
    DEFAULT_LEVELS,
    crash_test,
    parse_points,
)
from nottwice.testing.crash.levels import Numbers
from nottwice.testing.crash.progress import progress_bar
from nottwice.testing.crash.sweep import level_names
from nottwice.testing.crash.verdict import Verdict

FOUND_SOMETHING = 3
_NOTHING = "Nothing was run."


@click.command(cls=Command, short_help="Kill your code at every point it has, and resume it.")
@click.argument("target", metavar="MODULE:FUNCTION", required=False)
@click.option("--tools", metavar="JSON", help="What each effectful tool returns, by its name.")
@click.option("--answers", metavar="JSON", help="What people answer, and what events carry.")
@click.option(
    "--level",
    "levels",
    multiple=True,
    type=click.Choice(level_names()),
    help="Where to kill; can be given several times. Default: boundaries.",
)
@click.option(
    "--budget", metavar="TIME", default=DEFAULT_BUDGET, show_default=True, help="How long at most."
)
@click.option("--points", metavar="POINT", help="Only this point, as the verdict names it: 68,12")
@click.option("--seed", type=int, help="Draw the same sample again.")
@click.option(
    "--compare",
    is_flag=True,
    help="No code of yours: 30 tasks killed with three ways of keeping state, as a table, then "
    "nottwice at every point: a few minutes, or --budget.",
)
@common_options
@pass_settings
@click.pass_context
def crash(
    context: click.Context,
    settings: Settings,
    target: str | None,
    tools: str | None,
    answers: str | None,
    levels: tuple[str, ...],
    budget: str,
    points: str | None,
    seed: int | None,
    compare: bool,
) -> None:
    """Kill FUNCTION at every point it has, resume it, and compare; exit code 3 if it differs.

    FUNCTION takes no arguments and starts or resumes your work; MODULE is a module's name or the
    path of a .py file. It is run in forked processes, each with a ledger of its own in a temporary
    folder, whatever store it names. No effectful tool is run: each is answered with what --tools
    says, and counted. Pure tools run for real. Waiting takes no time; people decide by what was
    counted, answer with --answers or the first option, and approve.

    \b
    Levels:
      boundaries  before and after every commit, every effect, every verify
      double      at a boundary, and again at every boundary of the recovery
      lines       at every line of nottwice that your code executes
      takeover    stopped at a line, overtaken by another process, woken again
      io          every call about the ledger's files fails, once and from then on (strace)
      power       power lost at every step, with what a disk may have kept (strace)

    \b
    Checked after every crash and after every resume: no effect twice, none lost, an intent before
    every effect, true receipts, rows, steps and checkpoints that agree, waits with a reason, every
    doubt settled once, the same end as without a crash.

    \b
    Examples:
      nottwice crash agent.py:handle --tools '{"refund": {"ok": true}}'
      nottwice crash agent:handle --tools @answers.json --level double --budget 5m
      nottwice crash agent:handle --tools @answers.json --level double --points 68,12
      nottwice crash --compare --seed 7
    """
    if compare:
        _refuse_with_compare(target, tools, answers, levels, points)
        asked_for = context.get_parameter_source("budget") is not ParameterSource.DEFAULT
        passed = _compare(settings, seed, budget if asked_for else None)
        context.exit(0 if passed else FOUND_SOMETHING)
    if target is None:
        raise click.UsageError(f"Say what to kill, MODULE:FUNCTION, or --compare. {_NOTHING}")
    application = load_application(target)
    if not callable(application.named) or ":" not in target:
        raise UsageError(f"{target} names no function. {_NOTHING} Write MODULE:FUNCTION.")
    with _progress(settings) as report:
        verdict = crash_test(
            application.named,
            tools=_object(tools, "--tools"),
            answers=_object(answers, "--answers"),
            levels=levels or DEFAULT_LEVELS,
            budget=budget,
            points=[parse_points(points)] if points else (),
            seed=seed,
            name=target,
            report=report,
            reproduce=_Again(target, tools, answers),
        )
    _show(verdict, settings)
    context.exit(FOUND_SOMETHING if verdict.failures else 0)


def _compare(settings: Settings, seed: int | None, budget: str | None) -> bool:
    """The table, and every point of nottwice unless somebody has less time than that takes."""
    # Only here: the tasks declare tools and a graph, which nobody's own code should meet.
    from nottwice.cli.compare import show_comparison

    seconds = None if budget is None else parse_duration(budget, what="--budget")
    return show_comparison(seed=seed, budget_seconds=seconds, as_json=settings.as_json)


def _refuse_with_compare(*given: object) -> None:
    if any(given):
        raise click.UsageError(
            f"--compare brings its own tasks: it takes --seed, --budget and --json only. {_NOTHING}"
        )


class _Again:
    """The command that examines one point again."""

    def __init__(self, target: str, tools: str | None, answers: str | None) -> None:
        words = ["nottwice", "crash", target]
        for option, given in (("--tools", tools), ("--answers", answers)):
            if given is not None:
                words += [option, given]
        self._words = words

    def __call__(self, level: str, numbers: Numbers) -> str:
        point = ["--level", level, "--points", ",".join(map(str, numbers))]
        return shlex.join([*self._words, *point])


def _object(given: str | None, option: str) -> dict[str, Any]:
    if given is None:
        return {}
    found = read_json(given, option=option, outcome=_NOTHING)
    if not isinstance(found, dict):
        raise click.UsageError(f"{option} must be a JSON object of names. {_NOTHING}")
    return found


@contextlib.contextmanager
def _progress(settings: Settings) -> Any:
    if settings.as_json:
        yield lambda progress: None
        return
    with progress_bar(sys.stderr) as report:
        yield report


def _show(verdict: Verdict, settings: Settings) -> None:
    if settings.as_json:
        show_json(verdict.to_plain())
        return
    for line in verdict.lines():
        show_line(safe(line), style="red" if "WRONG" in line else None)
