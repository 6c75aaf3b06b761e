"""What do the JSON documents of `--json` hold? Their shapes, with the meaning of every field.

The fields are a promise to scripts: they are only ever added to. `DOCUMENTS` and `FIELDS` are what
the reference page shows, and a test compares them with what is printed.
"""

from __future__ import annotations

from typing import Any

from nottwice.cli.output import iso_text
from nottwice.cli.views import CallView, Holders, Overview, RunDetails, RunView
from nottwice.guard.check.report import Finding, ToolReport
from nottwice.guard.upkeep.preview import LedgerFormat
from nottwice.model import values
from nottwice.model.asked import words_of
from nottwice.model.call import CallRow, StoredResult
from nottwice.model.failure import Failure
from nottwice.model.review import Decision, Evidence, Review
from nottwice.model.run import StepRecord, Wait
from nottwice.reviews.queue import Case

_LEDGER = "the absolute path of the ledger"

# What each command prints, under the words that come after `nottwice`.
DOCUMENTS: dict[str, dict[str, str]] = {
    "": {
        "ledger": _LEDGER,
        "runs": "how many runs are in each state",
        "reviews": "how many reviews are `open`, and `decided` but not used yet",
        "calls_in_doubt": "how many calls may or may not have taken effect",
        "waiting": "how many runs wait for a `review`, a `timer`, an `event`, a `child` run; "
        "`decided`: for being opened again, because their review is decided",
        "next": "commands worth typing now",
        "copied_at": "if the ledger is a copy that nobody has accounted for: when it was made",
        "unreadable": "what is wrong with each file that cannot be read; the exit code is 3 then",
    },
    "runs": {
        "ledger": _LEDGER,
        "runs": "the runs, last changed first; see run",
        "omitted": "how many more there are; --all prints them",
    },
    "show": {
        "ledger": _LEDGER,
        "run": "see run",
        "waits_for": "the ids of the reviews that hold it up",
        "cut_off": "the ids of the calls during which a process died; empty if none did",
        "steps": "the visits of steps, in the order they began; see step",
        "calls": "the calls, oldest first; see call",
        "reviews": "all reviews of the run; see review",
        "omitted": "how many `calls` and `steps` are not printed; --all prints them",
        "nodes": "the nodes of its graph; see node; empty if it is not a run of a graph",
        "checkpoints": "its saved versions, oldest first; see checkpoint",
        "events": "what it was told, in order of arrival; see told",
        "children": "the runs that it spawned, oldest first; see run",
        "agent": "what an agent said and did; null if it is not a run of one; see agent",
    },
    "reviews": {
        "ledger": _LEDGER,
        "reviews": "the reviews, oldest first; see review",
        "open": "how many of them nobody has decided",
    },
    "decide": {
        "ledger": _LEDGER,
        "review": "the review as it is now; see review",
        "changed": "false if it was decided like this before",
        "next": "what resumes the run",
    },
    "decide, without a verb": {
        "ledger": _LEDGER,
        "review": "see review",
        "call": "see call; null if the call is gone",
        "result_type": "what the tool returns, if --app names it; else null",
        "attempt_is_over": "whether the doubtful attempt is proven to be over",
        "holder": "the process that made the doubtful attempt, or null",
        "holder_life": "alive, dead or not proven",
        "commands": "what can be typed to decide",
    },
    "recheck": {
        "ledger": _LEDGER,
        "rechecked": "the reviews that were asked about; see rechecked",
        "open": "how many reviews nobody has decided, in the whole ledger",
    },
    "send": {
        "ledger": _LEDGER,
        "event": "the event as the run finds it; see event",
    },
    "check": {
        "module": "what was imported, or null",
        "format": "that of the ledger, or null; see format",
        "tools": "the tools that the import declared, by name; see tool",
        "findings": "what is wrong with the module as a whole; as in a tool",
        "errors": "how many errors there are",
        "warnings": "how many warnings there are",
        "failed": "whether the exit code is 3",
    },
}

