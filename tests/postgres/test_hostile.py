"""What is huge, and what looks like SQL, on a real server; the ids are in the conformance suite."""

from __future__ import annotations

from pathlib import Path

import nottwice as nt
from tests.postgres import server
from tests.test_hostile import check_huge


def test_what_is_huge_breaks_no_store(tmp_path: Path) -> None:
    with nt.Ledger(server.ledger_url(tmp_path)) as ledger:
        check_huge(ledger)
