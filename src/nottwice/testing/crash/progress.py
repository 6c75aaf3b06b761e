"""Shows progress: a bar on a terminal, elsewhere a line every few seconds."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from nottwice.testing.crash.sweep import SweepProgress

LINE_SECONDS = 2.0
"""How often a line is written where there is no terminal."""
Show = Callable[[str, int, int | None, str], None]
"""Receives what is being done, how many are done, how many there are, and a note."""


@contextlib.contextmanager
def shown(
    stream: TextIO, *, lines: bool = True, now: Callable[[], float] = time.monotonic
) -> Iterator[Show]:
    """Yield the function that shows progress.

    ``lines=False``: show nothing if there is no terminal.
    """
    console = Console(file=stream)
    if not console.is_terminal:
        yield _Lines(stream, now) if lines else _nothing
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(what: str, done: int, total: int | None, note: str) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total)
            bar.update(tasks[what], completed=done, total=total, description=f"{what}{note}")

        yield show


@contextlib.contextmanager
def progress_bar(
    stream: TextIO, *, lines: bool = True
) -> Iterator[Callable[[SweepProgress], None]]:
    """Like ``shown``, for a sweep."""
    with shown(stream, lines=lines) as show:

        def show_sweep(progress: SweepProgress) -> None:
            wrong = f" ({progress.failed} wrong)" if progress.failed else ""
            show(progress.level, progress.done, progress.total, wrong)

        yield show_sweep


class _Lines:
    """Lines for a log. Quick work needs no line in it."""

    def __init__(self, stream: TextIO, now: Callable[[], float]) -> None:
        self._stream = stream
        self._now = now
        self._last = now()

    def __call__(self, what: str, done: int, total: int | None, note: str) -> None:
        at = self._now()
        if at - self._last < LINE_SECONDS:
            return
        self._last = at
        of = "" if total is None else f" of {total:,}"
        # A reader that is gone, like head, must not stop the work.
        with contextlib.suppress(OSError):
            print(f"{what}: {done:,}{of}{note}", file=self._stream, flush=True)


def _nothing(what: str, done: int, total: int | None, note: str) -> None:
    """Show nothing."""
