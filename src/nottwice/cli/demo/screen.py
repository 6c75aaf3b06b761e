"""How does the demo print? Short lines, a bar and a table; a claim only if it was observed.

On a terminal there is colour, a moving bar and time to read. Elsewhere it is plain text.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from nottwice.model.data.records import frozen_record
from nottwice.testing.showcase import Shown

WIDTH = 80
SECONDS_TO_READ = 3.0


@frozen_record(frozen=True, slots=True)
class Line:
    """Some tickets together, each killed once: a line of the closing table."""

    agent: str
    killed: str
    shown: Sequence[Shown]

    @property
    def kills(self) -> int:
        return len(self.shown)

    @property
    def refunds(self) -> int:
        return sum(one.refunds for one in self.shown)

    @property
    def mails(self) -> int:
        return sum(one.mails for one in self.shown)

    @property
    def done_twice(self) -> int:
        return sum(one.done_twice for one in self.shown)

    @property
    def lost(self) -> int:
        return sum(one.lost for one in self.shown)


class Screen:
    """What the viewer sees, and which claims did not hold."""

    def __init__(self, *, person: bool) -> None:
        """``person``: whether a person reads this, and can press keys."""
        self.person = person
        self.broken_claims: list[str] = []
        self._console = Console(highlight=False)
        self._console.width = min(self._console.width, WIDTH)

    def say(self, *lines: str) -> None:
        """Print lines of markup; long ones are wrapped."""
        for line in lines:
            self._console.print(line)

    def say_unbroken(self, *lines: str) -> None:
        """Print lines as they are, for copying: paths and commands are never wrapped."""
        for line in lines:
            self._console.print(Text(line), soft_wrap=True)

    def title(self, text: str) -> None:
        self.say("", f"[bold cyan]{text}[/]", "")

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print names and what is known under them, side by side. No markup."""
        grid = Table.grid(padding=(0, 2))
        for name, text in facts:
            # Folded, because the sign for "cut off here" is not in every character set.
            grid.add_row(Text(f"  {name}", overflow="fold"), Text(text, overflow="fold"))
        self._print_trimmed(grid)

    def ask_on_one_line(self, question: str) -> None:
        """Print a question over the last one, if there is one."""
        self._console.print(question, end="\r")

    def claim(self, claim: str, *, holds: bool, text: str = "") -> None:
        """Print what explains a claim if the claim holds. Report and keep one that does not."""
        if not holds:
            self.broken_claims.append(claim)
            self.say(f"[bold red]This did not hold:[/] {claim}")
        elif text:
            self.say(text)

    def give_time_to_read(self) -> None:
        """Wait a little, if a person reads this."""
        if self.person:
            sys.stdout.flush()
            time.sleep(SECONDS_TO_READ)

    def with_progress(self, results: Iterable[Shown], total: int) -> Iterator[Shown]:
        """Pass results on, with a bar that says where the last kill was."""
        with Progress(
            TextColumn(" "),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        ) as progress:
            task = progress.add_task("", total=total)
            for shown in results:
                where = f"killed {shown.errand.die_at}"
                progress.update(task, advance=1, description=where)
                yield shown

    def table(self, lines: Iterable[Line]) -> None:
        """Print the closing table."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("the agent", "killed"):
            table.add_column(name, overflow="fold")
        for name in ("kills", "refunds", "mails", "twice", "lost"):
            table.add_column(name, justify="right", overflow="fold")
        for line in lines:
            counted = (line.kills, line.refunds, line.mails)
            judged = (_coloured(line.done_twice), _coloured(line.lost))
            table.add_row(line.agent, line.killed, *map(str, counted), *judged)
        self._print_trimmed(table)

    def _print_trimmed(self, table: Table) -> None:
        """Print without the blanks that fill a table up to its right edge."""
        with self._console.capture() as captured:
            self._console.print(table)
        for line in captured.get().splitlines():
            self._console.file.write(line.rstrip() + "\n")


def _coloured(mistakes: int) -> str:
    return f"[red]{mistakes}[/]" if mistakes else f"[green]{mistakes}[/]"
