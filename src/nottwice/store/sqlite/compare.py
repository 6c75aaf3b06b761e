"""Does a ledger still have what was reported as durable? A separate program answers (P111).

``sqlite/lost.py`` starts it and explains why. It reads the noted commits from its standard input,
marks the ledger if anything is missing, and prints how many are missing.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nottwice.errors import StoreError
from nottwice.model.call import CallIdentity
from nottwice.model.review import COPIED, LOST, AuditEntry
from nottwice.model.run import RunRecord
from nottwice.store.interface import LEDGER, Claim, Commit
from nottwice.store.sqlite.store import SqliteStore
from nottwice.store.tables import RUNS

_NOW = "SELECT CAST(strftime('%s', 'now') AS INTEGER) + 1"


def compare(path: Path, told: dict[str, Any]) -> int:
    """Compare, and mark the ledger if anything is missing. Returns how many are missing."""
    store = SqliteStore(path, now=0.0, create=False)
    try:
        runs = [run for run in RUNS.records(told["runs"]) if _is_missing(store, run)]
        missing = len(runs)
        for identity, *state in told["calls"]:
            row = store.load_call(CallIdentity(*identity))
            missing += row is None or [row.status.value, row.attempt_id] != state
        if missing:
            _hold(store, runs, f"{missing} commits of a running process are missing")
    finally:
        store.close()
    return missing


def _is_missing(store: SqliteStore, run: RunRecord) -> bool:
    found = store.load_run(run.workflow_id)
    return found is None or found.epoch < run.epoch


def _hold(store: SqliteStore, runs: Sequence[RunRecord], why: str) -> None:
    """Have every run of the ledger held, including runs that it has forgotten."""
    for run in runs:
        if store.load_run(run.workflow_id) is None:
            # Otherwise it would start again like a new run, and do everything again.
            claim = Claim(replace(run, holder_id=None))
            store.commit(Commit(workflow_id=run.workflow_id, claim=claim))
    ((now,),) = store._read(_NOW, {})
    mark = AuditEntry(LEDGER, now, "nottwice", COPIED, f"{LOST} {secrets.token_hex(4)}", why)
    store.commit(Commit(workflow_id=LEDGER, audit=(mark,)))


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{compare(Path(sys.argv[1]), json.load(sys.stdin))}\n")
    except StoreError as error:
        sys.exit(str(error))
