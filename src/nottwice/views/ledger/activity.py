"""What was done in a ledger lately: calls, effects, doubts, and what was answered from receipts?

It reads the runs that changed since a moment, and of each the calls since then, so the cost depends
on what happened and not on the size of the ledger. A reader who cannot wait gives a limit, and is
told whether it was reached. Promise kept here: P330.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from nottwice.engine.stepping.steps import is_note
from nottwice.errors import LedgerCorrupt
from nottwice.guard.ledger import Ledger
from nottwice.guard.upkeep.on_record import runs_in_pages
from nottwice.model.call import CallRow
from nottwice.model.data.records import frozen_record
from nottwice.model.run import RunRecord, RunStatus
from nottwice.model.runs.openings import OpeningEnd, OpeningRecord
from nottwice.store.interface import Store
from nottwice.views.shape import Timestamp

PAGE = 500
BUCKETS = 60


@frozen_record(frozen=True, slots=True, kw_only=True)
class ToolActivity:
    """What was done with one tool."""

    tool: Annotated[str, "the name of the tool"]
    calls: Annotated[int, "how many calls began"]
    effects: Annotated[int, "how many of them may have changed something outside, and are done"]
    in_doubt: Annotated[int, "how many of them are in doubt now"]
    by_verify: Annotated[int, "how many doubts the verify hook has settled"]
    failed: Annotated[int, "how many of them failed"]
    verified: frozenset[str]
    """The ids of the calls whose doubts the verify hook has settled."""


@frozen_record(frozen=True, slots=True, kw_only=True)
class Activity:
    """What was done since a moment."""

    since: Annotated[Timestamp, "from when on it counts"]
    until: Annotated[Timestamp, "when it was read"]
    runs: Annotated[int, "how many runs changed or ran since then"]
    calls: Annotated[int, "how many calls began since then"]
    effects: Annotated[int, "how many effects were done since then"]
    receipts: Annotated[
        int, "how many calls a resumed run asked for again and got from the ledger instead"
    ]
    duplicates: Annotated[
        int, "how many effects were asked for again and not made again: duplicates prevented"
    ]
    tokens_saved: Annotated[int, "the tokens of model replies among them"]
    usd_saved: Annotated[float, "what those replies cost when they were made"]
    resumed: Annotated[int, "how many openings resumed a run"]
    killed: Annotated[int, "how many openings ended because their process died"]
    is_complete: Annotated[bool, "false if there was more than was read"]
    not_believed: Annotated[
        int, "how many runs have calls that cannot be trusted, and are not counted: audit --verify"
    ]
    by_tool: Annotated[
        tuple[ToolActivity, ...], "the same for each tool, by name; see tool activity"
    ]
    effects_over_time: Annotated[
        tuple[int, ...], "the effects in 60 equal parts of the time, oldest first"
    ]
    effects_per_minute: Annotated[float, "effects per minute in the last of these parts"]
    receipts_over_time: Annotated[tuple[int, ...], "the same for calls answered from the ledger"]


class RecentDoings:
    """What may count since a moment: runs, their openings and their calls, up to a limit."""

    def __init__(
        self, ledger: Ledger, seconds: float, *, most_runs: int | None, most_calls: int | None
    ) -> None:
        self._store, self.now = ledger.store, ledger.clock.now()
        self.since = self.now - seconds
        self._most_runs, self._most_calls = most_runs, most_calls
        self.runs = self.calls = 0
        """How many were read."""
        self.is_complete = True
        self.not_believed = 0
        """How many runs have calls that cannot be believed, and are not counted."""

    def read_runs(self) -> Iterator[RunRecord]:
        """The runs that may have done something."""
        for run in _recent_runs(self._store, self.since):
            if self._most_runs is not None and self.runs >= self._most_runs:
                self.is_complete = False
                return
            self.runs += 1
            yield run

    def read_openings(self, run: RunRecord) -> Iterator[OpeningRecord]:
        """The openings of a run that had not ended before the moment."""
        for opening in self._store.openings(run.workflow_id):
            if (opening.ended_at or self.now) >= self.since:
                yield opening

    def read_calls(self, run: RunRecord) -> Iterator[CallRow]:
        """The calls of a run that began since the moment, newest first."""
        for row in self._believed(run):
            if is_note(row):
                continue
            if self._most_calls is not None and self.calls >= self._most_calls:
                self.is_complete = False
                return
            self.calls += 1
            yield row

    def _believed(self, run: RunRecord) -> Iterator[CallRow]:
        """The same, up to a call that cannot be believed: it must not hide other runs (P410)."""
        try:
            yield from _recent_calls(self._store, run.workflow_id, self.since)
        except LedgerCorrupt:
            self.not_believed += 1


def is_done_effect(row: CallRow) -> bool:
    """Whether a call has changed something outside, as far as is known."""
    return row.replay_class.effectful and not row.status.in_doubt and row.failure is None


def has_failed(row: CallRow) -> bool:
    """Whether a call has failed, and is known to."""
    return row.failure is not None and not row.status.in_doubt


def is_verified(row: CallRow) -> bool:
    """Whether the verify hook has settled a doubt about a call."""
    return row.settled_by == "verify"


class _Tally:
    """The figures of one tool while they are counted."""

    def __init__(self) -> None:
        self.calls = self.effects = self.in_doubt = self.failed = 0
        self.verified: set[str] = set()

    def count(self, row: CallRow) -> bool:
        """Count a call; True if it is an effect that is done."""
        self.calls += 1
        is_effect = is_done_effect(row)
        self.effects += is_effect
        self.in_doubt += row.status.in_doubt
        if is_verified(row):
            self.verified.add(row.call_id)
        self.failed += has_failed(row)
        return is_effect


def activity_since(
    ledger: Ledger, seconds: float, *, most_runs: int | None = None, most_calls: int | None = None
) -> Activity:
    """What was done in the last ``seconds``."""
    recent = RecentDoings(ledger, seconds, most_runs=most_runs, most_calls=most_calls)
    since = recent.since
    tools: dict[str, _Tally] = {}
    effects, answers = [0] * BUCKETS, [0] * BUCKETS
    figures = dict.fromkeys(("receipts", "duplicates", "tokens", "resumed", "killed"), 0)
    usd = 0.0

    def bucket(at: float) -> int:
        return min(BUCKETS - 1, max(0, int((at - since) / max(seconds, 1e-9) * BUCKETS)))

    for run in recent.read_runs():
        for opening in recent.read_openings(run):
            figures["resumed"] += has_resumed(opening, since)
            figures["killed"] += was_killed(opening)
            figures["receipts"] += opening.receipts or 0
            figures["duplicates"] += opening.duplicates or 0
            figures["tokens"] += opening.tokens or 0
            usd += opening.usd or 0.0
            answers[bucket(opening.began_at)] += opening.receipts or 0
        for row in recent.read_calls(run):
            if tools.setdefault(row.identity.tool_name, _Tally()).count(row):
                effects[bucket(row.finished_at or row.created_at)] += 1
    return Activity(
        since=Timestamp(since),
        until=Timestamp(recent.now),
        runs=recent.runs,
        calls=recent.calls,
        effects=sum(effects),
        receipts=figures["receipts"],
        duplicates=figures["duplicates"],
        tokens_saved=figures["tokens"],
        usd_saved=round(usd, 6),
        resumed=figures["resumed"],
        killed=figures["killed"],
        is_complete=recent.is_complete,
        not_believed=recent.not_believed,
        by_tool=tuple(_tool(name, tools[name]) for name in sorted(tools)),
        effects_over_time=tuple(effects),
        effects_per_minute=round(effects[-1] / max(seconds / BUCKETS / 60, 1e-9), 3),
        receipts_over_time=tuple(answers),
    )


def has_resumed(opening: OpeningRecord, since: float) -> bool:
    """Whether an opening has resumed its run since a moment."""
    return opening.epoch > 1 and opening.began_at >= since


def was_killed(opening: OpeningRecord) -> bool:
    """Whether an opening ended because its process died."""
    return opening.ended is OpeningEnd.KILLED


def _tool(name: str, tally: _Tally) -> ToolActivity:
    return ToolActivity(
        tool=name,
        calls=tally.calls,
        effects=tally.effects,
        in_doubt=tally.in_doubt,
        by_verify=len(tally.verified),
        failed=tally.failed,
        verified=frozenset(tally.verified),
    )


def _recent_runs(store: Store, since: float) -> Iterator[RunRecord]:
    """The runs that may have done something since a moment.

    The record of a run changes when it is opened and when it is released. In between it is running,
    so the running ones count, whenever they were opened.
    """
    for run in runs_in_pages(store, status=RunStatus.RUNNING):
        yield run
    for run in runs_in_pages(store):
        if run.updated_at < since:
            return
        if run.status is not RunStatus.RUNNING:
            yield run


def _recent_calls(store: Store, run_id: str, since: float) -> Iterator[CallRow]:
    """The calls of a run that began since a moment, newest first."""
    page = store.last_calls(run_id, limit=PAGE)
    while page:
        for row in reversed(page):
            if row.created_at < since:
                return
            yield row
        if len(page) < PAGE:
            return
        page = store.last_calls(run_id, limit=PAGE, before=page[0].identity)
