"""The version of a run without a graph is kept and compared on PostgreSQL, too."""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from tests.postgres import server


def test_only_code_of_the_same_version_continues_the_run(tmp_path: Path) -> None:
    url = server.ledger_url(tmp_path)
    with nt.Ledger(url) as ledger, ledger.run("r", version="1.2.0"):
        pass
    with nt.Ledger(url) as ledger:
        with pytest.raises(nt.errors.WorkflowVersionMismatch, match=r"began with version 1\.2\.0"):
            ledger.run("r", version="1.3.0").__enter__()
        with ledger.run("r", version="1.2.9"):
            pass
        record = ledger.store.load_run("r")
    assert record is not None
    assert (record.version, record.graph_id, record.epoch) == ("1.2.0", None, 2)
