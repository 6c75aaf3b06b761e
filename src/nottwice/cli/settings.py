"""Which ledger, which application, how to print? The options that every command shares.

They may stand before or after the command. What is not given is taken from the environment, then
from `[tool.nottwice]` in the pyproject.toml of this folder or of one above it, then from the
default. A command never creates a ledger that is not there.
"""

from __future__ import annotations

import importlib.metadata
import logging
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from nottwice.cli.output import encodable, safe
from nottwice.errors import UsageError
from nottwice.guard.ledger import (
    DEFAULT_STORE,
    MEMORY,
    Ledger,
    check_spelling,
    default_store,
    open_ledger,
)
from nottwice.guard.project import project_table, project_text
from nottwice.store.postgres.place import without_secrets

F = TypeVar("F", bound=Callable[..., Any])
COMMON = ("--store", "--app", "--json", "--verbose", "--version", "--help")


@dataclass(slots=True)
class Settings:
    """What the shared options said, before or after the command; the later one counts."""

    store: str | None = None
    app: str | None = None
    as_json: bool = False
    verbosity: int = 0

    def open_ledger(self, *, create: bool = False) -> Ledger:
        """Open the ledger that is meant; NoLedger if it is not there and not to be created."""
        path = self.store_path()
        if path == MEMORY:
            raise UsageError(
                "A ledger in memory lives and dies inside one process, so no command can look at "
                "it. Nothing was opened. Name the file of a ledger with --store PATH."
            )
        return open_ledger(path, create=create)

    def application(self) -> str | None:
        """The application that is meant, as MODULE[:ATTRIBUTE] or the path of a file."""
        return self.app if self.app is not None else self.configured_application()

    def configured_application(self) -> str | None:
        folder, app = project_text("app")
        if app is not None and app.partition(":")[0].endswith(".py"):
            return str(folder / app)
        return app

    def replay_secrets(self) -> list[str]:
        """The fields whose values are secret in recorded checkpoints, as configured."""
        folder, table = project_table()
        replay = table.get("replay")
        names = replay.get("secrets", []) if isinstance(replay, dict) else replay
        if names is None:
            return []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UsageError(
                f"{folder / 'pyproject.toml'}: replay.secrets in [tool.nottwice] must be a list of "
                f"names, not {names!r}. Nothing was recorded."
            )
        return names

    def command(self, words: str, name: str = "") -> str:
        """A command that can be typed as it stands: it names the ledger if this one had to.

        ``name`` is an id that somebody else chose, so it may look like an option, or like shell.
        """
        if name.startswith("-"):
            return f"nottwice {words}{self.store_words()} -- {shlex.quote(name)}"
        quoted = f" {shlex.quote(name)}" if name else ""
        return f"nottwice {words}{quoted}{self.store_words()}"

    def resume_command(self, run_id: str) -> str:
        """What resumes a run of a graph, to be typed as it stands."""
        app = "" if self.app is None else f" --app {shlex.quote(self.app)}"
        return f"nottwice run --id {shlex.quote(run_id)}{app}{self.store_words()}"

    def worker_command(self) -> str:
        """What starts a worker, to be typed as it stands."""
        app = "" if self.app is None else f" --app {shlex.quote(self.app)}"
        return f"nottwice worker{app}{self.store_words()}"

    def store_words(self) -> str:
        if self.store is None:
            return ""
        return f" --store {shlex.quote(without_secrets(self.store))}"

    def store_path(self) -> str:
        """Where the ledger is that is meant."""
        if self.store is not None:
            return self.store
        return default_store()


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def common_options(command: F) -> F:
    """Give a command the options that all commands have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Command(click.Command):
    """A command whose help lists its own options first and the shared ones after them."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        format_options(self, context, formatter)


def format_options(
    command: click.Command, context: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options in two parts: what belongs to this command, and what to all."""
    own: list[tuple[str, str]] = []
    shared: list[tuple[str, str]] = []
    for parameter in command.get_params(context):
        # Arguments are explained in the text; newer versions of click would list them here.
        record = parameter.get_help_record(context)
        if record is not None and isinstance(parameter, click.Option):
            is_shared = any(spelling in COMMON for spelling in parameter.opts)
            (shared if is_shared else own).append(record)
    for title, records in (("Options", own), ("Options of every command", shared)):
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def show_log(context: click.Context, settings: Settings) -> None:
    """Show the log of nottwice on stderr: warnings, with -v decisions, with -vv everything."""
    levels = {0: logging.WARNING, 1: logging.INFO}
    logger = logging.getLogger("nottwice")
    before = (logger.level, logger.propagate, list(logger.handlers))
    logger.setLevel(levels.get(settings.verbosity, logging.DEBUG))
    logger.propagate = False
    logger.handlers = [_SafeHandler()]

    def restore() -> None:
        logger.level, logger.propagate, logger.handlers = before

    context.call_on_close(restore)


def installed_version() -> str:
    """The version of this nottwice."""
    try:
        return importlib.metadata.version("nottwice")
    except importlib.metadata.PackageNotFoundError:
        return "unknown (it runs from its source folder)"


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    settings = context.ensure_object(Settings)
    if value is not None and value is not False:
        if parameter.name == "store":
            try:
                check_spelling(value)
            except UsageError as error:
                raise click.BadParameter(str(error)) from None
        setattr(settings, str(parameter.name), value)


def _log(context: click.Context, parameter: click.Parameter, value: int) -> None:
    settings = context.ensure_object(Settings)
    settings.verbosity = max(settings.verbosity, value)
    if not isinstance(context.command, click.Group):
        show_log(context, settings)


class _SafeHandler(logging.Handler):
    """Writes log lines in which no text from a run can steer the terminal."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = safe(f"{record.levelname.lower()}: {record.getMessage()}")
            click.echo(encodable(line, sys.stderr), err=True)
        except Exception:
            # Nobody may be reading any more. What is logged must never decide what is done.
            self.handleError(record)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(f"nottwice {installed_version()}")
        context.exit()


_OPTIONS = (
    click.option(
        "--store",
        metavar="PATH",
        expose_value=False,
        callback=_remember,
        help="The ledger: a SQLite file, a folder of JSON files, or postgresql://… Else "
        f"NOTTWICE_STORE, else `store` of [tool.nottwice] in pyproject.toml, else {DEFAULT_STORE}.",
    ),
    click.option(
        "--app",
        metavar="MODULE[:NAME]",
        expose_value=False,
        callback=_remember,
        help="Your code, imported so that its tools are known: a module or the path of a .py "
        "file. An app named here leads to its ledger. Else `app` of [tool.nottwice] in "
        "pyproject.toml.",
    ),
    click.option(
        "--json",
        "as_json",
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Print one JSON document instead of text.",
    ),
    click.option(
        "-v",
        "--verbose",
        "verbosity",
        count=True,
        expose_value=False,
        callback=_log,
        help="Log to stderr what is done; -vv for more.",
    ),
    click.option(
        "--version",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version and stop.",
    ),
)
