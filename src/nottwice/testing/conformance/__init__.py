"""Is your store a store? The suite that every nottwice store passes, for authors of stores.

from nottwice.testing.conformance import StoreConformance

class TestMyStore(StoreConformance):
    def open_store(self, place, now):
        return MyStore(place / "ledger", now=now)
"""

from __future__ import annotations

from nottwice.testing.conformance.bench import NotConforming
from nottwice.testing.conformance.others import Other, OtherProcess, OtherStore
from nottwice.testing.conformance.suite import Broken, StoreConformance, check_store, claims_of

__all__ = [
    "Broken",
    "NotConforming",
    "Other",
    "OtherProcess",
    "OtherStore",
    "StoreConformance",
    "check_store",
    "claims_of",
]
