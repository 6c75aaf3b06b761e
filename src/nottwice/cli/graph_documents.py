"""What do the JSON documents of `--json` hold about graphs? Shapes, as in `documents.py`.

What all runs have is there; here is what only runs of graphs have: nodes, checkpoints, events.
"""

from __future__ import annotations

from typing import Any

from nottwice.cli.documents import run_document
from nottwice.cli.output import iso_text
from nottwice.cli.views import RunDetails, Standing
from nottwice.engine.upkeep.history import Version
from nottwice.graphs.outcome import NodeMark
from nottwice.model import values
from nottwice.model.run import EventRecord
from nottwice.model.saving.changes import Change
from nottwice.versions.migrate_plan import Migration

_LEDGER = "the absolute path of the ledger"

# What each command prints, under the words that come after `nottwice`.
DOCUMENTS: dict[str, dict[str, str]] = {
    "run": {
        "ledger": _LEDGER,
        "run": "see run",
        "version": "the number of its last checkpoint, or null",
        "state": "the state as of that checkpoint, as plain data",
        "nodes": "the nodes of its graph; see node",
        "next": "what to type next; empty if nothing is left to do",
    },
    "run, with --detach": {
        "ledger": _LEDGER,
        "enqueued": "the graph that the runs are bound to, and how many are new and were known",
    },
    "talk": {
        "ledger": _LEDGER,
        "run": "see run",
        "version": "the number of its last checkpoint",
        "next": "what to type next; empty if it has answered",
        "agent": "what it said and did; see agent. Without MESSAGE, a document for each message",
    },
    "worker": {
        "ledger": _LEDGER,
        "worker": "what was done, in runs; see worker",
    },
    "runs, with --by-version": {
        "ledger": _LEDGER,
        "versions": "every version that has runs or is deployed; see version",
    },
    "lock": {
        "file": "the lock file",
        "graphs": "the graphs in it, name@version",
        "changed": "whether it was written, or was as it is",
    },
    "cancel": {
        "ledger": _LEDGER,
        "run": "the run as it is now; see run",
        "stopped": "false if somebody drives it, and was told to stop before the next node",
    },
    "check, with --smoke": {
        "tool": "the tool",
        "finding": "honours the key, races, ignores the key, or cannot be told",
        "trials": "what was tried; see trial",
        "failed": "whether the exit code is 3",
    },
    "audit": {
        "ledger": _LEDGER,
        "entries": "what was done, oldest first; see entry, which --lines prints one a line",
    },
    "audit, with --verify": {
        "ledger": _LEDGER,
        "key": "the id of the key in use",
        "runs": "how many runs were looked at",
        "flaws": "what does not fit: run_id, empty if it belongs to no run, and flaw, in words",
        "heads": "of every run what its rows add up to, as the log said when it was given up",
    },
    "audit, with --adopt": {
        "ledger": _LEDGER,
        "adopted": "how many runs were sealed",
    },
    "history": {
        "ledger": _LEDGER,
        "run_id": "the run",
        "checkpoints": "its saved versions, oldest first; see checkpoint",
    },
    "history, with --at": {
        "ledger": _LEDGER,
        "run_id": "the run",
        "version": "the version",
        "node": "the node that runs next; null if the run was finished",
        "state": "the state, as plain data",
    },
    "history, with --diff": {
        "ledger": _LEDGER,
        "run_id": "the run",
        "from": "the earlier version",
        "to": "the later version",
        "changes": "what is different in the state; see change",
    },
    "migrate": {
        "ledger": _LEDGER,
        "to": "the version, name@version",
        "dry_run": "whether nothing was changed",
        "migrations": "what became of each run; see migration",
        "refused": "how many of them were refused",
    },
    "fork": {
        "ledger": _LEDGER,
        "run": "the new run; see run",
        "next": "what advances it",
    },
}