# What those documents are made of.
FIELDS: dict[str, dict[str, str]] = {
    "format": {
        "location": "where the ledger is",
        "kind": "schema of a database, format of JSON files",
        "found": "its number; 0 if nothing is in it yet",
        "known": "the number that this nottwice writes, to which the next open brings it",
    },
    "run": {
        "run_id": "the id that the user chose",
        "state": "queued, running, interrupted, waiting, completed, failed or aborted",
        "started_at": "when it was first opened",
        "updated_at": "when its state last changed",
        "opened": "how often it was opened",
        "holder": "the process that holds it, or null",
        "holder_life": "alive, dead, not proven, or null",
        "failure": "the error that ended it, or null; see failure",
        "waits": "everything that it waits for; see wait",
        "graph": "the graph that it is bound to, name@version; null if it is not of a graph",
        "version": "the version of the code that it began with; null if it has none",
        "parent": "the run that spawned it, or null",
        "origin": "the run that it was forked from, or null",
    },
    "wait": {
        "kind": "review, timer, event or child",
        "subject": "the review's id, the event's name, the child run's id, or where the timer is",
        "step": "the step that waits",
        "until": "when it ends by itself, or null",
    },
    "step": {
        "step": "its name, with those of the steps around it",
        "visit": "which visit of the step this is",
        "status": "in_progress, done or failed",
        "started_at": "when it began",
        "finished_at": "when it ended, or null",
        "output_file": "the file that it returned as its output, or null",
        "failure": "the error that ended it, or null; see failure",
    },
    "call": {
        "call_id": "stable over attempts; what nt.current_call().id says",
        "tool": "the name of the tool",
        "step": "the step it belongs to; / is outside of any",
        "visit": "which visit of the step",
        "arguments": "the recorded arguments as plain data",
        "replay_class": "pure, idempotent_with_key or unsafe_on_replay",
        "status": "PENDING and UNKNOWN are in doubt; DONE and FAILED are not",
        "started_at": "when its first attempt was recorded",
        "finished_at": "when the last attempt ended, or null",
        "took_seconds": "from the first start to the end, or null",
        "label": "the label of a deliberate repeat, or null",
        "key": "the idempotency key, or null",
        "result": "an object with `kind` (plain, typed, given, not_kept) and `value`, or null",
        "failure": "the error of the last attempt, or null; see failure",
        "retry_at": "when another attempt is due, or null",
        "settled_by": "what ended a doubt: verify or a decision; or null",
        "attempts": "all attempts, oldest first; see attempt",
        "evidence": "what bears on whether it happened; see evidence",
        "reviews": "the ids of the reviews about it",
    },
    "attempt": {
        "attempt": "its number, from 1 on",
        "holder": "the process that made it",
        "started_at": "when its intent was recorded",
        "ended_at": "when it ended, or null",
        "outcome": "done, retryable, poison, ambiguous, unknown, or null while nobody knows",
    },
    "evidence": {
        "at": "when it was noted",
        "source": "who noted it: engine, verify, ownership, recheck, or a holder",
        "text": "what was found",
        "result": "the result that came with it, or null; as in a call",
    },
    "failure": {
        "failure_class": "retryable, poison or ambiguous",
        "error_type": "the type of the exception",
        "message": "its text",
        "retry_after_seconds": "the wait that was asked for, or null",
    },
    "review": {
        "review_id": "what `nottwice decide` takes",
        "run_id": "the run that waits",
        "kind": "in doubt: did it happen? result: what did it return? drift: may effects stay "
        "unasked for? question: what is the answer? approval: may the call be made? "
        "budget: may it take more?",
        "status": "open, decided, used or closed",
        "version": "grows with every change; see --shown-version",
        "call_id": "the call it is about",
        "tool": "the tool of that call",
        "step": "the step of that call",
        "summary": "why a person is needed",
        "opened_at": "since when the run waits",
        "about": "what is asked, or null: of a question or a budget `question`, `options`, "
        "`about`, `answer_type`, `schema`; of an approval `tool`, `args`, `replay_class`, "
        "`lasts_seconds`",
        "verbs": "what can be decided, each with its meaning",
        "decision": "an object with `verb`, `by`, `why`, `at`, `result`, `holder_stopped`; or null",
        "closed_by": "what closed it, or null",
        "closed_at": "when it was closed, or null",
    },
    "event": {
        "event_id": "its own id; the same one sent twice is one event",
        "run_id": "the run that was told",
        "name": "what `nt.receive` asks for",
        "received": "whether the run has taken it already",
        "run_exists": "whether there is such a run yet",
    },
    "rechecked": {
        "answer": "what the verify hook says now, or why it was not asked",
        "resolved": "whether that decided the review",
        "review": "see review",
        "call": "see call; null if the call is gone",
        "result_type": "always null here",
        "attempt_is_over": "as for decide",
        "holder": "as for decide",
        "holder_life": "as for decide",
    },
    "tool": {
        "name": "the name of the tool",
        "place": "file and line of its function",
        "replay_class": "pure, idempotent_with_key or unsafe_on_replay",
        "is_async": "whether it is a coroutine function",
        "result_type": "what it returns, as annotated",
        "key": "its idempotency key, or null",
        "window_seconds": "how long the upstream remembers a key, or null",
        "verify": "the name of its verify hook, or null",
        "settles_seconds": "how long an attempt may still arrive, or null",
        "time_limit_seconds": "its time limit, or null",
        "retry": "`attempts`, `first_seconds`, `factor` and `most_seconds` of its retries",
        "volatile": "arguments that do not tell calls apart",
        "once_per": "the arguments that alone do, or null",
        "durable": "whether a result is durable before it is returned",
        "bound_by": "attributes of the instance that do, or null",
        "tags": "its tags",
        "approve": "whether a person must approve each call",
        "approval_seconds": "how long an approval counts, or null for until it is used",
        "repeat": "whether a model may do the very same again: ask, free or never",
        "parallel": "whether it has no order among the calls of one reply of a model",
        "keep_seconds": "how long its rows are needed, or null",
        "rate": "the name of its rate-limit class, or null",
        "answers": "`second_run`, `detection`, `detection_is_free`, `client_retries` in words, and "
        "`retries`: none known, yes or cannot tell",
        "findings": "objects with `level` (error, warning), `text`, `fix`, `place` (file and line, "
        "or null) and `chain` (the calls that lead there)",
    },
    "error": {
        "type": "the name of the error",
        "message": "what happened, what did not, and what to do",
    },
}


