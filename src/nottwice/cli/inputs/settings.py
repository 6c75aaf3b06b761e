"""Which ledger, which application, how to print? The options that every command shares.

They may stand before or after the command. What is not given is taken from the environment, then
from `[tool.nottwice]` in the pyproject.toml of this folder or of one above it, then from the
default. Only `run`, `worker` and `proxy` create a ledger.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nottwice.cli.render.output import encodable
from nottwice.errors import UsageError
from nottwice.guard.settings.project import DEFAULT_STORE, project_table, project_text
from nottwice.views.commands import CommandLine
from nottwice.views.text import safe

if TYPE_CHECKING:
    from nottwice.guard.ledger import Ledger

F = TypeVar("F", bound=Callable[..., Any])
COMMON = ("--store", "--app", "--json", "--verbose", "--version", "--help")


@dataclass(slots=True)
class Settings:
    """What the shared options said, before or after the command; the later one counts."""

    store: str | None = None
    app: str | None = None
    as_json: bool = False
    verbosity: int = 0
    stores: tuple[str, ...] = ()
    """All ledgers that were named, for a command that takes several; ``store`` is the first."""

    def open_ledger(self, *, create: bool = False) -> Ledger:
        """Open the ledger; NoLedger if it does not exist and must not be created."""
        from nottwice.guard.ledger import MEMORY, Ledger

        path = self.store_path()
        if path == MEMORY:
            raise UsageError(
                "A ledger in memory exists only inside one process, so a command cannot open "
                "it. Nothing was opened. Name the file of a ledger with --store PATH."
            )
        return Ledger(path, create=create)

    def application(self) -> str | None:
        """The application, as MODULE[:ATTRIBUTE] or the path of a file; None if none is named."""
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

    def commands(self) -> CommandLine:
        """What commands that are printed for a person must name."""
        return CommandLine(self.store, self.app, has_app=self.application() is not None)

    def command(self, words: str, name: str = "") -> str:
        """A command that works as printed; see ``CommandLine.command``."""
        return CommandLine(self.store, self.app).command(words, name)

    def store_path(self) -> str:
        """Where the ledger is."""
        if self.store is not None:
            return self.store
        from nottwice.guard.ledger import default_store

        return default_store()


pass_settings = click.make_pass_decorator(Settings, ensure=True)


def common_options(command: F) -> F:
    """Give a command the options that all commands have."""
    return _with((_STORE, *_OPTIONS), command)


def common_options_of_several(command: F) -> F:
    """Give a command the same options, and let it take ``--store`` several times."""
    return _with((_STORES, *_OPTIONS), command)


def _with(options: tuple[Callable[[Any], Any], ...], command: F) -> F:
    for option in reversed(options):
        command = option(command)
    return command


class Command(click.Command):
    """A command whose help lists its own options first and the shared ones after them."""

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        format_options(self, context, formatter)


def format_options(
    command: click.Command, context: click.Context, formatter: click.HelpFormatter
) -> None:
    """Write the options in two parts: those of this command, and those of every command."""
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
    import importlib.metadata

    try:
        return importlib.metadata.version("nottwice")
    except importlib.metadata.PackageNotFoundError:
        return "unknown (it runs from its source folder)"


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    settings = context.ensure_object(Settings)
    if value is not None and value is not False:
        if parameter.name == "store":
            _check_store(value)
        setattr(settings, str(parameter.name), value)


def _remember_several(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> None:
    for one in value:
        _check_store(one)
    if value:
        settings = context.ensure_object(Settings)
        settings.store, settings.stores = value[0], value


def _check_store(value: str) -> None:
    from nottwice.guard.ledger import check_spelling

    try:
        check_spelling(value)
    except UsageError as error:
        raise click.BadParameter(str(error)) from None


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
            # The reader may be gone. Logging must never decide what is done.
            self.handleError(record)


def _print_version(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        click.echo(f"nottwice {installed_version()}")
        context.exit()


_STORE_HELP = (
    "The ledger: a SQLite file, a folder of JSON files, or postgresql://… Default: "
    "NOTTWICE_STORE, then `store` of [tool.nottwice] in pyproject.toml, then "
    f"{DEFAULT_STORE}."
)
_STORE = click.option(
    "--store", metavar="PATH", expose_value=False, callback=_remember, help=_STORE_HELP
)
_STORES = click.option(
    "--store",
    metavar="PATH",
    multiple=True,
    expose_value=False,
    callback=_remember_several,
    help=_STORE_HELP,
)
_OPTIONS = (
    click.option(
        "--app",
        metavar="MODULE[:NAME]",
        expose_value=False,
        callback=_remember,
        help="Your code, imported so that its tools are known: a module or the path of a .py "
        "file. An app that is named here also names the ledger. Default: `app` of "
        "[tool.nottwice] in pyproject.toml.",
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
