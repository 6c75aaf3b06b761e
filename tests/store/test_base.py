"""Does a store that says no more than the primitives keep every claim?

That the answers which follow are those of the SQL stores is in `test_agreement.py`.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from nottwice.store.base import StoreBase
from nottwice.store.interface import Store
from nottwice.testing.conformance import StoreConformance
from tests.store.own_store import FolderStore


class TestOwnStore(StoreConformance):
    """The whole suite, with real processes, against a store of sixty lines (P217)."""

    def open_store(self, place: Path, now: float) -> Store:
        return FolderStore(place / "ledger", now=now)


def test_all_but_a_few_primitives_follow() -> None:
    """P217: what a later version asks for has an answer in every store that derives from this."""
    asked = {name for name, _ in inspect.getmembers(Store, inspect.isfunction) if name[0] != "_"}
    assert asked <= set(dir(StoreBase))
    assert len(StoreBase.__abstractmethods__) <= 15
    assert {"records", "all_records"} == StoreBase.__abstractmethods__ - asked