def status_document(overview: Overview, commands: list[str]) -> dict[str, Any]:
    return {
        "ledger": overview.location,
        "runs": overview.states,
        "reviews": {
            "open": overview.open_reviews,
            "decided": overview.decided_reviews,
        },
        "calls_in_doubt": overview.calls_in_doubt,
        "waiting": overview.waiting,
        "next": commands,
        "copied_at": iso_text(overview.copied_at),
        "unreadable": list(overview.unreadable),
    }


def run_document(view: RunView) -> dict[str, Any]:
    run = view.run
    return {
        "run_id": run.workflow_id,
        "state": view.state,
        "started_at": iso_text(run.created_at),
        "updated_at": iso_text(run.updated_at),
        "opened": run.epoch,
        "holder": view.holder,
        "holder_life": None if view.holder_life is None else view.holder_life.value,
        "failure": failure_document(run.failure),
        "waits": [wait_document(wait) for wait in run.waits],
        "graph": run.graph_id,
        "version": run.version,
        "parent": run.parent_id,
        "origin": run.origin,
    }


def wait_document(wait: Wait) -> dict[str, Any]:
    return {
        "kind": wait.kind.value,
        "subject": wait.subject,
        "step": wait.node_id,
        "until": iso_text(wait.until),
    }


def details_document(details: RunDetails) -> dict[str, Any]:
    return {
        "run": run_document(details.view),
        "waits_for": [review.review_id for review in details.waits_for],
        "cut_off": [row.call_id for row in details.cut_off],
        "steps": [step_document(step) for step in details.steps],
        "calls": [call_document(call, details.holders) for call in details.calls],
        "reviews": [review_document(review) for review in details.reviews],
        "omitted": {"calls": details.omitted_calls, "steps": details.omitted_steps},
    }


def step_document(step: StepRecord) -> dict[str, Any]:
    return {
        "step": step.node_id,
        "visit": step.checkpoint_id,
        "status": step.status.value,
        "started_at": iso_text(step.started_at),
        "finished_at": iso_text(step.finished_at),
        "output_file": step.output_file,
        "failure": failure_document(step.failure),
    }


def call_document(call: CallView, holders: Holders) -> dict[str, Any]:
    row = call.row
    took = None if row.finished_at is None else round(row.finished_at - row.created_at, 6)
    return {
        "call_id": row.call_id,
        "tool": row.identity.tool_name,
        "step": row.identity.node_id,
        "visit": row.identity.checkpoint_id,
        "arguments": values.decode_object(row.args_json),
        "replay_class": row.replay_class.value,
        "status": row.status.value,
        "started_at": iso_text(row.created_at),
        "finished_at": iso_text(row.finished_at),
        "took_seconds": took,
        "label": row.label,
        "key": row.key,
        "result": result_document(row.result),
        "failure": failure_document(row.failure),
        "retry_at": iso_text(row.retry_at),
        "settled_by": row.settled_by,
        "attempts": attempt_documents(row, holders),
        "evidence": [evidence_document(item) for item in call.evidence],
        "reviews": [review.review_id for review in call.reviews],
    }


