"""What do `gc`, `backup` and `key` print with `--json`? Shapes, with what every field means."""

from __future__ import annotations

from typing import Any

from nottwice.cli.output import iso_text
from nottwice.engine.upkeep.retention import Removed, RemovedRun
from nottwice.guard.upkeep.backup import Copy
from nottwice.model.review import AuditEntry

_LEDGER = "the absolute path of the ledger"

DOCUMENTS: dict[str, dict[str, str]] = {
    "gc": {
        "ledger": _LEDGER,
        "dry_run": "whether nothing was removed, and the rest says what would be",
        "families": "how many runs were looked at, each with those that it has spawned",
        "removed": "how many `runs` became tombstones, and how many `calls` and `checkpoints` went",
        "still_open": "how many families are old enough, but for a review, a doubt or a process",
        "unknown_tools": "rows that are due and were kept, by the name of their tool: nobody here "
        "knows its `keep`",
        "removed_runs": "the runs that something was removed of, up to a thousand; see removed run",
    },
    "backup": {
        "ledger": _LEDGER,
        "copy": "the absolute path of the copy, or null if none was made",
        "made_at": "when it was made, or null",
        "bytes": "how large it is, or null",
        "held_since": "if the ledger itself is a copy that is not accounted for: when it was made",
    },
    "key": {
        "id": "what the ledger will call the key; it says nothing about it",
        "key": "the key, in base64",
    },
}

FIELDS: dict[str, dict[str, str]] = {
    "removed run": {
        "run_id": "its id, which stays taken",
        "ended_as": "completed, failed, aborted, or removed: an earlier sweep took a part of it",
        "ended_at": "when it ended",
        "calls": "how many rows of it went",
        "calls_left": "how many rows are kept for longer",
        "due_at": "when the next of them may go, or null",
    },
}


def removed_document(removed: Removed) -> dict[str, Any]:
    return {
        "dry_run": removed.dry_run,
        "families": removed.families,
        "removed": {
            "runs": removed.runs,
            "calls": removed.calls,
            "checkpoints": removed.checkpoints,
        },
        "still_open": removed.still_open,
        "unknown_tools": dict(sorted(removed.unknown_tools.items())),
        "removed_runs": [_run_document(run) for run in removed.named],
    }


def _run_document(run: RemovedRun) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "ended_as": run.ended_as,
        "ended_at": iso_text(run.ended_at),
        "calls": run.calls,
        "calls_left": run.calls_left,
        "due_at": iso_text(run.due_at),
    }


def backup_document(copy: Copy | None, mark: AuditEntry | None) -> dict[str, Any]:
    return {
        "copy": None if copy is None else copy.location,
        "made_at": None if copy is None else iso_text(copy.made_at),
        "bytes": None if copy is None else copy.bytes,
        "held_since": None if mark is None else iso_text(mark.at),
    }
