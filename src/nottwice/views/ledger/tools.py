"""What does `nottwice check` know about tools and about the format of a ledger?"""

from __future__ import annotations

from typing import Annotated, Any

from nottwice.guard.check.report import Finding, ToolReport
from nottwice.guard.upkeep.preview import LedgerFormat
from nottwice.model.data.records import frozen_record
from nottwice.model.replay_class import ReplayClass
from nottwice.views.shape import one_of


@frozen_record(frozen=True, slots=True, kw_only=True)
class FormatView:
    """The format of a ledger."""

    location: Annotated[str, "where the ledger is"]
    kind: Annotated[str, "schema of a database, format of JSON files"]
    found: Annotated[
        int | None, "its number; 0 if nothing is in it yet, null if its store does not tell"
    ]
    known: Annotated[
        int | None, "the number that the next open brings it to, as nottwice writes it, or null"
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class FindingView:
    """One problem with a declaration."""

    level: Annotated[str, "error or warning"]
    text: Annotated[str, "what is wrong"]
    fix: Annotated[str, "what to do about it"]
    place: Annotated[str | None, "file and line, or null"]
    chain: Annotated[tuple[str, ...], "the calls that lead there"]


@frozen_record(frozen=True, slots=True, kw_only=True)
class ToolView:
    """Everything about one tool that its declaration and its code tell."""

    name: Annotated[str, "the name of the tool"]
    place: Annotated[str, "file and line of its function"]
    replay_class: Annotated[ReplayClass, one_of(ReplayClass)]
    is_async: Annotated[bool, "whether it is a coroutine function"]
    result_type: Annotated[str, "what it returns, as annotated"]
    key: Annotated[str | None, "its idempotency key, or null"]
    window_seconds: Annotated[float | None, "how long the upstream remembers a key, or null"]
    verify: Annotated[str | None, "the name of its verify hook, or null"]
    settles_seconds: Annotated[float | None, "how long an attempt may still arrive, or null"]
    time_limit_seconds: Annotated[float | None, "its time limit, or null"]
    retry: Annotated[
        dict[str, Any],
        "`attempts`, `first_seconds`, `factor` and `most_seconds` of its retries",
    ]
    volatile: Annotated[tuple[str, ...], "arguments that do not tell calls apart"]
    once_per: Annotated[tuple[str, ...] | None, "the arguments that alone do, or null"]
    durable: Annotated[bool, "whether a result is durable before it is returned"]
    bound_by: Annotated[tuple[str, ...] | None, "attributes of the instance that do, or null"]
    tags: Annotated[tuple[str, ...], "its tags"]
    approve: Annotated[bool, "whether a person must approve each call"]
    approval_seconds: Annotated[
        float | None, "how long an approval counts, or null for until it is used"
    ]
    repeat: Annotated[str, "whether a model may make the same call again: ask, free or never"]
    parallel: Annotated[bool, "whether its order among the calls of a model reply is free"]
    keep_seconds: Annotated[float | None, "how long its rows are needed, or null"]
    rate: Annotated[str | None, "the name of its rate-limit class, or null"]
    answers: Annotated[
        dict[str, Any],
        "`second_run`, `detection`, `detection_is_free`, `client_retries` in words, and "
        "`retries`: none known, yes or cannot tell",
    ]
    findings: Annotated[
        tuple[FindingView, ...],
        "objects with `level` (error, warning), `text`, `fix`, `place` (file and line, "
        "or null) and `chain` (the calls that lead there)",
    ]


@frozen_record(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a check found."""

    module: Annotated[str | None, "what was imported, or null"]
    format: Annotated[FormatView | None, "that of the ledger, or null; see format"]
    tools: Annotated[tuple[ToolView, ...], "the tools that the import declared, by name; see tool"]
    findings: Annotated[
        tuple[FindingView, ...], "what is wrong with the module as a whole; as in a tool"
    ]
    errors: Annotated[int, "how many errors there are"]
    warnings: Annotated[int, "how many warnings there are"]
    failed: Annotated[bool, "whether the exit code is 3"]


def tool_view(report: ToolReport) -> ToolView:
    """A tool as it is shown."""
    retry, answers = report.retry, report.answers
    return ToolView(
        name=report.name,
        place=report.place,
        replay_class=report.replay_class,
        is_async=report.is_async,
        result_type=report.result_type,
        key=report.key,
        window_seconds=report.window_seconds,
        verify=report.verify,
        settles_seconds=report.settles_seconds,
        time_limit_seconds=report.time_limit_seconds,
        retry={
            "attempts": retry.attempts,
            "first_seconds": retry.first_seconds,
            "factor": retry.factor,
            "most_seconds": retry.most_seconds,
        },
        volatile=report.volatile,
        once_per=report.once_per,
        durable=report.durable,
        bound_by=report.bound_by,
        tags=report.tags,
        approve=report.approve,
        approval_seconds=report.approval_seconds,
        repeat=report.repeat if report.replay_class.effectful else "free",
        parallel=report.parallel,
        keep_seconds=report.keep_seconds,
        rate=report.rate_class,
        answers={
            "second_run": answers.second_run,
            "detection": answers.detection,
            "detection_is_free": answers.detection_is_free,
            "client_retries": answers.client_retries,
            "retries": answers.retries.value,
        },
        findings=tuple(map(finding_view, report.findings)),
    )


def finding_view(finding: Finding) -> FindingView:
    """A problem as it is shown."""
    return FindingView(
        level=finding.level.value,
        text=finding.text,
        fix=finding.fix,
        place=finding.place,
        chain=tuple(finding.chain),
    )


def format_view(ledger: LedgerFormat) -> FormatView:
    """The format of a ledger as it is shown."""
    return FormatView(
        location=ledger.location, kind=ledger.kind, found=ledger.found, known=ledger.known
    )
