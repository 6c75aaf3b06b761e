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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

from nottwice.engine.hiding import hide
from nottwice.model.sealing.secrets import SHOWN
from nottwice.views.shape import to_plain
from nottwice.views.text import safe

if TYPE_CHECKING:
    from rich.console import Console

    from nottwice.cli.render.fitting import FittedColumn

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
    indent = "" if whole else text[: len(text) - len(text.lstrip())]
    lines = [text] if whole else _wrapped(text.strip(), sys.stdout, beside=len(indent))
    for line in lines:
        _print_styled(indent + line, style, sys.stdout)


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
    from rich.text import Text

    console = _console(sys.stdout)
    for name, value in shown:
        label = f"  {name.ljust(width)}  "
        for line in _wrapped(value, sys.stdout, beside=len(label)):
            fact = Text.assemble((label, "dim"), (line, _STYLES.get(value, "")))
            console.print(fact, soft_wrap=True)
            label = " " * len(label)


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    cut: Collection[str] = (),
    wrap: Collection[str] = (),
    spare: Sequence[str] = (),
    least: Mapping[str, int] | None = None,
    known: Collection[str] = (),
) -> None:
    """Print rows under their headings; in a pipe nothing is cut, wrapped or left out.

    On a terminal, a row is one line. ``cut``, ``wrap`` and ``spare`` name the columns that give way
    if it is narrow, and ``least`` says how far; see ``fit``. ``known``: columns that say what the
    user has typed.
    """
    shown = [[safe("" if cell is None else cell) for cell in row] for row in rows]
    if _on_terminal():
        from nottwice.cli.render.fitting import fit

        kept = [index for index, column in enumerate(columns) if column not in known]
        columns = [columns[index] for index in kept]
        shown = [[row[index] for index in kept] for row in shown]
        width = _console(sys.stdout).width
        fitted = fit(columns, shown, width=width, cut=cut, wrap=wrap, spare=spare, least=least)
        _show_fitted(columns, shown, fitted)
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
    if text.isascii():
        return len(text)
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
    text = encodable(text, sys.stderr)
    wraps = sys.stderr.isatty() and "nottwice " not in text
    for line in _wrapped(text, sys.stderr) if wraps else [text]:
        click.echo(line, err=True)


def _wrapped(text: str, stream: TextIO, *, beside: int = 0) -> list[str]:
    """The lines of a text for a terminal. ``beside``: how many columns something else takes."""
    from nottwice.cli.render.fitting import wrap_words

    return wrap_words(text, _console(stream).width - beside)


def _write(text: str) -> None:
    click.echo(encodable(text, sys.stdout))


def _show_fitted(
    columns: Sequence[str], rows: Sequence[Sequence[str]], fitted: Sequence[FittedColumn]
) -> None:
    from rich.text import Text

    from nottwice.cli.render.fitting import lines_of

    console = _console(sys.stdout)
    for number, row in enumerate((columns, *rows)):
        cells = [row[one.index] for one in fitted]
        styles = [_STYLES.get(cell, "") if number else "bold" for cell in cells]
        for parts in lines_of(cells, fitted):
            line = Text.assemble(*zip(parts, styles, strict=True))
            line.rstrip()
            # A row with a long id or URL is wider than the terminal, which breaks it. It stays one
            # line, so that it can be copied.
            console.print(line, soft_wrap=True)
