"""Does what `gc --json` prints have the fields that the reference page explains?"""

from __future__ import annotations

from collections import Counter

from nottwice.cli.keeping_documents import DOCUMENTS, FIELDS, removed_document
from nottwice.engine.upkeep.retention import Removed, RemovedRun


def test_every_field_is_explained_and_times_are_iso() -> None:
    run = RemovedRun("run", "completed", 1_700_000_000.0, calls=2, calls_left=1, due_at=None)
    removed = Removed(True, unknown_tools=Counter({"z": 1, "a": 2}), named=[run])
    document = removed_document(removed)
    assert {"ledger", *document} == set(DOCUMENTS["gc"])
    assert list(document["unknown_tools"]) == ["a", "z"]
    (shown,) = document["removed_runs"]
    assert set(shown) == set(FIELDS["removed run"])
    assert shown["ended_at"].startswith("2023-11-14T22:13:20")
    assert shown["due_at"] is None
