"""What must be true of the ledger and the world, right after a crash and again after the resume?

Each invariant is a function that yields a sentence for everything that it finds wrong. Checking
right after the crash matters, because a resume repairs much of what a broken engine leaves behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from nottwice.errors import NottwiceError
from nottwice.model.call import CallRow, CallStatus
from nottwice.model.data.records import frozen_record
from nottwice.model.review import Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.run import CheckpointRecord, RunStatus, StepRecord, StepStatus, WaitKind
from nottwice.model.runs.places import is_inside, is_run_wide, is_visit_of
from nottwice.model.saving.image import load_image
from nottwice.testing.crash.course import Baseline, Lived
from nottwice.testing.crash.repeating import excess
from nottwice.testing.crash.upstream import CountingUpstream
from nottwice.testing.crash.view import View

UNREADABLE = "unreadable"
_RECORDED_TIMES = ("nottwice.now", "nottwice.sleep", "nottwice.deadline")
"""Rows whose result is a time: an interrupted run reads its clock later, or another clock."""
_WITH_WHAT_WAS_LOST = ("nottwice.allowance",)
"""Rows whose result still counts what lost requests may have cost."""


@frozen_record(frozen=True, slots=True)
class CrashCase:
    """What an invariant checks."""

    view: View
    upstream: CountingUpstream
    baseline: Baseline
    lived: Lived | None = None
    """The life that has just ended. None right after a crash."""
    at_most_repeated: int | None = None
    """How many calls a fault may repeat. None: as many as were in progress."""


@frozen_record(frozen=True, slots=True)
class Invariant:
    """One thing that must be true."""

    name: str
    promise: str
    sentence: str
    check: Callable[[CrashCase], Iterator[str]]
    always: bool
    """Whether it holds at every moment, or only when the work has ended."""


@frozen_record(frozen=True, slots=True)
class Violation:
    """Something that must be true but was not."""

    invariant: str
    promise: str
    text: str
    moment: str
    """``after the crash`` or ``after the resume``."""


def check_after_crash(case: CrashCase) -> list[Violation]:
    """Check everything that must hold at any moment."""
    return _check(case, "after the crash", [one for one in INVARIANTS if one.always])


def check_after_resume(case: CrashCase) -> list[Violation]:
    """Check everything that must hold once the work has ended."""
    return _check(case, "after the resume", list(INVARIANTS))


def _check(case: CrashCase, moment: str, invariants: list[Invariant]) -> list[Violation]:
    return [
        Violation(one.name, one.promise, text, moment)
        for one in invariants
        for text in one.check(case)
    ]


# At every moment


def no_effect_twice(case: CrashCase) -> Iterator[str]:
    for call_id, count in Counter(one.call_id for one in case.upstream.effects).items():
        if count > 1:
            (what, *_) = [one.what for one in case.upstream.effects if one.call_id == call_id]
            yield f"{what} took effect {count} times for one call"
    expected = Counter(one.what for one in case.baseline.upstream.effects)
    for what, count in Counter(one.what for one in case.upstream.effects).items():
        if count > expected[what]:
            yield f"{what} took effect {count} times, but {expected[what]} times without a crash"


def intent_before_effect(case: CrashCase) -> Iterator[str]:
    for attempt in case.upstream.attempts:
        row = case.view.row(attempt.call_id)
        if row is None:
            yield f"the world saw attempt {attempt.attempt} of {attempt.tool}, which has no row"
        elif row.attempt < attempt.attempt:
            yield (
                f"the world saw attempt {attempt.attempt} of {attempt.tool}, but the ledger only "
                f"has attempt {row.attempt}"
            )


def receipts_are_true(case: CrashCase) -> Iterator[str]:
    expected = {row.call_id: row for row in case.baseline.lived.after.calls}
    for row in case.view.calls:
        if row.status is not CallStatus.DONE or not row.replay_class.effectful:
            continue
        name = row.identity.tool_name
        if not _took_effect(row, case.upstream):
            yield f"{name} has a receipt, but the world has not seen it"
        known = expected.get(row.call_id)
        if known is not None and known.status is CallStatus.DONE and known.result != row.result:
            yield f"{name} has the receipt {row.result}, but without a crash it is {known.result}"


def receipts_are_kept(case: CrashCase) -> Iterator[str]:
    """A commit that returned is durable (P10), whatever happens to the process or disk then."""
    reported = {call_id for one in case.upstream.writes if one.accepted for call_id in one.done}
    kept = {row.call_id for row in case.view.calls if row.status is CallStatus.DONE}
    for call_id in sorted(reported - kept):
        row = case.view.row(call_id)
        name = call_id[:12] if row is None else row.identity.tool_name
        yield f"the result of {name} was recorded but is missing now"


def rows_and_steps_agree(case: CrashCase) -> Iterator[str]:
    for row in case.view.calls:
        if is_run_wide(row.identity.node_id):
            continue
        around = [step for step in case.view.steps if _contains(step, row)]
        name, where = row.identity.tool_name, row.identity.node_id
        if not around:
            yield f"{name} has a row, but its step {where!r} has no record"
        if row.status.in_doubt and any(step.status is StepStatus.DONE for step in around):
            yield f"{name} is in doubt in a finished step"


def checkpoints_can_be_read(case: CrashCase) -> Iterator[str]:
    for run in case.view.runs:
        chain = [one for one in case.view.checkpoints if one.workflow_id == run.workflow_id]
        if chain and _state_text(chain) == UNREADABLE:
            yield f"the newest checkpoint of run {run.workflow_id!r} cannot be read"


def waits_have_a_reason(case: CrashCase) -> Iterator[str]:
    reviews = {review.review_id: review for review in case.view.reviews}
    for run in case.view.runs:
        if run.status is not RunStatus.WAITING:
            continue
        if not run.waits:
            yield f"run {run.workflow_id!r} waits without a recorded reason"
        for wait in run.waits:
            if wait.kind is WaitKind.REVIEW and wait.subject not in reviews:
                yield f"run {run.workflow_id!r} waits for review {wait.subject}, which is missing"


def decisions_apply_once(case: CrashCase) -> Iterator[str]:
    """A permission allows one attempt. The next attempt has another id and another permission."""
    for (call_id, attempt_id), count in Counter(
        (review.call_id, review.attempt_id)
        for review in case.view.reviews
        if review.kind is ReviewKind.IN_DOUBT and _used_as(review, Verb.DID_NOT_HAPPEN)
    ).items():
        row = case.view.row(call_id)
        if count > 1 or (row is not None and row.attempt_id == attempt_id):
            yield f"a permission for another attempt of call {call_id[:12]} was used but not spent"


def approvals_come_first(case: CrashCase) -> Iterator[str]:
    """An approval applies to the call that was shown, not to the next one like it."""
    kind = ReviewKind.APPROVAL
    asked = {
        one.identity.tool_name for one in case.baseline.lived.after.reviews if one.kind is kind
    }
    allowed = {
        review.call_id
        for review in case.view.reviews
        if review.kind is kind and _used_as(review, Verb.APPROVE)
    }
    for attempt in case.upstream.attempts:
        if attempt.tool in asked and attempt.call_id not in allowed:
            yield f"the world saw {attempt.tool} with {attempt.args}, which was not approved"


def only_the_holder_writes(case: CrashCase) -> Iterator[str]:
    newest: dict[str, int] = {}
    for write in case.upstream.writes:
        if not write.accepted or write.epoch == 0:
            continue
        last = newest.get(write.run_id, 0)
        if write.epoch < last:
            yield (
                f"process {write.process} wrote run {write.run_id!r} with epoch {write.epoch}, "
                f"after epoch {last} had taken over"
            )
        newest[write.run_id] = max(last, write.epoch)


# When the work has ended


def same_world(case: CrashCase) -> Iterator[str]:
    expected = Counter(one.what for one in case.baseline.upstream.effects)
    seen = Counter(one.what for one in case.upstream.effects)
    for what, count in (expected - seen).items():
        yield f"{what} did not take effect ({count} times less than without a crash)"
    for what, count in (seen - expected).items():
        yield f"{what} took effect {count} times more than without a crash"


def same_ledger(case: CrashCase) -> Iterator[str]:
    expected, found = _normal(case.baseline.lived.after), _normal(case.view)
    for what in sorted(expected.keys() | found.keys()):
        if expected.get(what) != found.get(what):
            yield f"{what} is {found.get(what)}, but without a crash it is {expected.get(what)}"


def doubts_are_settled_once(case: CrashCase) -> Iterator[str]:
    expected = {row.call_id: row for row in case.baseline.lived.after.calls}
    for row in case.view.calls:
        known = expected.get(row.call_id)
        name = row.identity.tool_name
        if row.status.in_doubt and not (known is not None and known.status.in_doubt):
            yield f"{name} is still in doubt"
        if not row.replay_class.effectful:
            continue
        said = [
            review
            for review in case.view.reviews
            if review.call_id == row.call_id and _used_as(review, Verb.HAPPENED)
        ]
        by_person = row.settled_by is not None and row.settled_by.startswith("decision")
        if len(said) != by_person:
            yield f"{name} was settled by {row.settled_by}, but {len(said)} decisions say happened"
        if row.settled_by == "verify" and row.call_id not in case.upstream.verified:
            yield f"{name} was settled by verify, which was not called"


def every_run_ends(case: CrashCase) -> Iterator[str]:
    lived, expected = case.lived, case.baseline.lived
    if lived is None:
        return
    if lived.trouble is not None:
        yield lived.trouble
        return
    if lived.ending is None or expected.ending is None:
        yield "the work did not end"
    elif lived.ending.shown != expected.ending.shown:
        yield (
            f"the work {lived.ending.shown} ({lived.ending.text}), but without a crash it "
            f"{expected.ending.shown}"
        )
    for run in case.view.runs:
        if run.holder_id is not None:
            yield f"run {run.workflow_id!r} was not released"


def little_is_done_again(case: CrashCase) -> Iterator[str]:
    found = excess(case.upstream, case.baseline.upstream, at_most=case.at_most_repeated)
    if found is not None:
        yield found


INVARIANTS = (
    Invariant(
        "no effect twice", "P31", "The world sees each effect at most once.", no_effect_twice, True
    ),
    Invariant(
        "intent before effect",
        "P32",
        "Every attempt that the world saw has a row that was durable before it.",
        intent_before_effect,
        True,
    ),
    Invariant(
        "receipts are true",
        "P33",
        "Every call that the ledger calls done took effect, with this result.",
        receipts_are_true,
        True,
    ),
    Invariant(
        "receipts are kept",
        "P10",
        "A result whose commit returned is still there.",
        receipts_are_kept,
        True,
    ),
    Invariant(
        "rows and steps agree",
        "P34",
        "Every row has a record of its step, and a finished step contains no doubt.",
        rows_and_steps_agree,
        True,
    ),
    Invariant(
        "checkpoints can be read",
        "P34",
        "The newest checkpoint of every run can be rebuilt.",
        checkpoints_can_be_read,
        True,
    ),
    Invariant(
        "waits have a reason",
        "P35",
        "A run waits only for something that is on record.",
        waits_have_a_reason,
        True,
    ),
    Invariant(
        "decisions apply once",
        "P35",
        "A person's decision allows one attempt, which uses it up.",
        decisions_apply_once,
        True,
    ),
    Invariant(
        "approvals come first",
        "P25",
        "A call that needs approval reaches the world only after that call was approved.",
        approvals_come_first,
        True,
    ),
    Invariant(
        "only the holder writes",
        "P35",
        "Once a run is taken over, its former holder writes nothing.",
        only_the_holder_writes,
        True,
    ),
    Invariant(
        "same world",
        "P31",
        "The world saw exactly what it sees without a crash: nothing is lost.",
        same_world,
        False,
    ),
    Invariant(
        "same ledger",
        "P33",
        "Runs, receipts, steps and states are those of the uninterrupted run.",
        same_ledger,
        False,
    ),
    Invariant(
        "doubts are settled once",
        "P35",
        "Every doubt ended, by exactly one of receipt, verify and person.",
        doubts_are_settled_once,
        False,
    ),
    Invariant(
        "every run ends",
        "P36",
        "When the faults are over, the work ends as it does without a crash.",
        every_run_ends,
        False,
    ),
    Invariant(
        "little is done again",
        "P160",
        "A fault repeats only the calls that were in progress, or as many as the work allows.",
        little_is_done_again,
        False,
    ),
)


def _took_effect(row: CallRow, upstream: CountingUpstream) -> bool:
    by_key = (row.identity.tool_name, row.key)
    return any(
        one.call_id == row.call_id or (row.key is not None and (one.tool, one.key) == by_key)
        for one in upstream.effects
    )


def _contains(step: StepRecord, row: CallRow) -> bool:
    identity = row.identity
    return (
        identity.workflow_id == step.workflow_id
        and is_inside(identity.node_id, step.node_id)
        and is_visit_of(identity.checkpoint_id, step.checkpoint_id)
    )


def _used_as(review: Review, verb: Verb) -> bool:
    decided = review.decision is not None and review.decision.verb is verb
    return decided and review.status is ReviewStatus.USED


def _state_text(chain: Sequence[CheckpointRecord]) -> str:
    try:
        return repr(load_image(chain)["state"])
    except NottwiceError:
        return UNREADABLE


def _normal(view: View) -> dict[str, str]:
    """Return a ledger without what may differ: times, processes, attempts, reviews."""
    normal: dict[str, str] = {}
    for run in view.runs:
        failure = run.failure.error_type if run.failure is not None else None
        normal[f"run {run.workflow_id}"] = f"{run.status.value}, {failure}, {run.graph_id}"
        chain = [one for one in view.checkpoints if one.workflow_id == run.workflow_id]
        if chain:
            normal[f"state of {run.workflow_id}"] = _state_text(chain)
    for row in view.calls:
        name = f"call {row.identity.tool_name} {row.args_json} in {row.identity.node_id}"
        may_differ = row.identity.tool_name in (*_RECORDED_TIMES, *_WITH_WHAT_WAS_LOST)
        result = "a time or a sum" if may_differ else row.result
        normal[f"{name} ({row.call_id[:12]})"] = f"{row.status.value}, {result}, {row.key}"
    for step in view.steps:
        normal[f"step {step.node_id} at {step.checkpoint_id}"] = step.status.value
    return normal
