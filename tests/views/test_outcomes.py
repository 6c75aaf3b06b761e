"""Does the view of a command's outcome contain everything that it did?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import nottwice as nt
from nottwice.engine.upkeep.retention import RemovalReport, RemovedRun
from nottwice.views.documents import DOCUMENTS, SHAPES
from nottwice.views.outcomes import removal_view
from nottwice.views.shape import meanings, to_plain


def test_every_field_is_explained_and_times_are_iso(tmp_path: Path) -> None:
    run = RemovedRun("run", "completed", 1_700_000_000.0, calls=2, calls_left=1, due_at=None)
    removed = RemovalReport(True, unknown_tools=Counter({"z": 1, "a": 2}), named=[run])
    with nt.Ledger(tmp_path / "agent.db") as ledger:
        document = to_plain(removal_view(ledger, removed))
    assert set(document) == set(meanings(DOCUMENTS["gc"]))
    assert list(document["unknown_tools"]) == ["a", "z"]
    (shown,) = document["removed_runs"]
    assert set(shown) == set(meanings(SHAPES["removed run"]))
    assert shown["ended_at"].startswith("2023-11-14T22:13:20")
    assert shown["due_at"] is None
