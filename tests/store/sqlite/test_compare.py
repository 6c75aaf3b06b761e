"""Are calls that a ledger has lost counted, and unknown runs held? (P111)"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nottwice.engine.doubts.restored import mark_of
from nottwice.model.run import Fence
from nottwice.store.interface import Claim, Commit
from nottwice.store.sqlite.compare import compare
from nottwice.store.sqlite.lost import Acknowledged
from nottwice.store.sqlite.store import SqliteStore
from tests.store.samples import NOW, RESULT, follow, intent, pending, run_record


def told(*commits: Commit) -> dict[str, Any]:
    acknowledged = Acknowledged()
    acknowledged.note(commits, [None] * len(commits))
    noted: dict[str, Any] = json.loads(acknowledged.as_text())
    return noted


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def begun(store: SqliteStore) -> tuple[Commit, Commit]:
    """A claim and an intent, as they are committed."""
    record = run_record("run", epoch=1, holder_id=store.holder().holder_id)
    fence = Fence(store.holder().holder_id, 1)
    return Commit(workflow_id="run", claim=Claim(record)), intent(pending(), fence)


def test_a_ledger_that_shows_everything_gets_no_mark(path: Path) -> None:
    store = SqliteStore(path, now=NOW)
    commits = begun(store)
    for commit in commits:
        store.commit(commit)
    assert compare(path, told(*commits)) == 0
    assert mark_of(store) is None
    store.close()


def test_what_is_missing_is_counted_and_a_run_that_is_missing_is_there_again(path: Path) -> None:
    store = SqliteStore(path, now=NOW)
    commits = begun(store)
    assert compare(path, told(*commits)) == 2
    assert mark_of(store) is not None
    assert commits[0].claim is not None
    assert store.runs() == [replace(commits[0].claim.run, holder_id=None)]
    store.close()


def test_a_receipt_of_which_only_the_intent_is_left_is_missing(path: Path) -> None:
    store = SqliteStore(path, now=NOW)
    commits = begun(store)
    for commit in commits:
        store.commit(commit)
    after = pending().done(RESULT, now=NOW)
    fence = Fence(store.holder().holder_id, 1)
    assert compare(path, told(*commits, follow(after, pending(), fence))) == 1
    store.close()


def test_a_commit_that_was_refused_was_not_told_to_be_durable() -> None:
    acknowledged = Acknowledged()
    acknowledged.note([Commit(workflow_id="r")], [ValueError()])
    assert json.loads(acknowledged.as_text()) == {"calls": [], "runs": []}
