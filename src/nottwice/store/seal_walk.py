"""Looking for what does not fit in a sealed ledger, and sealing what is there already (L9).

The same questions for every SQL store, written as PostgreSQL wants them; another store says how it
spells where the tables are, what is a parameter, and what tells in which order rows came.
Promise kept here: P97.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nottwice.errors import KeyMissing, RunBusy, UnknownRun
from nottwice.model.run import RunStatus
from nottwice.model.sealing.seal import Head, head_to_text
from nottwice.store import graph_rows, rows
from nottwice.store.interface import LEDGER
from nottwice.store.sealing import (
    AUDIT,
    CALLS,
    COLUMNS,
    EVENTS,
    GRAPHS,
    NAMES,
    RUNS,
    Sealing,
    flaws_of_order,
    flaws_of_run,
    said_of_call,
)

Ask = Callable[[str, Sequence[Any]], list[Any]]
"""Executes a statement and gives the rows that it found."""


_OF_RUN = " WHERE workflow_id = %s"
_ALL_RUNS = " (SELECT workflow_id FROM nottwice.runs)"
_HEAD = "SELECT head FROM nottwice.runs" + _OF_RUN
_RUN = "SELECT " + rows.RUN_COLUMNS + ", head FROM nottwice.runs" + _OF_RUN
_TOTALS = "SELECT count(*), coalesce(sum(writes), 0) FROM nottwice.tool_call_results" + _OF_RUN
_NEWEST = "SELECT max(version) FROM nottwice.checkpoints" + _OF_RUN
_STRAYS = " UNION ".join(
    "".join(("SELECT workflow_id FROM nottwice.", table, " WHERE workflow_id NOT IN", _ALL_RUNS))
    for table in COLUMNS
    if table not in (AUDIT, EVENTS)
)
# A run may be told of an event before it exists; but only a run that exists takes one.
_STRAYS += (
    " UNION SELECT workflow_id FROM nottwice.events WHERE received_by IS NOT NULL"
    " AND workflow_id NOT IN" + _ALL_RUNS
)
_EARLY_EVENTS = "".join(
    ("SELECT ", COLUMNS[EVENTS], " FROM nottwice.events WHERE workflow_id NOT IN", _ALL_RUNS)
)
_GRAPHS = "SELECT " + graph_rows.GRAPH_COLUMNS + " FROM nottwice.graphs"
_ROWS = {
    table: "".join(("SELECT ", columns, " FROM nottwice.", table, _OF_RUN))
    for table, columns in COLUMNS.items()
}
_ROWS[CALLS] += " ORDER BY arrival"
_ALL_COLUMNS = {**COLUMNS, GRAPHS: graph_rows.GRAPH_COLUMNS, RUNS: rows.RUN_COLUMNS}
_KEYS = {
    "tool_call_results": 5,
    "runs": 1,
    "steps": 3,
    "reviews": 2,
    "evidence": 6,
    "audit": 6,
    "charges": 7,
    "checkpoints": 2,
    "events": 2,
    "graphs": 1,
}
"""How many of its first columns tell a row from all others."""
_MARKS = {CALLS: "nth = %s, seal = %s", RUNS: "head = %s, seal = %s"}
_MARK = {
    table: "".join(
        (
            *("UPDATE nottwice.", table, " SET ", _MARKS.get(table, "seal = %s"), " WHERE "),
            " AND ".join(name + " = %s" for name in columns.split(", ")[: _KEYS[table]]),
        )
    )
    for table, columns in _ALL_COLUMNS.items()
}


class SealWalk:
    """The walk for one kind of database. ``spell``: how that writes what is written here."""

    def __init__(self, spell: Callable[[str], str]) -> None:
        self.head = spell(_HEAD)
        self._run, self._totals, self._newest = spell(_RUN), spell(_TOTALS), spell(_NEWEST)
        self._strays, self._graphs = spell(_STRAYS), spell(_GRAPHS)
        self._early_events = spell(_EARLY_EVENTS)
        self._rows = {table: spell(sql) for table, sql in _ROWS.items()}
        self._mark = {table: spell(sql) for table, sql in _MARK.items()}

    def flaws(self, ask: Ask, workflow_id: str, sealing: Sealing, *, thorough: bool) -> list[str]:
        """What does not add up; ``thorough``: and every row that is not believed."""
        if workflow_id == LEDGER:
            flaws = [
                f"run {name!r} is not there any more, and rows of it are"
                for (name,) in sorted(ask(self._strays, ()))
                if name != LEDGER
            ]
            graphs = ask(self._graphs, ()) if thorough else []
            flaws += _flaws_in(sealing, GRAPHS, graphs)
            early = ask(self._early_events, ()) if thorough else []
            flaws += _flaws_in(sealing, EVENTS, early)
        else:
            flaws = self._flaws_of_run(ask, workflow_id, sealing)
        return flaws + list(self._flaws_of_rows(ask, workflow_id, sealing) if thorough else ())

    def adopt(self, ask: Ask, workflow_id: str, sealing: Sealing) -> None:
        """Seal everything of a run, or of the ledger itself, as it is now.

        To be called within a transaction.
        """
        if sealing.seals is None:
            raise KeyMissing(
                "Without a key nothing can be sealed. Nothing was changed. Make one: nottwice key"
            )
        if workflow_id == LEDGER:
            self._seal(ask, GRAPHS, ask(self._graphs, ()), sealing)
            self._seal(ask, EVENTS, ask(self._early_events, ()), sealing)
        else:
            self._adopt_run(ask, workflow_id, sealing)
        for table in COLUMNS:
            if table != CALLS:
                self._seal(ask, table, ask(self._rows[table], (workflow_id,)), sealing)

    def _flaws_of_run(self, ask: Ask, workflow_id: str, sealing: Sealing) -> list[str]:
        found = ask(self._run, (workflow_id,))
        if not found:
            return [f"run {workflow_id!r} is not there"]
        *run, head = found[0]
        calls, writes = ask(self._totals, (workflow_id,))[0]
        newest = ask(self._newest, (workflow_id,))[0][0]
        return flaws_of_run(sealing, run, head, calls=calls, writes=int(writes), newest=newest)

    def _flaws_of_rows(self, ask: Ask, workflow_id: str, sealing: Sealing) -> Iterator[str]:
        for table, sql in self._rows.items():
            found = ask(sql, (workflow_id,))
            yield from _flaws_in(sealing, table, found)
            if table == CALLS:
                yield from self._flaws_of_order(ask, workflow_id, found, sealing)

    def _flaws_of_order(
        self, ask: Ask, workflow_id: str, calls: Sequence[rows.Row], sealing: Sealing
    ) -> list[str]:
        run = ask(self._run, (workflow_id,))
        if not run or run[0][1] == RunStatus.REMOVED.value:
            # What retention has left of it has gaps.
            return []
        return flaws_of_order(sealing, workflow_id, [row[-3] for row in calls], run[0][-1])

    def _adopt_run(self, ask: Ask, workflow_id: str, sealing: Sealing) -> None:
        seals = sealing.seals
        assert seals is not None
        found = ask(self._run, (workflow_id,))
        if not found:
            raise UnknownRun(f"There is no run {workflow_id!r}. Nothing was sealed.")
        *run, _ = found[0]
        if run[3] is not None:
            raise RunBusy(
                f"Run {workflow_id!r} is driven at this moment, or its process was killed. Nothing "
                "was sealed. Stop whoever drives it and open it once more, so that it waits.",
                run_id=workflow_id,
            )
        head = Head()
        given: list[str] = []
        for nth, row in enumerate(ask(self._rows[CALLS], (workflow_id,)), 1):
            seal = seals.seal(CALLS, said_of_call(row, (nth, row[-2])))
            self._put(ask, CALLS, row, nth, seal)
            given.append(seal)
            head = head._replace(rows=nth, writes=head.writes + row[-2])
        newest = ask(self._newest, (workflow_id,))[0][0]
        status = RunStatus(run[1])
        head = head._replace(
            version=-1 if newest is None else newest,
            ended=status.value if status.is_final else "",
            link=seals.link(Head(), given) if given else "",
        )
        head = seals.sealed(workflow_id, head)
        seal = sealing.put(RUNS, tuple(run))[-1]
        self._put(ask, RUNS, run, head_to_text(head), seal)

    def _seal(self, ask: Ask, table: str, found: Sequence[rows.Row], sealing: Sealing) -> None:
        for row in found:
            self._put(ask, table, row, sealing.put(table, tuple(row))[-1])

    def _put(self, ask: Ask, table: str, row: rows.Row, *marks: Any) -> None:
        """Mark the row that begins like this one."""
        ask(self._mark[table], (*marks, *row[: _KEYS[table]]))


def _flaws_in(sealing: Sealing, table: str, found: Sequence[rows.Row]) -> Iterator[str]:
    for row in found:
        flaw = sealing.flaw(table, row)
        if flaw is not None:
            where = list(row[: NAMES.get(table, 2)])
            yield f"a row of {table} is not believed: {flaw}, at {where!r}"
