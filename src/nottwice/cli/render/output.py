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
from collections.abc import Collection, Iterable, Iterator, Sequence
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


def show_line(text: str = "", *, style: str | None = None, whole: bool = False) -> None:
    """Print one line that is our own text; what came from elsewhere must be safe already.

    A terminal that is too narrow gets it in several lines, broken between words. ``whole``: it is
    to be copied, so it stays one line, which the terminal breaks where it likes.
    """
    if not _on_terminal():
        _write(text)
        return
    console = _console(sys.stdout)
    indent = len(text) - len(text.lstrip())
    if whole or indent >= console.width:
        _print_styled(text, style, sys.stdout)
        return
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(Text(text.strip(), style=style or ""), (0, 0, 0, indent)))


def show_command(what_for: str, command: str) -> None:
    """Print a command to type, and before it what it is for: on one line if both fit."""
    command = safe(command)
    line = f"{what_for} {command}"
    if _on_terminal() and cell_width(line) > _console(sys.stdout).width:
        show_line(what_for)
        line = f"  {command}"
    show_line(line, whole=True)


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


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    cut: Collection[str] = (),
    wrap: Collection[str] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print rows under their headings; in a pipe nothing is cut, wrapped or left out.

    On a terminal, a row is one line. ``cut``, ``wrap`` and ``spare`` name the columns that give way
    if it is narrow; see ``fit``.
    """
    shown = [[safe("" if cell is None else cell) for cell in row] for row in rows]
    if _on_terminal():
        _show_rich_table(columns, shown, cut=cut, wrap=wrap, spare=spare)
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
        show_command("Resume with:", command)
    else:
        show_line("Run your program again: it opens the run and continues it.")


def show_error(text: str) -> None:
    """Print to stderr what went wrong."""
    _complain(f"Error: {safe(text)}")


def show_note(text: str) -> None:
    """Print a remark to stderr, so that it never mixes with what a pipe reads."""
    _complain(safe(text))


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


def cell_width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def _console(stream: TextIO) -> Console:
    from rich.console import Console

    return Console(file=stream, markup=False, highlight=False, emoji=False)


def _print_styled(text: str, style: str | None, stream: TextIO) -> None:
    from rich.text import Text

    _console(stream).print(Text(text, style=style or ""), soft_wrap=True)


def _complain(text: str) -> None:
    """Print to stderr. A terminal gets lines that end between words, unless there is a command in
    them, which can be copied only whole."""
    if sys.stderr.isatty() and "nottwice " not in text:
        from rich.text import Text

        _console(sys.stderr).print(Text(encodable(text, sys.stderr)))
    else:
        click.echo(encodable(text, sys.stderr), err=True)


def _write(text: str) -> None:
    click.echo(encodable(text, sys.stdout))


def _show_rich_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    cut: Collection[str],
    wrap: Collection[str],
    spare: Sequence[str],
) -> None:
    from rich.table import Table
    from rich.text import Text

    from nottwice.cli.render.fitting import GAP, fit

    console = _console(sys.stdout)
    fitted = fit(columns, rows, width=console.width, cut=cut, wrap=wrap, spare=spare)
    table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold")
    for one in fitted:
        table.add_column(
            columns[one.index],
            min_width=one.width,
            max_width=one.width,
            no_wrap=not one.wraps,
            overflow="fold" if one.wraps else "ellipsis",
        )
    for row in rows:
        cells = (row[one.index] for one in fitted)
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in cells))
    # A row of long ids may be wider than the terminal. The terminal wraps it; nothing is cut.
    console.width = max(console.width, sum(one.width + GAP for one in fitted))
    console.print(table)
