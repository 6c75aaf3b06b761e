"""Put the servers of an MCP client behind the proxy, or take them out: `nottwice proxy --wrap`.

The person sees what changes before it changes, and is asked. The difference is shown without the
lines around it, because those of a configuration often hold keys.
"""

from __future__ import annotations

import difflib
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from nottwice.cli.inputs.settings import Settings
from nottwice.cli.render.output import show_json, show_line, show_note
from nottwice.mcp.clients.files import (
    Configuration,
    read_configuration,
    unwrapped,
    wrapped,
    write_configuration,
)
from nottwice.mcp.clients.wrapping import ConfigurationEdit, ServerEdit
from nottwice.views.outcomes import ClientEdited
from nottwice.views.text import safe

_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def edit_client(settings: Settings, path: str, *, unwrap: bool = False, yes: bool = False) -> None:
    """Change the configuration of a client, if the person agrees. ``yes``: without asking."""
    configuration = read_configuration(Path(path).expanduser())
    edit = unwrapped(configuration) if unwrap else wrapped(configuration)
    changed = edit.text != configuration.text
    if not settings.as_json:
        for server in edit.servers:
            show_line(_said(server, unwrap))
        _show_difference(configuration, edit)
    if changed and not yes:
        _ask(configuration)
    backup = write_configuration(configuration, edit) if changed else None
    if settings.as_json:
        show_json(_document(configuration, edit, backup))
        return
    file = safe(str(configuration.path))
    if backup is None:
        show_line(f"{file} is unchanged: there is nothing to do.")
        return
    show_line(f"{file} was written. What it was is in {safe(backup.name)}, beside it.")
    show_line("Restart the client, so that it starts its servers again.")
    if not unwrap:
        words = shlex.quote(str(configuration.path))
        show_line(f"To undo it: nottwice proxy --unwrap {safe(words)}")


def _said(server: ServerEdit, unwrap: bool) -> str:
    where = "" if server.project is None else f" of {safe(server.project)}"
    name = f"{safe(server.server)}{where}"
    match server.state:
        case "wrapped":
            return f"{name}: will be started through nottwice"
        case "unwrapped":
            return f"{name}: will be started without nottwice"
        case "already":
            how = "without nottwice" if unwrap else "through nottwice"
            return f"{name}: is started {how} already"
        case "left_alone":
            return f"{name}: stays as it is, because {server.why}"


def _show_difference(configuration: Configuration, edit: ConfigurationEdit) -> None:
    for line in _difference(configuration, edit):
        show_line(safe(line), style=_STYLES.get(line[:1]))


def _difference(configuration: Configuration, edit: ConfigurationEdit) -> Iterator[str]:
    old, new = configuration.text.splitlines(), edit.text.splitlines()
    name = str(configuration.path)
    return difflib.unified_diff(old, new, name, f"{name} (changed)", n=0, lineterm="")


def _ask(configuration: Configuration) -> None:
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"{configuration.path} was not changed: there is no terminal to ask on. To "
            "change it as shown, add: --yes"
        )
    if not click.confirm("Change it?", err=True):
        show_note("Nothing was changed.")
        raise click.exceptions.Exit(2)


def _document(
    configuration: Configuration, edit: ConfigurationEdit, backup: Path | None
) -> ClientEdited:
    return ClientEdited(
        file=str(configuration.path),
        changed=backup is not None,
        backup=None if backup is None else str(backup),
        servers=tuple(asdict(server) for server in edit.servers),
    )
