"""A bar for people who watch; nothing at all where nobody does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from nottwice.testing.crash.sweep import Progress


@contextlib.contextmanager
def progress_bar(stream: TextIO) -> Iterator[Callable[[Progress], None]]:
    """Give the function that shows how far a sweep has come."""
    console = Console(file=stream)
    if not console.is_terminal:
        yield lambda progress: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def show(progress: Progress) -> None:
            if progress.level not in tasks:
                tasks[progress.level] = bar.add_task(progress.level, total=progress.total)
            wrong = f" ({progress.failed} wrong)" if progress.failed else ""
            bar.update(
                tasks[progress.level],
                completed=progress.done,
                description=f"{progress.level}{wrong}",
            )

        yield show
