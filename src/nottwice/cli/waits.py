"""What does a run wait for, in words, and what is typed to end that?

A run that waits for a child waits for what the child waits for; that is what somebody can do
something about, so both are told.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import assert_never

from nottwice.cli.inputs.settings import Settings
from nottwice.cli.render.output import utc_text
from nottwice.cli.views import subject_text
from nottwice.model.records import frozen_record
from nottwice.model.review import ReviewStatus
from nottwice.model.run import RunRecord, RunStatus, Wait, WaitKind
from nottwice.store.interface import Store

MOST_DEPTH = 20


@frozen_record(frozen=True, slots=True)
class Reason:
    """One thing that a run waits for."""

    run_id: str
    """The run that waits for it: the one that was asked about, or a child of it."""
    wait: Wait
    text: str
    command: str | None
    """What ends it; None: it ends by itself, or has come already."""


def reasons_of(store: Store, run: RunRecord, settings: Settings) -> list[Reason]:
    """Everything that a waiting run waits for, and what its children wait for."""
    return list(_reasons(store, run, settings, depth=0))


def resume_command(run: RunRecord, settings: Settings) -> str | None:
    """What resumes a run, if a command can: a run of a graph whose code is known.

    A child is resumed by resuming its root, which waits for it.
    """
    if run.graph_id is None or settings.application() is None:
        return None
    return settings.resume_command(run.root_id or run.workflow_id)


def _reasons(store: Store, run: RunRecord, settings: Settings, *, depth: int) -> Iterator[Reason]:
    if run.status is not RunStatus.WAITING:
        return
    for wait in run.waits:
        text, command = _explain(store, run, wait, settings)
        inner: list[Reason] = []
        if wait.kind is WaitKind.CHILD and depth < MOST_DEPTH:
            child = store.load_run(wait.subject)
            if child is not None:
                inner = list(_reasons(store, child, settings, depth=depth + 1))
        # What the child waits for is what somebody can do something about.
        yield Reason(run.workflow_id, wait, text, None if inner else command)
        yield from inner


def _explain(
    store: Store, run: RunRecord, wait: Wait, settings: Settings
) -> tuple[str, str | None]:
    until = f", at most until {_moment(wait)} UTC" if wait.until is not None else ""
    match wait.kind:
        case WaitKind.REVIEW:
            return _explain_review(store, wait.subject, settings)
        case WaitKind.TIMER:
            return f"the timer {wait.subject!r}, due at {_moment(wait)} UTC", None
        case WaitKind.EVENT:
            events = store.events(run.workflow_id, wait.subject)
            if any(event.received_by is None for event in events):
                return f"an event {wait.subject!r}, which has come", None
            words = f"send {shlex.quote(run.workflow_id)} {shlex.quote(wait.subject)}"
            return f"an event {wait.subject!r}{until}", settings.command(words)
        case WaitKind.CHILD:
            return f"child run {wait.subject!r}", settings.command("show", wait.subject)
        case _:
            assert_never(wait.kind)


def _explain_review(store: Store, review_id: str, settings: Settings) -> tuple[str, str | None]:
    review = store.load_review(review_id)
    if review is None:
        return f"review {review_id}, which is gone", None
    if review.status is ReviewStatus.OPEN:
        told = review.summary
        if not review.kind.asks_first:
            told = f"{subject_text(review, store.load_call(review.identity))}: {told}"
        return f"review {review_id}: {told}", settings.command(f"decide {review_id}")
    if review.decision is None:
        return f"review {review_id}, which was closed by {review.closed_by}", None
    decision = review.decision
    return (
        f"review {review_id}, decided {decision.verb.value!r} by {decision.by}: used when the run "
        "is opened again",
        None,
    )


def _moment(wait: Wait) -> str:
    return (utc_text(wait.until) or "").partition(".")[0]
