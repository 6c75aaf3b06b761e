"""Three ways of keeping state, killed alike: the table of `nottwice crash --compare`."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import sys
from collections.abc import Iterator, Sequence

from nottwice.cli.render.output import show_json, show_line
from nottwice.testing.compare.comparing import (
    ComparisonRow,
    EveryPoint,
    Killed,
    Report,
    compare,
    summary,
)
from nottwice.testing.compare.tasks import ComparedTask, suite
from nottwice.testing.crash.progress import shown

_HEADS = ("", "runs that resumed", "duplicate effects", "calls made again", "resume", "asked")
_WIDTHS = (16, 19, 19, 18, 9, 5)


def show_comparison(*, seed: int | None, budget_seconds: float | None, as_json: bool) -> bool:
    """Compare, show the table, and return whether nottwice passed."""
    seed = random.randrange(10**6) if seed is None else seed
    tasks = suite()
    with _bar(quiet=as_json) as report:
        killed, every = compare(tasks, seed=seed, budget_seconds=budget_seconds, report=report)
    rows = summary(killed)
    if as_json:
        show_json(to_plain(seed, rows, killed, every))
    else:
        for line in lines(seed, rows, tasks, every):
            show_line(line)
    ours = rows[-1]
    unharmed = ours.duplicates == 0 and ours.survived == ours.tasks
    return unharmed and every.points > 0 and every.wrong == 0


def lines(
    seed: int, rows: Sequence[ComparisonRow], tasks: Sequence[ComparedTask], every: EveryPoint
) -> list[str]:
    """The table as text."""
    families = ", ".join(dict.fromkeys(task.family for task in tasks))
    killed = max(row.tasks for row in rows)
    some = "" if killed == len(tasks) else f"{killed} of "
    said = [f"{some}{len(tasks)} tasks ({families}), each killed once at random, seed {seed}"]
    if some:
        said.append("The budget was over then. All of them: leave out --budget.")
    said.append("")
    said.append(_line(_HEADS))
    said += [_line(_cells(row)) for row in rows]
    said += [
        "",
        "nottwice, killed before and after every commit, effect and verify: "
        f"{every.points:,} points{_left_out(every, tasks)}, {every.wrong} with something wrong, "
        f"at most {every.repeated} calls made again by one kill",
    ]
    if every.first_wrong is not None:
        said += ["", *every.first_wrong.splitlines()]
    said += [
        "",
        "resumed: ended as without the kill, and did not start over. made again: mean and most;",
        "the call under way counts. resume: until it is back where it was, in milliseconds.",
        "asked: how often a person had to say whether something had happened.",
    ]
    return said


def _left_out(every: EveryPoint, tasks: Sequence[ComparedTask]) -> str:
    """What the budget left out, in words."""
    said = "" if every.points >= every.total else f" of {every.total:,}"
    if every.tasks < len(tasks):
        said += f" in {every.tasks} of {len(tasks)} tasks"
    return f"{said} (all without --budget)" if said else ""


def _cells(row: ComparisonRow) -> tuple[str, ...]:
    return (
        row.way,
        f"{row.survived}/{row.tasks}",
        str(row.duplicates),
        f"{row.repeated_mean:.1f}, at most {row.repeated_most}",
        f"{row.resume_seconds_mean * 1000:.0f} ms",
        str(row.people),
    )


def _line(cells: Sequence[str]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True))
    return "  ".join(padded).rstrip()


def to_plain(
    seed: int, rows: Sequence[ComparisonRow], killed: Sequence[Killed], every: EveryPoint
) -> dict[str, object]:
    """The comparison for programs."""
    return {
        "seed": seed,
        "ways": [dataclasses.asdict(row) for row in rows],
        "kills": [dataclasses.asdict(one) for one in killed],
        "everywhere": dataclasses.asdict(every),
    }


@contextlib.contextmanager
def _bar(*, quiet: bool) -> Iterator[Report]:
    if quiet:
        yield lambda what, done, total: None
        return
    with shown(sys.stderr) as show:
        yield lambda what, done, total: show(what, done, total, "")
