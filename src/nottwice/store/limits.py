"""How do processes on many machines keep one limit? By rows in the ledger's database (P311).

What is in progress has a row under its meter. A new one is counted and added in one transaction,
in which the meter is locked. The row ends when the call or the run does. If its process was killed,
the row counts until the death of the process is proven or its lease runs out. Time is that of the
database, where it has a clock. A limit is no part of the record: it delays, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from nottwice.model.run import Life
from nottwice.model.runs.limits import LimitUse, Meter
from nottwice.store.interface import Commit
from nottwice.store.statements import Parameters, Statements
from nottwice.store.tables import micros
from nottwice.store.visits import Ask, VisitCommit

LOOK_AGAIN_SECONDS = 1.0
"""When to look again if too many are in progress: that one has ended is not told."""
LIMITS = "nottwice.limits"


class Counted(Protocol):
    """A store that keeps limits."""

    def commit(self, commit: Commit) -> None: ...

    def look_up(self, sql: str, parameters: Parameters) -> list[Any]: ...

    def life_of(self, holder_id: str) -> Life: ...


def acquire(
    store: Counted, sql: Statements, use: LimitUse, *, now: float
) -> tuple[float, Meter] | None:
    """Count something that begins. None: it may. Otherwise: in how many seconds to look again, and
    the meter that is full.

    Durable: when it returns None.
    """
    full = _try(store, sql, use, now)
    if full is not None and _free(store, sql, full[1], use.holder_id):
        full = _try(store, sql, use, now)
    return full


def end_use(store: Counted, sql: Statements, use: LimitUse) -> None:
    """Note that something has ended. Durable: when it returns."""
    ended = {"use_id": use.use_id}
    names = [meter.name for meter in use.meters]
    _visit(store, lambda ask: [ask(sql["end_use"], {**ended, "meter": name}) for name in names])


def _try(store: Counted, sql: Statements, use: LimitUse, now: float) -> tuple[float, Meter] | None:
    told: list[tuple[float, Meter]] = []

    def work(ask: Ask) -> None:
        told.clear()
        ask(sql["limits_table"], {})
        for name in sorted({meter.name for meter in use.meters}):
            ask(sql["lock_meter"], {"meter": name})
        ((at,),) = ask(sql["limits_now"], {"now": micros(now)})
        for meter in use.meters:
            seconds = _seconds_left(ask, sql, use, meter, at)
            if seconds > 0:
                told.append((seconds, meter))
        for meter in use.meters if not told else ():
            row = {"meter": meter.name, "use_id": use.use_id, "holder_id": use.holder_id, "at": at}
            ask(sql["add_use"], {**row, "begins": int(use.begins)})

    _visit(store, work)
    return max(told, key=lambda one: one[0], default=None)


def _seconds_left(ask: Ask, sql: Statements, use: LimitUse, meter: Meter, at: int) -> float:
    """In how many seconds there may be room under a meter; 0 if there is."""
    limit, where = meter.limit, {"meter": meter.name, "use_id": use.use_id}
    pace, left = limit.pace, 0.0
    if limit.concurrency is not None:
        ((held,),) = ask(sql["count_held"], where)
        left = LOOK_AGAIN_SECONDS if held >= limit.concurrency else 0.0
    if pace is not None and use.begins:
        number, seconds = pace
        since = at - micros(seconds)
        # The one whose place becomes free: as many as allowed are at least as new.
        found = ask(sql["nth_newest"], {**where, "since": since, "skipped": number - 1})
        if found:
            left = max(left, (found[0][0] - since) / 1_000_000)
        ask(sql["forget_uses"], {"meter": meter.name, "since": since})
    elif pace is None:
        ask(sql["forget_uses"], {"meter": meter.name, "since": at})
    return left


def _free(store: Counted, sql: Statements, meter: Meter, mine: str) -> bool:
    """End what processes that are gone have left in progress. True if there was any."""
    holders = store.look_up(sql["holders_of_uses"], {"meter": meter.name})
    others = [holder_id for (holder_id,) in holders if holder_id != mine]
    gone = [holder_id for holder_id in others if store.life_of(holder_id) is not Life.ALIVE]
    if gone:
        given = [{"meter": meter.name, "holder_id": holder_id} for holder_id in gone]
        _visit(store, lambda ask: [ask(sql["end_uses_of"], one) for one in given])
    return bool(gone)


def _visit(store: Counted, work: Callable[[Ask], object]) -> None:
    store.commit(VisitCommit(LIMITS, work=work))
