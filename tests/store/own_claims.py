"""The whole suite against a third-party store, as a separate process.

    python -m tests.store.own_claims

Every ledger that a process has opened keeps a lock open until the process ends, and the suite opens
hundreds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nottwice.store.interface import Store
from nottwice.testing.conformance import StoreConformance, check_store
from tests.store.own_store import FolderStore


class OwnStore(StoreConformance):
    """Real processes find it by this file."""

    def open_store(self, place: Path, now: float) -> Store:
        store: Store = FolderStore(place / "ledger", now=now)
        return store


if __name__ == "__main__":
    broken = [f"{one.claim}: {one.reason}" for one in check_store(OwnStore)]
    sys.exit("\n".join(broken) or 0)
