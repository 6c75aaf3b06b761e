"""What is the state of the ledger, and what should a person do next?

Promises kept here: P171 (the store counts runs; what needs a person is loaded up to a limit), P410
(a row that cannot be trusted is reported, and hides no other), P412 (the most dangerous review is
suggested first).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from typing import Annotated

from nottwice.engine.doubts.restored import is_failover, mark_of
from nottwice.errors import LedgerCorrupt
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.run import RunCount, RunStatus, WaitKind
from nottwice.model.runs.notices import NOTICE_KINDS
from nottwice.model.runs.tally import DECIDED
from nottwice.store.interface import Store
from nottwice.views.commands import CommandLine
from nottwice.views.ledger.workers import counts_of, states_of
from nottwice.views.people.reviews import ReviewView, review_view, unreadable_files
from nottwice.views.run.waits import resume_command
from nottwice.views.runs import (
    INTERRUPTED,
    QUEUED,
    STATES,
    Holders,
    RunView,
    count_states,
    decided_reviews,
    list_runs,
    run_view,
)
from nottwice.views.shape import LEDGER, Timestamp, moment

MOST_LOADED = 20
"""How many reviews, and how many runs that need a person, are loaded; the rest are counted."""
MOST_LOOKED_AT = 1_000
"""How many interrupted runs are read, to tell which of them a worker continues."""
MOST_HINTS = 5
NOT_TOLD_SECONDS = 7 * 86_400.0


@frozen_record(frozen=True, slots=True)
class Hint:
    """A command worth typing now, and the reason."""

    command: str
    reason: str


@frozen_record(frozen=True, slots=True, kw_only=True)
class Overview:
    """The whole ledger in a few figures, with what needs a person."""

    ledger: Annotated[str, LEDGER]
    runs: Annotated[dict[str, int], "how many runs are in each state"]
    reviews: Annotated[
        dict[str, int], "how many reviews are `open`, and `decided` but not used yet"
    ]
    calls_in_doubt: Annotated[
        int | None,
        "how many calls may or may not have taken effect; null if a row cannot be trusted",
    ]
    waiting: Annotated[
        dict[str, int],
        "how many runs wait for a `review`, a `timer`, an `event`, a `child` run; "
        "`decided`: to be opened again, because their review is decided",
    ]
    workers: Annotated[dict[str, int], "how many workers are `alive`, `silent` and `dead`"]
    next: Annotated[tuple[str, ...], "commands worth typing now"]
    copied_at: Annotated[
        Timestamp | None, "if the ledger is a copy that is not accounted for: when it was made"
    ]
    not_told: Annotated[int, "how many notices were not delivered within 7 days: every try failed"]
    unreadable: Annotated[
        tuple[str, ...],
        "what is wrong with each file that cannot be read, and with a call in doubt that is not "
        "believed; the exit code is 3 then",
    ]
    pressing: tuple[ReviewView, ...]
    """The most dangerous reviews that are open, and of these the oldest first."""
    interrupted: tuple[RunView, ...]
    """Those that changed last, without those that a worker continues."""
    ready: tuple[RunView, ...]
    """Waiting runs for which something has arrived; those that changed last."""
    more: int
    """How many more are open, interrupted or ready than are loaded here."""
    failover: str | None
    """What is known about the failover, if one made the copy."""
    hints: tuple[Hint, ...]


def look_over(ledger: Ledger, commands: CommandLine | None = None) -> Overview:
    """Count what is in a ledger, and find what needs a person."""
    store, holders = ledger.store, Holders(ledger.store)
    counts = store.count_runs()
    states = count_states(counts, holders)
    tally = store.tally(now=ledger.clock.now(), only_waiting=True, limit=MOST_LOADED)
    waiting: Counter[str] = Counter()
    for group in tally.groups:
        waiting.update(dict.fromkeys(group.waits, group.runs))
    interrupted, number_interrupted = _interrupted(ledger, states[INTERRUPTED], counts)
    released = states[INTERRUPTED] - number_interrupted
    pressing = tuple(review_view(store, review, holders.tools) for review in tally.reviews)
    ready = tuple(run_view(run, holders) for run in tally.ready)
    number_ready = sum(group.runs for group in tally.groups if group.ready)
    needing = tally.open_reviews + number_interrupted + number_ready
    more = needing - len(pressing) - len(interrupted) - len(ready)
    mark = mark_of(store)
    failover = mark.why if mark is not None and is_failover(mark) else None
    since = ledger.clock.now() - NOT_TOLD_SECONDS
    lost = store.settled_notices(since=since, kinds=NOTICE_KINDS, given_up=True)
    hints = [
        *_hints_for_people(
            pressing, ready, interrupted, decided_reviews(store, ready), more, commands
        ),
        *_other_hints(states, released, failover, commands),
    ]
    in_doubt, flaws = _count_doubts(store)
    files = unreadable_files(store)
    if flaws:
        hints.insert(0, _verifying(commands))
    hints = hints or _quiet_hints(states, in_doubt, len(files), commands)
    return Overview(
        ledger=ledger.location,
        runs={state: states[state] for state in STATES},
        reviews={"open": tally.open_reviews, "decided": tally.decided_reviews},
        calls_in_doubt=in_doubt,
        waiting={kind: waiting[kind] for kind in (*(one.value for one in WaitKind), DECIDED)},
        workers=counts_of(states_of(ledger, holders)),
        next=tuple(hint.command for hint in hints),
        copied_at=moment(None if mark is None else mark.at),
        not_told=len(lost),
        unreadable=(*files, *flaws),
        pressing=pressing,
        interrupted=interrupted,
        ready=ready,
        more=more,
        failover=failover,
        hints=tuple(hints),
    )


def _interrupted(
    ledger: Ledger, number: int, counts: Iterable[RunCount]
) -> tuple[tuple[RunView, ...], int]:
    """The interrupted runs that need a person, and how many there are.

    A run that was retried or handed back needs none: it was released, and a worker continues it. If
    very many are interrupted, those of the rest that were released are taken for such runs.
    """
    most = min(number, MOST_LOOKED_AT)
    runs = list(itertools.islice(list_runs(ledger, states=(INTERRUPTED,)), most))
    needing = [run for run in runs if not _is_for_worker(run)]
    if number <= MOST_LOOKED_AT:
        return tuple(needing[:MOST_LOADED]), len(needing)
    released = sum(
        count.runs - count.queued
        for count in counts
        if count.status is RunStatus.RUNNING and count.holder_id is None
    )
    left_released = released - sum(run.holder is None for run in runs)
    return tuple(needing[:MOST_LOADED]), len(needing) + number - len(runs) - left_released


def _is_for_worker(run: RunView) -> bool:
    """Whether a worker continues an interrupted run: no worker takes a fork (P64)."""
    return run.graph is not None and run.holder is None and run.origin is None


def _count_doubts(store: Store) -> tuple[int | None, tuple[str, ...]]:
    """How many calls are in doubt; or None, and why one of their rows cannot be trusted."""
    try:
        return len(store.calls_in_doubt()), ()
    except LedgerCorrupt as error:
        return None, (str(error),)


def _verifying(commands: CommandLine | None) -> Hint:
    line = commands or CommandLine()
    why = "a row of a call in doubt cannot be trusted: this lists everything that does not fit"
    return Hint(line.command("audit --verify"), why)


def _hints_for_people(
    pressing: tuple[ReviewView, ...],
    ready: tuple[RunView, ...],
    interrupted: tuple[RunView, ...],
    decided: frozenset[str],
    more: int,
    commands: CommandLine | None,
) -> list[Hint]:
    """What needs a person; reviews come first, the most dangerous at the top."""
    line = commands or CommandLine()
    found = [Hint(line.command(f"decide {one.review_id}"), _question(one)) for one in pressing]
    undecided = {review.run_id for review in pressing}
    for run in ready:
        if run.run_id not in undecided:
            is_decided = any(wait.subject in decided for wait in run.waits)
            if is_decided:
                # The run may still need something that the ledger cannot know, so no promise here.
                found.append(_resuming(run, "has its decision", line, then=" to use it"))
            else:
                found.append(_resuming(run, "has what it waited for", line))
    found += [_resuming(run, "was interrupted", line) for run in interrupted]
    # A child is resumed by resuming its root, which may be listed for its own sake.
    distinct = {hint.command: hint for hint in reversed(found)}
    found = list(distinct.values())[::-1]
    more += len(found) - MOST_HINTS
    found = found[:MOST_HINTS]
    if more > 0:
        found.append(Hint(line.command("reviews"), f"… and {more} more that need a person"))
    return found


def _other_hints(
    states: Counter[str], released: int, failover: str | None, commands: CommandLine | None
) -> list[Hint]:
    line, found = commands or CommandLine(), []
    if failover:
        account = line.command("backup --accounted-for --why 'what you looked up'")
        found.append(Hint(account, "says for all runs that what they did since is accounted for"))
    queued = states[QUEUED]
    if queued:
        many = "1 run is queued" if queued == 1 else f"{queued} runs are queued"
        found.append(Hint(line.worker(), f"{many}: a worker starts them in order"))
    if released > 0:
        many = "1 run was" if released == 1 else f"{released} runs were"
        found.append(Hint(line.worker(), f"{many} retried or handed back: a worker continues them"))
    return found


def _quiet_hints(
    states: Counter[str], in_doubt: int | None, unreadable: int, commands: CommandLine | None
) -> list[Hint]:
    """What to look at when no run needs a person."""
    line, failed = commands or CommandLine(), states[RunStatus.FAILED.value]
    if unreadable:
        files = "1 file" if unreadable == 1 else f"{unreadable} files"
        return [Hint(line.command("runs"), f"all runs but those of {files} to repair or restore")]
    if failed:
        many = "1 run failed: run it" if failed == 1 else f"{failed} runs failed: run each"
        look = line.command(f"runs --state {RunStatus.FAILED.value}")
        return [Hint(look, f"{many} again when its cause is fixed")]
    if in_doubt:
        calls = "1 call is" if in_doubt == 1 else f"{in_doubt} calls are"
        until = "until your program makes the same call again"
        return [Hint(line.command("runs"), f"{calls} in doubt {until}")]
    return [Hint(line.command("runs"), "all runs; nothing needs you")]


def _resuming(
    run: RunView, why: str, commands: CommandLine, *, then: str = ", and it continues"
) -> Hint:
    """The command for a run that can continue, and why."""
    command = resume_command(run, commands)
    if command is not None:
        return Hint(command, f"run {run.run_id!r} {why}: this resumes it")
    look = commands.command("show", run.run_id)
    return Hint(look, f"run {run.run_id!r} {why}: run your program again{then}")


def _question(review: ReviewView) -> str:
    if review.kind.asks_first:
        return f"run {review.run_id!r} asks: {review.summary}"
    return f"{review.subject} in run {review.run_id!r}: {review.summary}"
