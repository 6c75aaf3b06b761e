"""What does a run wait for, in words, and which command ends that?

A run that waits for a child waits for what the child waits for. A person can act on the latter, so
both are listed. A child that cannot be read hides nothing else of its parent (P410).
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator
from functools import partial
from typing import assert_never

from nottwice.model.data.records import frozen_record
from nottwice.model.review import ReviewStatus
from nottwice.model.run import RunRecord, RunStatus, Wait, WaitKind
from nottwice.reviews.queue import believed
from nottwice.store.interface import Store
from nottwice.views.commands import CommandLine
from nottwice.views.people.reviews import subject_text
from nottwice.views.runs import RunView, WaitView
from nottwice.views.text import moment_text, second_text

MOST_DEPTH = 20


@frozen_record(frozen=True, slots=True)
class Reason:
    """One thing that a run waits for."""

    run_id: str
    """The run that waits for it: the one that was asked about, or a child of it."""
    kind: WaitKind
    text: str
    command: str | None
    """The command that ends it; None if it ends by itself, or has ended already."""


def reasons_of(store: Store, run_id: str, commands: CommandLine) -> list[Reason]:
    """Everything that a waiting run waits for, and what its children wait for."""
    run = store.load_run(run_id)
    return [] if run is None else list(_reasons(store, run, commands, depth=0))


def resume_command(run: RunView, commands: CommandLine) -> str | None:
    """The command that resumes a run, if it is a run of a graph whose code is known.

    A child is resumed by resuming its root, which waits for it.
    """
    if run.graph is None or not commands.has_app:
        return None
    return commands.resume(run.root or run.run_id)


def wait_text(wait: WaitView, *, decided: Collection[str] = ()) -> str:
    """One reason why a run waits, in words."""
    until = "" if wait.until is None else f" until {moment_text(wait.until)}"
    match wait.kind:
        case WaitKind.REVIEW:
            is_decided = wait.subject in decided
            return f"review {wait.subject}" + (", decided: resume it" if is_decided else "")
        case WaitKind.TIMER:
            return f"timer {wait.subject}{until}"
        case WaitKind.EVENT:
            return f"event {wait.subject}{until}"
        case WaitKind.CHILD:
            return f"child run {wait.subject}"
        case _:
            assert_never(wait.kind)


def _reasons(
    store: Store, run: RunRecord, commands: CommandLine, *, depth: int
) -> Iterator[Reason]:
    if run.status is not RunStatus.WAITING:
        return
    for wait in run.waits:
        text, command = _explain(store, run, wait, commands)
        inner: list[Reason] | None = []
        if wait.kind is WaitKind.CHILD and depth < MOST_DEPTH:
            in_child = partial(_of_child, store, wait.subject, commands, depth=depth + 1)
            inner = believed(in_child, None)
        if inner is None:
            text += ", which cannot be read or trusted"
            inner = []
        # A person can act on what the child waits for.
        yield Reason(run.workflow_id, wait.kind, text, None if inner else command)
        yield from inner


def _of_child(store: Store, child_id: str, commands: CommandLine, *, depth: int) -> list[Reason]:
    child = store.load_run(child_id)
    return [] if child is None else list(_reasons(store, child, commands, depth=depth))


def _explain(
    store: Store, run: RunRecord, wait: Wait, commands: CommandLine
) -> tuple[str, str | None]:
    until = f", at most until {_moment(wait)}" if wait.until is not None else ""
    match wait.kind:
        case WaitKind.REVIEW:
            return _explain_review(store, wait.subject, commands)
        case WaitKind.TIMER:
            return f"the timer {wait.subject!r}, due at {_moment(wait)}", None
        case WaitKind.EVENT:
            events = store.events(run.workflow_id, wait.subject)
            if any(event.received_by is None for event in events):
                return f"an event {wait.subject!r}, which has arrived", None
            words = f"send {shlex.quote(run.workflow_id)} {shlex.quote(wait.subject)}"
            return f"an event {wait.subject!r}{until}", commands.command(words)
        case WaitKind.CHILD:
            return f"child run {wait.subject!r}", commands.command("show", wait.subject)
        case _:
            assert_never(wait.kind)


def _explain_review(store: Store, review_id: str, commands: CommandLine) -> tuple[str, str | None]:
    review = store.load_review(review_id)
    if review is None:
        return f"review {review_id}, which is gone", None
    if review.status is ReviewStatus.OPEN:
        told = review.summary
        if not review.kind.asks_first:
            told = f"{subject_text(review, store.load_call(review.identity))}: {told}"
        return f"review {review_id}: {told}", commands.command(f"decide {review_id}")
    if review.decision is None:
        return f"review {review_id}, which was closed by {review.closed_by}", None
    decision = review.decision
    return (
        f"review {review_id}, decided {decision.verb.value!r} by {decision.by}: used when the run "
        "is opened again",
        None,
    )


def _moment(wait: Wait) -> str:
    return "" if wait.until is None else second_text(wait.until)
