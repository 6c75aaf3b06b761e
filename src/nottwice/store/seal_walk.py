"""How does a store find what does not fit in a sealed ledger, and seal existing rows (L9)?

Every SQL store asks the same questions. Promise kept here: P97.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nottwice.errors import KeyMissing, RunBusy, UnknownRun
from nottwice.model.run import RunStatus
from nottwice.model.sealing.seal import Head, head_to_text
from nottwice.store.interface import LEDGER
from nottwice.store.sealing import Sealing, flaws_of_order, flaws_of_run
from nottwice.store.table import Row, Table
from nottwice.store.tables import CALLS, EVENTS, GRAPHS, OF_RUNS, RUNS, TOOLS

_SEALED = tuple(table for table in OF_RUNS if table.is_sealed)
Ask = Callable[[str, dict[str, Any]], list[Any]]
"""Executes the statement of this name and returns the rows that it found."""


def flaws(ask: Ask, workflow_id: str, sealing: Sealing, *, thorough: bool) -> list[str]:
    """What does not add up. ``thorough`` also checks the seal of every row."""
    if workflow_id == LEDGER:
        found = [
            f"run {name!r} no longer exists, but rows of it do"
            for (name,) in sorted(ask("strays", {}))
            if name != LEDGER
        ]
        if thorough:
            found += _flaws_in(sealing, GRAPHS, ask("graphs", {}))
            found += _flaws_in(sealing, TOOLS, ask("tools", {}))
            found += _flaws_in(sealing, EVENTS, ask("early_events", {}))
    else:
        found = _flaws_of_run(ask, workflow_id, sealing)
    return found + list(_flaws_of_rows(ask, workflow_id, sealing) if thorough else ())


def adopt(ask: Ask, workflow_id: str, sealing: Sealing) -> None:
    """Seal everything of a run, or of the ledger itself, as it is now.

    Call it within a transaction.
    """
    if sealing.seals is None:
        raise KeyMissing(
            "Nothing can be sealed without a key. Nothing was changed. Make one: nottwice key"
        )
    if workflow_id == LEDGER:
        _seal(ask, GRAPHS, ask("graphs", {}), sealing)
        _seal(ask, TOOLS, ask("tools", {}), sealing)
        _seal(ask, EVENTS, ask("early_events", {}), sealing)
    else:
        _adopt_run(ask, workflow_id, sealing)
    for table in _SEALED:
        if table is not CALLS:
            _seal(ask, table, _rows_of(ask, table, workflow_id), sealing)


def _rows_of(ask: Ask, table: Table[Any], workflow_id: str) -> list[Any]:
    return ask(f"all_{table.name}_of_run", {"workflow_id": workflow_id})


def _run_and_head(ask: Ask, workflow_id: str) -> tuple[Row, str | None] | None:
    found = ask("run_and_head", {"workflow_id": workflow_id})
    if not found:
        return None
    *run, head = found[0]
    return run, head


def _newest(ask: Ask, workflow_id: str) -> int:
    ((newest,),) = ask("newest_version", {"workflow_id": workflow_id})
    return -1 if newest is None else newest


def _flaws_of_run(ask: Ask, workflow_id: str, sealing: Sealing) -> list[str]:
    found = _run_and_head(ask, workflow_id)
    if found is None:
        return [f"run {workflow_id!r} does not exist"]
    run, head = found
    ((calls, writes),) = ask("totals", {"workflow_id": workflow_id})
    newest = _newest(ask, workflow_id)
    return flaws_of_run(sealing, run, head, calls=calls, writes=int(writes), newest=newest)


def _flaws_of_rows(ask: Ask, workflow_id: str, sealing: Sealing) -> Iterator[str]:
    for table in _SEALED:
        found = _rows_of(ask, table, workflow_id)
        yield from _flaws_in(sealing, table, found)
        if table is CALLS:
            yield from _flaws_of_order(ask, workflow_id, found, sealing)


def _flaws_of_order(
    ask: Ask, workflow_id: str, calls: Sequence[Row], sealing: Sealing
) -> list[str]:
    found = _run_and_head(ask, workflow_id)
    if found is None or RUNS.value(found[0], "status") == RunStatus.REMOVED.value:
        # Retention removed some calls, so the numbers of the remaining ones have gaps.
        return []
    _, head = found
    return flaws_of_order(sealing, workflow_id, [CALLS.value(row, "nth") for row in calls], head)


def _adopt_run(ask: Ask, workflow_id: str, sealing: Sealing) -> None:
    seals = sealing.seals
    assert seals is not None
    found = _run_and_head(ask, workflow_id)
    if found is None:
        raise UnknownRun(f"There is no run {workflow_id!r}. Nothing was sealed.")
    run, _ = found
    if RUNS.value(run, "holder_id") is not None:
        raise RunBusy(
            f"Run {workflow_id!r} is being driven, or its process was killed. Nothing was sealed. "
            "Stop the process that drives it, then open the run once more so that it waits.",
            run_id=workflow_id,
        )
    head = Head()
    given: list[str] = []
    for nth, row in enumerate(_rows_of(ask, CALLS, workflow_id), 1):
        sealed = sealing.put(CALLS, CALLS.changed(row, nth=nth))
        ask("mark_tool_call_results", CALLS.named(sealed))
        given.append(CALLS.value(sealed, "seal"))
        head = head._replace(rows=nth, writes=head.writes + CALLS.value(row, "writes"))
    status = RunStatus(RUNS.value(run, "status"))
    head = head._replace(
        version=_newest(ask, workflow_id),
        ended=status.value if status.is_final else "",
        link=seals.link(Head(), given) if given else "",
    )
    ask("mark_runs", RUNS.named(sealing.put(RUNS, run)))
    head_text = head_to_text(seals.sealed(workflow_id, head))
    ask("put_head", {"head": head_text, "workflow_id": workflow_id})


def _seal(ask: Ask, table: Table[Any], found: Sequence[Row], sealing: Sealing) -> None:
    for row in found:
        ask(f"mark_{table.name}", table.named(sealing.put(table, row)))


def _flaws_in(sealing: Sealing, table: Table[Any], found: Sequence[Row]) -> Iterator[str]:
    for row in found:
        flaw = sealing.flaw(table, row)
        if flaw is not None:
            where = list(table.where(row))
            yield f"a row of {table.name} cannot be trusted: {flaw}, at {where!r}"
