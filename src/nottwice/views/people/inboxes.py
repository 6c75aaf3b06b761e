"""What waits for a person in several ledgers, the most dangerous first?

A ledger that cannot be read is named, and hides none of the others. Promise kept here: P356.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Annotated
from urllib.parse import urlsplit

from nottwice.errors import NottwiceError, UsageError
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.review import DANGER
from nottwice.store.postgres.place import is_postgres
from nottwice.views.ledger.pulse import Pulse, feel
from nottwice.views.people.inbox import (
    GROUPS,
    MOST_LEFT,
    MOST_ROWS,
    Inbox,
    InboxFilter,
    InboxRow,
    check_filter,
    read_inbox,
)
from nottwice.views.shape import LEDGER

_ODD = re.compile(r"[^A-Za-z0-9._-]+")


@frozen_record(frozen=True, slots=True, kw_only=True)
class LedgerCounts:
    """One ledger of several, and how much waits in it."""

    name: Annotated[str, "its name in addresses"]
    ledger: Annotated[str, LEDGER]
    open: Annotated[int, "how many reviews are undecided in it"]
    doubts: Annotated[int, "how many of them are doubts"]
    decided: Annotated[int, "how many are decided and not used yet"]
    oldest_seconds: Annotated[float | None, "how long its oldest open review has waited, or null"]
    left: Annotated[int, f"how many runs in it are interrupted, up to {MOST_LEFT}"]
    unreadable: Annotated[tuple[str, ...], "what is wrong with each file of it that is not read"]
    error: Annotated[str | None, "why it could not be read, or null"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class NamedRow:
    """One review, and the ledger that it is in."""

    name: Annotated[str, "the name of its ledger in addresses"]
    row: Annotated[InboxRow, "see inbox row"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class SharedInbox:
    """What waits for a person in several ledgers."""

    ledgers: Annotated[tuple[LedgerCounts, ...], "the ledgers, in the order they were named"]
    rows: Annotated[tuple[NamedRow, ...], "what is open in them, the most dangerous first"]
    counts: Annotated[dict[str, int], "how many are open in each group, without the filter"]
    total: Annotated[int, "how many are open, without the filter"]
    omitted: Annotated[int, "how many that fit the filter are not listed"]
    tools: tuple[str, ...]
    """The tools of what is open, for a filter."""
    oldest_seconds: Annotated[float | None, "how long the oldest has waited, or null"]
    now: float


def name_ledgers(locations: Sequence[str]) -> list[str]:
    """Return a short name for each ledger, for addresses; UsageError if one is named twice."""
    twice = [one for one, times in Counter(locations).items() if times > 1]
    if twice:
        raise UsageError(
            f"The ledger {twice[0]} is named more than once. Nothing was started. Name each once."
        )
    short = [_short(one, parents=0) for one in locations]
    names: list[str] = []
    for number, location in enumerate(locations):
        name = short[number]
        if short.count(name) > 1:
            name = _short(location, parents=1)
        known, tries = name, 2
        while name in names:
            name, tries = f"{known}-{tries}", tries + 1
        names.append(name)
    return names


def read_inboxes(ledgers: Mapping[str, Ledger], wanted: InboxFilter | None = None) -> SharedInbox:
    """The reviews that are open in several ledgers, the most dangerous first."""
    wanted = wanted or InboxFilter()
    check_filter(wanted)
    found: dict[str, Inbox | NottwiceError] = {}
    for name, ledger in ledgers.items():
        try:
            found[name] = read_inbox(ledger, wanted)
        except NottwiceError as error:
            found[name] = error
    read = {name: one for name, one in found.items() if isinstance(one, Inbox)}
    rows = [NamedRow(name=name, row=row) for name, one in read.items() for row in one.rows]
    rows.sort(key=lambda one: (DANGER.index(one.row.review.kind), one.row.review.opened_at))
    counts: Counter[str] = Counter()
    for one in read.values():
        counts.update(one.counts)
    waited = [one.oldest_seconds for one in read.values() if one.oldest_seconds is not None]
    return SharedInbox(
        ledgers=tuple(_counts(name, ledgers[name], one) for name, one in found.items()),
        rows=tuple(rows[:MOST_ROWS]),
        counts={name: counts[name] for name in GROUPS},
        total=sum(one.total for one in read.values()),
        omitted=sum(one.omitted for one in read.values()) + max(0, len(rows) - MOST_ROWS),
        tools=tuple(sorted({tool for one in read.values() for tool in one.tools})),
        oldest_seconds=max(waited, default=None),
        # The time of the answer that is the oldest: nothing here is older than that.
        now=min(
            (one.now for one in read.values()),
            default=max(ledger.clock.now() for ledger in ledgers.values()),
        ),
    )


def feel_all(ledgers: Mapping[str, Ledger]) -> Pulse:
    """The pulse of several ledgers; NottwiceError only if none of them can be read."""
    felt: list[Pulse] = []
    marks: list[str] = []
    trouble: NottwiceError | None = None
    for name, ledger in ledgers.items():
        try:
            felt.append(feel(ledger))
            marks.append(f"{name} {felt[-1].mark}")
        except NottwiceError as error:
            trouble = error
            marks.append(f"{name} cannot be read")
    if not felt and trouble is not None:
        raise trouble
    return Pulse(
        at=min(one.at for one in felt),
        open=sum(one.open for one in felt),
        mark=" | ".join(marks),
    )


def _counts(name: str, ledger: Ledger, found: Inbox | NottwiceError) -> LedgerCounts:
    if isinstance(found, NottwiceError):
        return LedgerCounts(
            name=name,
            ledger=ledger.location,
            open=0,
            doubts=0,
            decided=0,
            oldest_seconds=None,
            left=0,
            unreadable=(),
            error=str(found),
        )
    return LedgerCounts(
        name=name,
        ledger=ledger.location,
        open=found.total,
        doubts=found.counts["in doubt"],
        decided=found.decided_total,
        oldest_seconds=found.oldest_seconds,
        left=len(found.left),
        unreadable=found.unreadable,
        error=None,
    )


def _short(location: str, *, parents: int) -> str:
    """The last part of where a ledger is; with ``parents``, also what it is in."""
    if is_postgres(location):
        parts = urlsplit(location)
        words = [parts.hostname or "", parts.path.strip("/")]
    else:
        words = list(PurePath(location).parts)
    chosen = "-".join(word for word in words[-1 - parents :] if word)
    return _ODD.sub("-", chosen).strip("-.") or "ledger"
