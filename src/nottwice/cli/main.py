"""The program `nottwice`: its commands, and how an error reaches the person at the keyboard.

Exit codes: 0 done, 1 a typed error of nottwice, 2 the command line was wrong, 3 a check found
something or a run waits. No traceback is ever shown for an error that has a name.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import importlib
import importlib.util
import os
import sys
from typing import Any

import click

from nottwice.cli.commands import (
    audit,
    backup,
    cancel,
    check,
    decide,
    fork,
    gc,
    history,
    key,
    lock,
    migrate,
    reviews,
    run,
    send,
    show,
    status,
    talk,
    worker,
)
from nottwice.cli.inputs.settings import (
    Settings,
    common_options,
    format_options,
    pass_settings,
    show_log,
)
from nottwice.cli.render.output import show_error, show_json, show_note
from nottwice.errors import NoLedger, NottwiceError

_EPILOG = """\b
Exit codes:
  0  done
  1  an error that has a name: its text says what happened and what to do
  2  the command line was wrong, or nothing was decided
  3  something needs somebody: `run` or `talk` that waits, `check`, `migrate` that was refused,
     `reviews --fail-if-open`"""


class Program(click.Group):
    """The group of all commands; what starts processes is loaded only when somebody wants it."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        # Whatever started it, this is what a person types; usage texts must be true.
        return super().make_context("nottwice", args, parent, **extra)

    def list_commands(self, context: click.Context) -> list[str]:
        return [*self.commands, "crash", "demo", "replay"]

    def get_command(self, context: click.Context, cmd_name: str) -> click.Command | None:
        match cmd_name:
            case "demo":
                return _load_demo()
            case "crash":
                return _load_crash()
            case "replay":
                return _load_replay()
            case _:
                return super().get_command(context, cmd_name)

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(context, formatter)
        format_options(self, context, formatter)

    def invoke(self, context: click.Context) -> Any:
        atexit.register(_forget_what_nobody_reads)
        settings = context.ensure_object(Settings)
        try:
            return super().invoke(context)
        except NottwiceError as error:
            _report(error, settings)
        except OSError as error:
            # A closed pipe is the reader's choice; click ends quietly then.
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
    """Look after runs whose tools must not do anything twice.

    Without a command: the state of the ledger, and what to type next.

    Ids can be shortened to a beginning that fits only one. Only `run`, `talk`, `worker`, `crash`
    and `check --smoke` run tools of yours, and only `run` and `worker` create a ledger that is not
    there.
    """
    if context.invoked_subcommand is None:
        show_log(context, settings)
        status.show_status(settings)


for _command in (
    run.run,
    worker.worker,
    status.runs,
    show.show,
    history.history,
    audit.audit,
    reviews.reviews,
    decide.decide,
    reviews.recheck,
    talk.talk,
    send.send,
    cancel.cancel,
    fork.fork,
    check.check,
    lock.lock,
    migrate.migrate,
    gc.gc,
    backup.backup_command,
    key.key,
):
    main.add_command(_command)


def _forget_what_nobody_reads() -> None:
    """Progress that could not be shown must not become the exit code 120 of the interpreter."""
    try:
        sys.stderr.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _report(error: Exception, settings: Settings) -> None:
    """Say what went wrong: to people on stderr, to scripts as the one document they read."""
    text = str(error)
    show_error(text)
    if isinstance(error, NoLedger) and settings.store is None:
        show_note("Your program makes one when it first opens a run. To see that: nottwice demo")
    if settings.store is not None and "nottwice " in text and "--store" not in text:
        show_note(f"Name the ledger in that command as well:{settings.store_words()}")
    if settings.as_json:
        show_json({"error": {"type": type(error).__name__, "message": text}})


def _load_crash() -> click.Command:
    """The crash test, whose kit no other command needs."""
    command: click.Command = importlib.import_module("nottwice.cli.commands.crash").crash
    return command


def _load_replay() -> click.Command:
    """The replay gate, whose kit no other command needs."""
    command: click.Command = importlib.import_module("nottwice.cli.commands.replay").replay
    return command


def _load_demo() -> click.Command:
    """The demo, which starts processes and servers and is not needed for anything else."""
    if importlib.util.find_spec("nottwice.cli.demo.story") is None:
        return _missing_demo
    command: click.Command = importlib.import_module("nottwice.cli.demo.story").demo
    return command


@click.command("demo")
def _missing_demo() -> None:
    """Watch an agent being killed, with and without nottwice."""
    raise NottwiceError(
        "The demo is not part of this installation. Nothing was run. Install nottwice again: "
        "pip install --force-reinstall nottwice"
    )
