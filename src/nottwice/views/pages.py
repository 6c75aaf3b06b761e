"""Which runs are on this page of a long list? The address of a page is the whole question.

A page begins where the page before ended, so the hundred-thousandth run costs as much as the first.
Promise kept here: P329.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Annotated

from nottwice.errors import LedgerCorrupt, UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.run import RunRecord, RunStatus, WaitKind
from nottwice.model.runs.labels import Labels, parse_tag, read_labels
from nottwice.model.tool import parse_duration
from nottwice.store.interface import Store
from nottwice.views.commands import CommandLine, ListCommand
from nottwice.views.run.waits import wait_text
from nottwice.views.runs import INTERRUPTED, STATES, RunView, decided_reviews, list_runs
from nottwice.views.shape import LEDGER
from nottwice.views.text import shorten

ROWS = 50
MOST_WAITS = 2
_MOMENT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs are wanted; everything empty means all."""

    prefix: str = ""
    state: str = ""
    graph: str = ""
    tag: str = ""
    group: str = ""
    since: str = ""
    """Only runs that changed within this time: ``1h``, ``7d``."""
    after: str = ""
    """Where the page before ended: its ``next``."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunRow:
    """One run in a list."""

    run: Annotated[RunView, "see run"]
    reason: Annotated[
        str, "the error, the process that died, or what it waits for, in one line; may be empty"
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class RunPage:
    """One page of a list of runs."""

    ledger: Annotated[str, LEDGER]
    rows: Annotated[tuple[RunRow, ...], "the runs, last changed first; see run row"]
    next: Annotated[str | None, "what the next page begins after; null if this is the last"]
    now: float


def page_of_runs(ledger: Ledger, wanted: RunFilter, *, rows: int = ROWS) -> RunPage:
    """One page of runs, last changed first."""
    now = ledger.clock.now()
    found = tuple(itertools.islice(_recent(ledger, wanted, now), rows + 1))
    shown = found[:rows]
    decided = decided_reviews(ledger.store, shown)
    return RunPage(
        ledger=ledger.location,
        rows=tuple(RunRow(run=run, reason=_reason(ledger.store, run, decided)) for run in shown),
        next=_mark(shown[-1]) if len(found) > rows else None,
        now=now,
    )


def runs_command(wanted: RunFilter, commands: CommandLine) -> ListCommand:
    """The command that lists the runs of a page."""
    words = ["runs"]
    for name in ("state", "graph", "tag", "group"):
        if getattr(wanted, name):
            words += [f"--{name}", getattr(wanted, name)]
    return commands.listing(words, wanted.prefix, lacks=["since"] if wanted.since else [])


def _recent(ledger: Ledger, wanted: RunFilter, now: float) -> Iterator[RunView]:
    if wanted.state and wanted.state not in STATES:
        raise UsageError(
            f"{shorten(wanted.state, 40)!r} is not a state of a run. Nothing was read. Choose one "
            f"of: {', '.join(STATES)}."
        )
    since = now - parse_duration(wanted.since, what="The time") if wanted.since else None
    found = list_runs(
        ledger,
        prefix=wanted.prefix,
        states=(wanted.state,) if wanted.state else (),
        graph=wanted.graph or None,
        labels=_labels(wanted),
        before=_begin(wanted.after),
    )
    if since is None:
        return found
    return itertools.takewhile(lambda run: run.updated_at >= since, found)


def _labels(wanted: RunFilter) -> Labels:
    tags = dict([parse_tag(wanted.tag)]) if wanted.tag else {}
    return read_labels(tags, wanted.group or None, what="The runs to list")


def _mark(run: RunView) -> str:
    return f"{float(run.updated_at)!r} {run.run_id}"


def _begin(mark: str) -> RunRecord | None:
    """The place in the list that a page ended at."""
    if not mark:
        return None
    written, _, run_id = mark.partition(" ")
    if not _MOMENT.fullmatch(written) or not run_id:
        raise UsageError(
            f"{shorten(mark, 40)!r} is not a place in a list of runs. Nothing was read. Begin "
            "with the first page."
        )
    at = float(written)
    # Only its id and its time matter: they are the place.
    return RunRecord(run_id, RunStatus.COMPLETED, 1, None, at, at)


def _reason(store: Store, run: RunView, decided: frozenset[str]) -> str:
    if run.failure is not None and not run.waits:
        return shorten(f"{run.failure.error_type}: {run.failure.message}".partition("\n")[0], 160)
    if run.state == INTERRUPTED:
        return f"its process died: {run.holder}" if run.holder else "released in the middle"
    said = []
    for wait in run.waits[:MOST_WAITS]:
        kind = _kind(store, wait.subject) if wait.kind is WaitKind.REVIEW else ""
        said.append(shorten(f"{kind}{wait_text(wait, decided=decided)}", 80))
    more = [f"{len(run.waits) - MOST_WAITS} more"] if len(run.waits) > MOST_WAITS else []
    return ", ".join([*said, *more])


def _kind(store: Store, review_id: str) -> str:
    """The beginning of a reason: what kind of review a run waits for."""
    try:
        review = store.load_review(review_id)
    except LedgerCorrupt:
        return "cannot be trusted: "
    return "" if review is None else f"{review.kind.value}: "
