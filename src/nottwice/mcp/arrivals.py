"""Which occurrence of a call is the current one? Those before it are over (P270).

The same call may be made many times: an answer that arrived is over, and the same call again is a
new occurrence. One row per call says which occurrences are over. It is written when an answer has
arrived, before anything further of that client is forwarded, so a process that dies later cannot
take an old answer for a lost one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from typing import Any

from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record
from nottwice.store.visits import Ask, VisitCommit, Visited

ADAPTER = "mcp"

# call_key    the run, tool, arguments and repeat that make a call
# generation  how often retention has removed the run of this call
# over        JSON: all occurrences below the first number are over, and the others that are listed
CREATE = """
CREATE TABLE IF NOT EXISTS nottwice.mcp_arrivals (
  call_key    text NOT NULL PRIMARY KEY,
  generation  bigint NOT NULL,
  over        text NOT NULL
)
"""
FIND = "SELECT generation, over FROM nottwice.mcp_arrivals WHERE call_key = :call_key"
PUT = """
INSERT INTO nottwice.mcp_arrivals (call_key, generation, over)
VALUES (:call_key, :generation, :over)
ON CONFLICT (call_key) DO UPDATE SET generation = excluded.generation, over = excluded.over
"""
# Two processes may change one row. SQLite has one writer at a time.
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(:call_key, 0))"


@frozen_record(frozen=True, slots=True)
class Over:
    """Which occurrences of a call are over."""

    generation: int = 0
    below: int = 0
    others: tuple[int, ...] = ()

    def first_open(self, besides: Collection[int] = ()) -> int:
        """Return the first occurrence that is not over, and not one of these."""
        number = self.below
        while number in self.others or number in besides:
            number += 1
        return number

    def with_over(self, number: int) -> Over:
        """Return this with one more occurrence that is over."""
        if number < self.below or number in self.others:
            return self
        found, below = {*self.others, number}, self.below
        while below in found:
            found.remove(below)
            below += 1
        return Over(self.generation, below, tuple(sorted(found)))


class Arrivals:
    """The occurrences that are over, in one ledger."""

    def __init__(self, store: object) -> None:
        if not isinstance(store, Visited):
            where = getattr(store, "location", type(store).__name__)
            raise UsageError(
                f"{where} cannot keep what arrived at MCP clients: only ledgers on SQLite and "
                "PostgreSQL can. Nothing was opened. Name the path of a SQLite file, or "
                "postgresql://…"
            )
        self._store = store
        self._is_postgres = store.location.startswith("postgresql:")
        self._ready_at = ""
        self._guard = threading.Lock()

    def find(self, call_key: str) -> Over:
        """Return which occurrences of a call are over."""
        self._set_up()
        rows = self._store.look_up(self._store.spell(FIND), {"call_key": call_key})
        return _read(rows)

    def end(self, ended: Collection[tuple[str, int, int]]) -> None:
        """Note that occurrences (call key, generation, number) are over.

        Durable: when it returns.
        """
        self._set_up()

        def write(ask: Ask) -> None:
            for call_key, generation, number in sorted(ended):
                known = self._locked(ask, call_key)
                if known.generation == generation:
                    self._put(ask, call_key, known.with_over(number))

        self._store.commit(VisitCommit(ADAPTER, work=write))

    def renew(self, call_key: str, generation: int) -> None:
        """Begin again with another run: retention has removed the one of this generation.

        Durable: when it returns.
        """
        self._set_up()

        def write(ask: Ask) -> None:
            if self._locked(ask, call_key).generation == generation:
                self._put(ask, call_key, Over(generation + 1))

        self._store.commit(VisitCommit(ADAPTER, work=write))

    def _locked(self, ask: Ask, call_key: str) -> Over:
        if self._is_postgres:
            ask(self._store.spell(LOCK), {"call_key": call_key})
        return _read(ask(self._store.spell(FIND), {"call_key": call_key}))

    def _put(self, ask: Ask, call_key: str, over: Over) -> None:
        written = json.dumps([over.below, *over.others], separators=(",", ":"))
        row = {"call_key": call_key, "generation": over.generation, "over": written}
        ask(self._store.spell(PUT), row)

    def _set_up(self) -> None:
        if self._ready_at == self._store.location:
            return
        with self._guard:
            self._store.commit(
                VisitCommit(ADAPTER, work=lambda ask: ask(self._store.spell(CREATE), {}))
            )
            self._ready_at = self._store.location


def _read(rows: list[Any]) -> Over:
    if not rows:
        return Over()
    generation, text = rows[0]
    below, *others = json.loads(text)
    return Over(generation, below, tuple(others))
