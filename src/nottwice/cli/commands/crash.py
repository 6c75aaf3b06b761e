"""Kill the user's code at every point: `nottwice crash`."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Callable
from typing import Any

import click
from click.core import ParameterSource

from nottwice.cli.inputs.application import load_application
from nottwice.cli.inputs.json_input import read_json
from nottwice.cli.inputs.settings import Command, Settings, common_options, pass_settings
from nottwice.cli.render.output import show_json, show_line
from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record
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
from nottwice.views.text import safe

FOUND_SOMETHING = 3
_NOTHING = "Nothing was run."


_HELP = """Kill FUNCTION at every point, resume it, and compare; exit code 3 if it differs.

FUNCTION takes no arguments and starts or resumes your work; MODULE is a module's name or the
path of a .py file. It runs in forked processes, each with its own ledger in a temporary folder,
whatever store it names. No effectful tool is run: each is answered with what --tools says, and
counted. Pure tools run for real. Waiting takes no time. Reviews are decided by the counts,
questions are answered with --answers or the first option, and calls are approved.

First it runs twice without a crash. It is refused if it raises (unless --raises), has no effect
(unless --no-effects), opens no run, or does something different the second time.

\b
Levels:
  boundaries  before and after every commit, every effect, every verify
  double      at a boundary, and again at every boundary of the recovery
  lines       at every line of nottwice that your code executes
  takeover    stopped at a line, overtaken by another process, woken again
  io          every system call on the ledger's files fails, once and from
              then on (needs strace)
  power       power lost at every step, with what a disk may have kept
              (needs strace)

Checked after every crash and after every resume: no effect twice, none lost, an intent before
every effect, true receipts, rows, steps and checkpoints that agree, waits with a reason, every
doubt settled once, the same end as without a crash, no more repeated calls than allowed.

\b
Exit codes:
  0  nothing wrong
  1  refused, not examined
  2  wrong usage
  3  something wrong

\b
Examples:
  nottwice crash agent.py:handle --tools '{"refund": {"ok": true}}'
  nottwice crash agent:handle --tools @answers.json --level double --budget 5m
  nottwice crash agent:handle --tools @a.json --level double --points 68,12
  nottwice crash --compare --seed 7
"""


@click.command(cls=Command, help=_HELP)
@click.argument("target", metavar="MODULE:FUNCTION", required=False)
@click.option("--tools", metavar="JSON", help="What each effectful tool returns, by its name.")
@click.option("--answers", metavar="JSON", help="What people answer, and what events carry.")
@click.option(
    "--raises",
    multiple=True,
    metavar="NAME",
    help="An exception that it raises even without a crash; can be given several times.",
)
@click.option("--no-effects", is_flag=True, help="It has no effects, and that is intended.")
@click.option(
    "--redirect",
    metavar="MODULE:FUNCTION",
    help="For a store that is not part of nottwice: opens an empty one in a given folder.",
)
@click.option(
    "--at-most-repeated",
    metavar="NUMBER",
    type=click.IntRange(0),
    help="How many tool calls a crash may repeat, pure ones included. Default: the effects and "
    "recorded model calls that were in progress.",
)
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
    raises: tuple[str, ...],
    no_effects: bool,
    redirect: str | None,
    at_most_repeated: int | None,
    levels: tuple[str, ...],
    budget: str,
    points: str | None,
    seed: int | None,
    compare: bool,
) -> None:
    """Kill code at every point, and resume it."""
    given = _Given(tools, answers, raises, no_effects, redirect, at_most_repeated)
    if compare:
        _refuse_with_compare(target, levels, points, given != _Given())
        asked_for = context.get_parameter_source("budget") is not ParameterSource.DEFAULT
        context.exit(_compare(settings, seed, budget if asked_for else None))
    target = _named(target)
    with _progress(settings) as report:
        verdict = crash_test(
            _function(target),
            **given.to_arguments(),
            levels=levels or DEFAULT_LEVELS,
            budget=budget,
            points=[parse_points(points)] if points else (),
            seed=seed,
            name=target,
            report=report,
            reproduce=lambda level, numbers: given.again(target, level, numbers),
        )
    context.exit(_show(verdict, settings))


def _compare(settings: Settings, seed: int | None, budget: str | None) -> int:
    """The table, and every point of nottwice, unless the budget ends before."""
    # Imported only here: the tasks declare tools and a graph, which must not meet user code.
    from nottwice.cli.render.comparison import show_comparison

    seconds = None if budget is None else parse_duration(budget, what="--budget")
    passed = show_comparison(seed=seed, budget_seconds=seconds, as_json=settings.as_json)
    return 0 if passed else FOUND_SOMETHING


def _refuse_with_compare(*given: object) -> None:
    if any(given):
        raise click.UsageError(
            f"--compare brings its own tasks: it takes --seed, --budget and --json only. {_NOTHING}"
        )


def _named(target: str | None) -> str:
    if target is None:
        raise click.UsageError(f"Say what to kill, MODULE:FUNCTION, or --compare. {_NOTHING}")
    return target


def _function(target: str) -> Callable[..., Any]:
    found: Any = load_application(target).named
    if not callable(found) or ":" not in target:
        raise UsageError(f"{target} names no function. {_NOTHING} Write MODULE:FUNCTION.")
    function: Callable[..., Any] = found
    return function


@frozen_record(frozen=True, slots=True)
class _Given:
    """What the command line says about the function, as it was written there."""

    tools: str | None = None
    answers: str | None = None
    raises: tuple[str, ...] = ()
    no_effects: bool = False
    redirect: str | None = None
    at_most_repeated: int | None = None

    def to_arguments(self) -> dict[str, Any]:
        """The same for ``crash_test``."""
        return {
            "tools": _object(self.tools, "--tools"),
            "answers": _object(self.answers, "--answers"),
            "raises": self.raises,
            "effects": not self.no_effects,
            "store": None if self.redirect is None else _function(self.redirect),
            "at_most_repeated": self.at_most_repeated,
        }

    def again(self, target: str, level: str, numbers: Numbers) -> str:
        """The command that examines one point again."""
        words = ["nottwice", "crash", target]
        named = {"--tools": self.tools, "--answers": self.answers, "--redirect": self.redirect}
        for option, given in named.items():
            if given is not None:
                words += [option, given]
        for name in self.raises:
            words += ["--raises", name]
        words += ["--no-effects"] * self.no_effects
        if self.at_most_repeated is not None:
            words += ["--at-most-repeated", str(self.at_most_repeated)]
        point = ["--level", level, "--points", ",".join(map(str, numbers))]
        return shlex.join([*words, *point])


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


def _show(verdict: Verdict, settings: Settings) -> int:
    """Show the verdict, and return the exit code for it."""
    if settings.as_json:
        show_json(verdict.to_plain())
    else:
        for line in verdict.lines():
            show_line(safe(line), style="red" if "WRONG" in line else None)
    return FOUND_SOMETHING if verdict.failures else 0