def attempt_documents(row: CallRow, holders: Holders) -> list[dict[str, Any]]:
    past = [
        {
            "attempt": one.attempt,
            "holder": holders.describe(one.holder_id),
            "started_at": iso_text(one.started_at),
            "ended_at": iso_text(one.ended_at),
            "outcome": one.outcome,
        }
        for one in row.past
    ]
    last = {
        "attempt": row.attempt,
        "holder": holders.describe(row.holder_id),
        "started_at": iso_text(row.started_at),
        "ended_at": iso_text(row.finished_at),
        "outcome": outcome_of(row),
    }
    return [*past, last]


def outcome_of(row: CallRow) -> str | None:
    """How the last attempt of a call ended; None: nobody knows."""
    if row.failure is not None:
        return row.failure.failure_class.value
    return "done" if row.result is not None else None


def evidence_document(item: Evidence) -> dict[str, Any]:
    return {
        "at": iso_text(item.at),
        "source": item.source,
        "text": item.text,
        "result": result_document(item.result),
    }


def result_document(result: StoredResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    return {"kind": result.kind.value, "value": values.decode(result.json)}


def failure_document(failure: Failure | None) -> dict[str, Any] | None:
    return None if failure is None else failure.to_plain()


def review_document(review: Review) -> dict[str, Any]:
    return {
        "review_id": review.review_id,
        "run_id": review.identity.workflow_id,
        "kind": review.kind.value,
        "status": review.status.value,
        "version": review.version,
        "call_id": review.call_id,
        "tool": review.identity.tool_name,
        "step": review.identity.node_id,
        "summary": review.summary,
        "opened_at": iso_text(review.opened_at),
        "about": None if review.about is None else values.decode(review.about),
        "verbs": words_of(review),
        "decision": _decision_document(review.decision),
        "closed_by": review.closed_by,
        "closed_at": iso_text(review.closed_at),
    }


def case_document(case: Case, holders: Holders, *, result_type: str | None) -> dict[str, Any]:
    call = None
    if case.row is not None:
        call = call_document(CallView(case.row, case.evidence, (case.review,)), holders)
    return {
        "review": review_document(case.review),
        "call": call,
        "result_type": result_type,
        "attempt_is_over": case.attempt_is_over,
        "holder": None if case.holder is None else case.holder.describe(),
        "holder_life": case.holder_life.value,
    }


def tool_document(report: ToolReport) -> dict[str, Any]:
    retry, answers = report.retry, report.answers
    return {
        "name": report.name,
        "place": report.place,
        "replay_class": report.replay_class.value,
        "is_async": report.is_async,
        "result_type": report.result_type,
        "key": report.key,
        "window_seconds": report.window_seconds,
        "verify": report.verify,
        "settles_seconds": report.settles_seconds,
        "time_limit_seconds": report.time_limit_seconds,
        "retry": {
            "attempts": retry.attempts,
            "first_seconds": retry.first_seconds,
            "factor": retry.factor,
            "most_seconds": retry.most_seconds,
        },
        "volatile": list(report.volatile),
        "once_per": None if report.once_per is None else list(report.once_per),
        "durable": report.durable,
        "bound_by": None if report.bound_by is None else list(report.bound_by),
        "tags": list(report.tags),
        "approve": report.approve,
        "approval_seconds": report.approval_seconds,
        "repeat": report.repeat if report.replay_class.effectful else "free",
        "parallel": report.parallel,
        "keep_seconds": report.keep_seconds,
        "rate": report.rate_class,
        "answers": {
            "second_run": answers.second_run,
            "detection": answers.detection,
            "detection_is_free": answers.detection_is_free,
            "client_retries": answers.client_retries,
            "retries": answers.retries.value,
        },
        "findings": [finding_document(finding) for finding in report.findings],
    }


def format_document(ledger: LedgerFormat) -> dict[str, Any]:
    return {
        "location": ledger.location,
        "kind": ledger.kind,
        "found": ledger.found,
        "known": ledger.known,
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    return {
        "level": finding.level.value,
        "text": finding.text,
        "fix": finding.fix,
        "place": finding.place,
        "chain": list(finding.chain),
    }


def _decision_document(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    return {
        "verb": decision.verb.value,
        "by": decision.by,
        "why": decision.why,
        "at": iso_text(decision.at),
        "result": result_document(decision.result),
        "holder_stopped": decision.holder_stopped,
    }
