"""How is something shown? Tables on a terminal, plain text in a pipe, one JSON document on demand.

Promise: nothing that a run, a tool or a person wrote can steer the terminal. Every text passes
through `safe`, which leaves printable characters on one line; rich gets them as data, never as
markup; JSON is pure ASCII. Rich is imported only where a terminal is written to.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from nottwice.engine.hiding import hide
from nottwice.model.sealing.secrets import SHOWN
from nottwice.views.shape import to_plain
from nottwice.views.text import safe

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {
    "queued": "cyan",
    "interrupted": "bold red",
    "failed": "red",
    "FAILED": "red",
    "error": "bold red",
    "aborted": "red",
    "waiting": "yellow",
    "open": "yellow",
    "warning": "yellow",
    "PENDING": "yellow",
    "UNKNOWN": "yellow",
    "decided": "cyan",
    "running": "cyan",
    "in_progress": "cyan",
    "completed": "green",
    "DONE": "green",
    "done": "green",
}


def show_line(text: str = "", *, style: str | None = None) -> None:
    """Print one line that is our own text; what came from elsewhere must be safe already."""
    if _on_terminal():
        _print_styled(text, style, sys.stdout)
    else:
        _write(text)


def show_progress(text: str, *, style: str | None = None) -> None:
    """Print one line about the progress to stderr, as soon as it is known."""
    if sys.stderr.isatty():
        _print_styled(safe(text), style, sys.stderr)
    else:
        show_note(text)


def show_facts(title: str, facts: Iterable[tuple[str, object]], *, style: str = "bold") -> None:
    """Print a heading and under it pairs of name and value; a value that is None is left out."""
    show_line(safe(title), style=style)
    shown = [(name, safe(value)) for name, value in facts if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    if not _on_terminal():
        for name, value in shown:
            _write(f"  {name.ljust(width)}  {value}".rstrip())
        return
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, min_width=width + 2)
    grid.add_column(overflow="fold")
    for name, value in shown:
        grid.add_row(Text(f"  {name}", style="dim"), Text(value, style=_STYLES.get(value, "")))
    _console(sys.stdout).print(grid)


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under their headings; in a pipe nothing is cut or wrapped."""
    shown = [[safe("" if cell is None else cell) for cell in row] for row in rows]
    if _on_terminal():
        _show_rich_table(columns, shown)
        return
    widths = [
        max(len(column), *(len(row[index]) for row in shown), 0)
        for index, column in enumerate(columns)
    ]
    for row in ([column.upper() for column in columns], *shown):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        _write("  ".join(cells).rstrip())


def show_json(view: Any) -> None:
    """Print a view as one JSON document, with an end of line."""
    text = json.dumps(to_plain(view), ensure_ascii=True, indent=2, allow_nan=False)
    _write(hide(text).replace(SHOWN, json.dumps(SHOWN)[1:-1]))


def show_how_to_resume(command: str | None) -> None:
    """Say what resumes a run: a command, or the user's own program."""
    if command is not None:
        show_line(f"Resume with: {safe(command)}")
    else:
        show_line("Run your program again: it opens the run and continues it.")


def show_error(text: str) -> None:
    """Print to stderr what went wrong."""
    click.echo(f"Error: {encodable(safe(text), sys.stderr)}", err=True)


def show_note(text: str) -> None:
    """Print a remark to stderr, so that it never mixes with what a pipe reads."""
    click.echo(encodable(safe(text), sys.stderr), err=True)


@contextlib.contextmanager
def output_to_stderr() -> Iterator[None]:
    """Let everything that the user's code prints go to stderr, also what its processes print."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        with contextlib.suppress(OSError):
            # One of them may be closed; then nothing is lost either.
            kept = os.dup(1)
            stack.callback(os.close, kept)
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
        yield


def encodable(text: str, stream: Any) -> str:
    """The text with escapes for what the stream's encoding cannot spell."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _on_terminal() -> bool:
    return sys.stdout.isatty()


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream, markup=False, highlight=False, emoji=False)


def _print_styled(text: str, style: str | None, stream: TextIO) -> None:
    from rich.text import Text

    _console(stream).print(Text(text, style=style or ""), soft_wrap=True)


def _write(text: str) -> None:
    click.echo(encodable(text, sys.stdout))


def _show_rich_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    _console(sys.stdout).print(table)
