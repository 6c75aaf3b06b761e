"""How does an adapter keep tables of its own beside the ledger, without weakening it?

It visits. A visit is a commit that writes the adapter's tables and nothing else. The store makes it
as it makes every commit: under the same locks, in the same transactions, with the same care after
an error. So the promises about the file hold for a visitor, too (P5, P7, P110, P111), and nothing
is half-written (P255).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol, runtime_checkable

from nottwice.model.data.records import light_record
from nottwice.store.interface import Commit
from nottwice.store.statements import Parameters

Ask = Callable[[str, Parameters], list[Any]]
"""Executes a statement in the transaction of a visit, and returns the rows that it finds."""


@light_record(frozen=True, slots=True)
class VisitCommit(Commit):
    """One transaction in tables that are not the ledger's. Its ``workflow_id`` is the adapter.

    ``work`` may be called several times: if the answer to a COMMIT is lost, it is repeated. So it
    must leave the same rows behind each time. If it raises, nothing is written.
    """

    work: Callable[[Ask], object] = field(kw_only=True, repr=False, compare=False)


@runtime_checkable
class Visited(Protocol):
    """A store that an adapter can visit: one on SQL."""

    location: str

    def spell(self, sql: str) -> str:
        """A statement in the dialect of this database. Tables are written ``nottwice.name`` and
        parameters ``:name``."""

    def look_up(self, sql: str, parameters: Parameters) -> list[Any]:
        """The rows that a statement finds now, in every commit that was reported durable."""

    def commit(self, commit: Commit) -> None:
        """Make a visit. Durable: when it returns."""
