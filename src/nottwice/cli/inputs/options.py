"""Which options do several commands share? Each is declared once, with one help text."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from nottwice.errors import InvalidTool
from nottwice.model.tool import parse_duration

F = TypeVar("F", bound=Callable[..., Any])


def by_option(command: F) -> F:
    """``--by``: the person on record."""
    text = "The name on record. Default: your login name."
    return click.option("--by", metavar="NAME", help=text)(command)


def why_option(
    help_text: str = "The reason; it is kept.", *, required: bool = False
) -> Callable[[F], F]:
    """``--why``: the reason, which is kept in the audit trail."""
    return click.option("--why", metavar="TEXT", required=required, help=help_text)


def all_option(help_text: str) -> Callable[[F], F]:
    """``--all``: show everything instead of the last part."""
    return click.option("--all", "show_all", is_flag=True, help=help_text)


def quiet_option(help_text: str) -> Callable[[F], F]:
    """``-q``: no progress on stderr."""
    return click.option("-q", "--quiet", is_flag=True, help=help_text)


def json_option(name: str, parameter: str, help_text: str) -> Callable[[F], F]:
    """An option that takes JSON: typed, from stdin, or from a file."""
    text = f"{help_text} As JSON; - reads stdin, @PATH a file."
    return click.option(name, parameter, metavar="JSON", help=text)


def map_option(when: str = "") -> Callable[[F], F]:
    """``--map OLD=NEW``: which node becomes which in another version of a graph."""
    text = "a node that runs are at, and where they continue; once for each node."
    return click.option("--map", "pairs", multiple=True, metavar="OLD=NEW", help=_said(when, text))


def upgrade_option(when: str = "") -> Callable[[F], F]:
    """``--upgrade``: the function that turns an old state into a new one."""
    text = "takes the old state, a dict, and returns that of the new version."
    return click.option("--upgrade", metavar="MODULE:FUNCTION", help=_said(when, text))


def restart_steps_option(when: str = "") -> Callable[[F], F]:
    """``--restart-steps``: waits of a step may start again in another version."""
    text = "let waits of a step start again: timers, questions, answers."
    return click.option("--restart-steps", is_flag=True, help=_said(when, text))


def dry_run_option(command: F) -> F:
    """``--dry-run``: report, and change nothing."""
    text = "Say what would be done, and change nothing."
    return click.option("--dry-run", is_flag=True, help=text)(command)


def _said(when: str, text: str) -> str:
    return f"{when}{text}" if when else text[0].upper() + text[1:]


def login_name() -> str:
    """The user at the keyboard, as far as the system knows."""
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        # A container may run under a number that has no name.
        return f"uid {os.getuid()}"


def read_since(text: str, *, now: float) -> float:
    """A moment from how long ago it was, or from a date, in local time unless it says otherwise."""
    try:
        return now - parse_duration(text, what="--since")
    except InvalidTool:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"--since {text!r} is neither a time ago, such as 24h or 7d, nor a date, such as "
            "2026-11-05 or 2026-11-05T08:00."
        ) from None
    return moment.timestamp()
