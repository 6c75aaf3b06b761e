"""What does a process do if its ledger disappears while it is writing to it? (P111)

A person or a tool deleted or replaced the file or its log. Or, where a process cannot hold its own
locks (see ``locks.py``), another process removed the log. SQLite does not notice. All its
connections are stale from then on, also those that read, and closing one would write an old log
over what others have committed since.

SQLite keeps one index of the log per file and process, so a new connection of this process would be
as stale as the old ones. Instead, another process compares what was reported as durable to this
process with what the ledger shows. If anything is missing, the ledger is marked like a restored
copy: its runs are held until a person has accounted for it (P91).
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from nottwice.model.call import CallIdentity, CallStatus
from nottwice.model.run import RunRecord
from nottwice.store.interface import Commit
from nottwice.store.sqlite import locks
from nottwice.store.tables import RUNS

KEPT = 64
LOOK_SECONDS = 60.0

log = logging.getLogger("nottwice")


class Acknowledged:
    """The last calls and claims that were reported as durable to this process."""

    def __init__(self) -> None:
        self._calls: deque[tuple[CallIdentity, CallStatus, str]] = deque(maxlen=KEPT)
        self._runs: dict[str, RunRecord] = {}

    def note(self, commits: Sequence[Commit], outcomes: Sequence[BaseException | None]) -> None:
        """Remember the commits that succeeded. Every commit calls this, so it only appends."""
        for commit, outcome in zip(commits, outcomes, strict=True):
            if outcome is not None:
                continue
            for write in commit.calls:
                row = write.row
                self._calls.append((row.identity, row.status, row.attempt_id))
            if commit.claim is not None:
                self._runs[commit.workflow_id] = commit.claim.run
                if len(self._runs) > KEPT:
                    del self._runs[next(iter(self._runs))]

    def __bool__(self) -> bool:
        return bool(self._calls or self._runs)

    def as_text(self) -> str:
        """The last state of each, as a text for another process."""
        newest = {identity: (status, attempt_id) for identity, status, attempt_id in self._calls}
        calls = [
            (identity, status.value, attempt) for identity, (status, attempt) in newest.items()
        ]
        runs = [RUNS.row(run) for run in self._runs.values()]
        return json.dumps({"calls": calls, "runs": runs})


def stop_using(files: locks.LedgerFiles, acknowledged: Acknowledged) -> str:
    """Use these files no more, and have the runs held if commits are missing.

    Returns what was found, as a text. Durable: the mark, when it returns.
    """
    if not files.stale:
        locks.abandon(files)
        files.remove_index_without_log()
        files.found = _look_again(files.path, acknowledged)
        log.error("the files of ledger %s were removed. %s", files.path, files.found)
    return files.found


def _look_again(path: Path, acknowledged: Acknowledged) -> str:
    """Have another process compare, and mark the ledger if anything is missing."""
    if not acknowledged:
        return "This process has committed nothing. Start it again."
    if not path.exists():
        return "The ledger no longer exists. Put it back, or restore it from a backup."
    # Imported here: no other process needs it, and it takes long to load.
    import subprocess

    words = [sys.executable, "-P", "-m", "nottwice.store.sqlite.compare", os.fspath(path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    try:
        done = subprocess.run(
            words,
            input=acknowledged.as_text(),
            env=environment,
            capture_output=True,
            text=True,
            timeout=LOOK_SECONDS,
            check=True,
        )
        missing = int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return (
            f"It is unknown whether commits are missing ({error}). Have the runs of this ledger "
            "held before you start anything: nottwice backup --restored --why 'its log was removed'"
        )
    if not missing:
        return "None of this process's last commits is missing. Start it again."
    return (
        f"{missing} of the last calls and claims of this process are missing. The runs of this "
        "ledger are held until a person has accounted for that: nottwice reviews"
    )