# What those documents are made of.
FIELDS: dict[str, dict[str, str]] = {
    "agent": {
        "goal": "what it was to do at first",
        "done_when": "what must be true at the end: `condition` and `evidence`, or null",
        "plan": "the steps that were planned",
        "cursor": "how many of them are done",
        "turns": "how often the model was asked",
        "answer": "what it said when it had finished, or null",
        "value": "the answer as data, if the agent declares its type, or null",
        "spent": "what the replies took: `own` and `with_workers`, each with `usd`, "
        "`unanswered_usd` and so on",
        "conversation": "everything that was said, as plain data, oldest first",
    },
    "trial": {
        "name": "what was tried",
        "finding": "what it found",
        "effects": "how many effects the sandbox showed more than before; one is right",
        "evidence": "what was called and seen, as texts",
    },
    "entry": {
        "at": "when it was done",
        "run_id": "to which run",
        "who": "a person, or `policy` and its name",
        "action": "what was done: `decide approve`, `deny`, `migrate` and so on",
        "subject": "what it is about: a review, a call",
        "why": "the reason that was given",
    },
    "version": {
        "graph": "name@version; null for runs that nt.run opened with a version",
        "version": "the version alone",
        "runs": "how many runs are bound to it",
        "open": "how many of them are neither completed nor aborted",
        "oldest_at": "when the oldest open run began, or null",
        "stand": "how many open runs wait for what, or are in which state",
        "taken_by": "the deployed version that resumes its runs; null: none, or no --app",
        "removal": "safe, open_runs, new_runs, gone, missing, or unknown without --app; without "
        "a graph open_runs or no_open_runs",
    },
    "worker": {
        "taken": "how often a run was taken up",
        "completed": "how often one was completed",
        "waiting": "how often one came to wait",
        "failed": "how often one failed",
        "aborted": "how often one was aborted",
        "handed_back": "how many were given up between two nodes, because it was told to stop",
        "put_off": "how often one could not be advanced and was left for later",
        "at_work": "the ids of runs whose node did not end within --drain",
    },
    "node": {
        "node": "its name",
        "status": "pending, in_progress, done or failed: that of the last visit",
        "visits": "how often it was visited",
        "error": "the error of the last visit, or null",
    },
    "checkpoint": {
        "version": "its number, from 0 on",
        "node": "the node that had just ended; / for the input; where branches met, the next one; "
        "/name@version for a migration to that version",
        "at": "when it was saved",
    },
    "told": {
        "event_id": "its own id; the same one sent twice is one event",
        "name": "what `nt.receive` asks for",
        "data": "what it says",
        "sent_at": "when it was sent",
        "sent_by": "who sent it",
        "received_by": "the id of the call that took it, or null",
        "received_at": "when it was taken, or null",
    },
    "migration": {
        "run_id": "the run",
        "outcome": "migrated, would migrate, already there or refused",
        "from": "the version that it was bound to, or null",
        "mapped": "the nodes that it was at, and those at which it goes on",
        "changes": "what is different in its state; see change",
        "begins_again": "what the new version waits for or asks once more",
        "error": "why it was refused, or null; see error",
    },
    "change": {
        "path": "where in the state",
        "kind": "added, removed or changed",
        "before": "what was there; null if it was added",
        "after": "what is there; null if it was removed",
    },
}


def standing_document(standing: Standing, commands: list[str]) -> dict[str, Any]:
    return {
        "run": run_document(standing.view),
        "version": standing.version,
        "state": standing.state,
        "nodes": [node_document(node) for node in standing.nodes],
        "next": commands,
    }


def graph_parts(details: RunDetails) -> dict[str, Any]:
    """What `nottwice show` tells about a run of a graph, besides its steps and calls."""
    return {
        "nodes": [node_document(node) for node in details.nodes],
        "checkpoints": [checkpoint_document(version) for version in details.checkpoints],
        "events": [told_document(event) for event in details.events],
        "children": [run_document(child) for child in details.children],
    }


def node_document(node: NodeMark) -> dict[str, Any]:
    return {
        "node": node.node,
        "status": node.status,
        "visits": node.visit,
        "error": node.error,
    }


def checkpoint_document(version: Version) -> dict[str, Any]:
    return {"version": version.version, "node": version.node_id, "at": iso_text(version.at)}


def told_document(event: EventRecord) -> dict[str, Any]:
    return {
        "event_id": event.event_id,
        "name": event.name,
        "data": values.decode(event.json),
        "sent_at": iso_text(event.sent_at),
        "sent_by": event.sent_by,
        "received_by": event.received_by,
        "received_at": iso_text(event.received_at),
    }


def migration_document(done: Migration) -> dict[str, Any]:
    error = done.error
    return {
        "run_id": done.run_id,
        "outcome": done.outcome,
        "from": done.old,
        "mapped": dict(done.nodes),
        "changes": [change_document(change) for change in done.changes],
        "begins_again": list(done.begins_again),
        "error": None
        if error is None
        else {"type": type(error).__name__, "message": error.message},
    }


def change_document(change: Change) -> dict[str, Any]:
    return {
        "path": change.path,
        "kind": change.kind.value,
        "before": change.before,
        "after": change.after,
    }
