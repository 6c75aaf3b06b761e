"""The program `nottwice`: its commands, and how an error reaches the person at the keyboard.

Exit codes: 0 done, 1 a typed error of nottwice, 2 the command line was wrong, 3 a check found
something or a run waits. A typed error never shows a traceback.
"""

from __future__ import annotations

import atexit
import contextlib
import difflib
import errno
import importlib
import importlib.util
import os
import re
import sys
from typing import Any

import click

from nottwice.cli.commands import COMMANDS
from nottwice.cli.inputs.settings import (
    Settings,
    common_options,
    format_options,
    pass_settings,
    show_log,
)
from nottwice.cli.render.output import show_error, show_json, show_note
from nottwice.errors import NoLedger, NottwiceError, RunBusy

_WITHOUT_A_LEDGER = {"key", "demo"}
"""Commands that an error may propose and that take no --store."""
_LAST_COMMAND = re.compile(r": nottwice [a-z]+( [\w-]+)*$")
"""A command at the end of an error, to which words can be added."""
_PYTHON_ARGUMENT = re.compile(r"with \w+=\.\.\.")

_EPILOG = """\b
Exit codes:
  0  done
  1  an error; its text says what happened and what to do
  2  the command line was wrong, or nothing was decided
  3  a person or a fix is needed: a run waits (`run`, `talk`), a problem
     was found (`check`, `crash`, `audit --verify`), a run was refused
     (`migrate`), a message failed (`notify`), `reviews --fail-if-open`,
     `reviews --fail-if-older`

\b
Tab completes commands, options and the ids of this ledger, once your shell
knows how:
  bash  eval "$(_NOTTWICE_COMPLETE=bash_source nottwice)"
  zsh   eval "$(_NOTTWICE_COMPLETE=zsh_source nottwice)"
  fish  _NOTTWICE_COMPLETE=fish_source nottwice | source"""


class Program(click.Group):
    """The group of all commands. Each is imported only when it is called."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        # However it was started, usage texts must name what a person types.
        return super().make_context("nottwice", args, parent, **extra)

    def list_commands(self, context: click.Context) -> list[str]:
        return [*COMMANDS, *self.commands]

    def get_command(self, context: click.Context, cmd_name: str) -> click.Command | None:
        row = COMMANDS.get(cmd_name)
        if row is None:
            return super().get_command(context, cmd_name)
        if cmd_name == "demo" and importlib.util.find_spec(row.module) is None:
            return _missing_demo
        command: click.Command = getattr(importlib.import_module(row.module), row.attribute)
        command.short_help = row.summary
        return command

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        # click proposes commands that are loaded, and these are not.
        if not context.resilient_parsing and args[0] not in self.list_commands(context):
            close = difflib.get_close_matches(args[0], self.list_commands(context), n=1)
            meant = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"No such command {args[0]!r}.{meant}", context)
        return super().resolve_command(context, args)

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, row.summary) for name, row in COMMANDS.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(context, formatter)
        format_options(self, context, formatter)

    def invoke(self, context: click.Context) -> Any:
        atexit.register(_discard_unread_output)
        settings = context.ensure_object(Settings)
        try:
            return super().invoke(context)
        except NottwiceError as error:
            _report(error, settings)
        except OSError as error:
            # The reader closed the pipe; click ends quietly then.
            if error.errno == errno.EPIPE:
                raise
            _report(error, settings)
        raise click.exceptions.Exit(1)


@click.group(
    "nottwice",
    cls=Program,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND] [ARGS]...",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@common_options
@pass_settings
@click.pass_context
def main(context: click.Context, settings: Settings) -> None:
    """Operate runs whose tools must not act twice.

    Without a command: the state of the ledger, and what to type next.

    You can shorten an id to any unique prefix. Only `run`, `talk`, `worker`, `crash` and
    `check --smoke` run your tools. Only `run`, `worker` and `proxy` create a ledger.
    """
    if context.invoked_subcommand is None:
        from nottwice.cli.commands.status import show_status

        show_log(context, settings)
        show_status(settings)


def _discard_unread_output() -> None:
    """Progress that cannot be shown must not turn into exit code 120 of the interpreter."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _report(error: Exception, settings: Settings) -> None:
    """Say what went wrong: to people on stderr, to scripts as the JSON document."""
    text = _busy_text(error, settings) if isinstance(error, RunBusy) else str(error)
    named = re.findall(r"nottwice ([a-z]+)", text)
    needs_ledger = set(named) & COMMANDS.keys() - _WITHOUT_A_LEDGER
    is_incomplete = settings.store is not None and needs_ledger and "--store" not in text
    is_last = len(named) == 1 and _LAST_COMMAND.search(text) is not None
    if is_incomplete and is_last:
        text += settings.commands().store_words()
    show_error(text)
    if isinstance(error, NoLedger) and settings.store is None:
        show_note("Your program creates one when it first opens a run. See: nottwice demo")
    if is_incomplete and not is_last:
        show_note(f"Add the ledger to that command:{settings.commands().store_words()}")
    if settings.as_json:
        show_json({"error": {"type": type(error).__name__, "message": text}})


def _busy_text(error: RunBusy, settings: Settings) -> str:
    """The error with a way out that can be typed, where it names an argument of Python."""
    run_id = str(error.facts.get("run_id", ""))
    wait = f"with: {settings.commands().resume(run_id)} --wait 10m"
    return _PYTHON_ARGUMENT.sub(lambda _: wait, str(error))


@click.command("demo")
def _missing_demo() -> None:
    """Watch an agent being killed, with and without nottwice."""
    raise NottwiceError(
        "The demo is not part of this installation. Nothing was run. Install nottwice again: "
        "pip install --force-reinstall nottwice"
    )
