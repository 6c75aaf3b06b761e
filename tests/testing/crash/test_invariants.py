"""Can every invariant fail? Each is shown one durable state that breaks it, and finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from nottwice.model.call import CallRow, CallStatus, ResultKind, StoredResult
from nottwice.model.review import Decision, Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.run import CheckpointRecord, RunStatus, StepStatus, Wait, WaitKind
from nottwice.testing.crash.course import Baseline, Lab, Lived
from nottwice.testing.crash.invariants import (
    INVARIANTS,
    CrashCase,
    check_after_crash,
    check_after_resume,
)
from nottwice.testing.crash.scenario import Scenario
from nottwice.testing.crash.stage import Stage, StageEnding
from nottwice.testing.crash.upstream import CountingUpstream, UpstreamWrite
from nottwice.testing.crash.view import View
from tests.testing.crash.tools import ANSWERS, agent


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> CrashCase:
    """An uninterrupted run, which breaks nothing."""
    scenario = Scenario(work=agent, tools=ANSWERS)
    lab = Lab(scenario, Stage(scenario), tmp_path_factory.mktemp("lab"))
    moment = lab.new_moment()
    lived = lab.stage.perform_one(lab.live(moment))
    return CrashCase(lived.after, moment.upstream, Baseline(lived, moment.upstream), lived)


def mail_row(view: View) -> CallRow:
    return next(row for row in view.calls if row.identity.tool_name == "kit_mail")


def pay_row(view: View) -> CallRow:
    return next(row for row in view.calls if row.identity.tool_name == "kit_pay")


def with_row(case: CrashCase, changed: CallRow) -> CrashCase:
    rows = tuple(changed if row.identity == changed.identity else row for row in case.view.calls)
    return replace(case, view=replace(case.view, calls=rows))


def with_upstream(case: CrashCase, change: Callable[[CountingUpstream], None]) -> CrashCase:
    upstream = case.upstream.copy()
    change(upstream)
    return replace(case, upstream=upstream)


def with_run(case: CrashCase, status: RunStatus, waits: tuple[Wait, ...]) -> CrashCase:
    (run,) = case.view.runs
    run = replace(run, status=status, waits=waits)
    return replace(case, view=replace(case.view, runs=(run,)))


def used_review(row: CallRow, verb: Verb) -> Review:
    return Review(
        review_id="r1",
        kind=ReviewKind.IN_DOUBT,
        status=ReviewStatus.USED,
        identity=row.identity,
        call_id=row.call_id,
        attempt_id=row.attempt_id,
        summary="",
        opened_at=0.0,
        decision=Decision(verb, "ann", "looked", 0.0),
    )


def happened_twice(case: CrashCase) -> CrashCase:
    return with_upstream(case, lambda world: world.effects.append(world.effects[0]))


def no_row(case: CrashCase) -> CrashCase:
    mail = mail_row(case.view)
    rows = tuple(row for row in case.view.calls if row is not mail)
    return replace(case, view=replace(case.view, calls=rows))


def no_intent_for_the_retry(case: CrashCase) -> CrashCase:
    def retried(world: CountingUpstream) -> None:
        world.attempts.append(replace(world.attempts[-1], attempt=2))

    return with_upstream(case, retried)


def invented(case: CrashCase) -> CrashCase:
    return with_upstream(case, lambda world: world.effects.clear())


def other_result(case: CrashCase) -> CrashCase:
    result = StoredResult(ResultKind.PLAIN, '"something else"')
    return with_row(case, mail_row(case.view)._replace(result=result))


def no_mark(case: CrashCase) -> CrashCase:
    return replace(case, view=replace(case.view, steps=()))


def doubt_in_a_finished_step(case: CrashCase) -> CrashCase:
    return with_row(case, pay_row(case.view)._replace(status=CallStatus.UNKNOWN, result=None))


def unreadable_checkpoint(case: CrashCase) -> CrashCase:
    (run,) = case.view.runs
    torn = CheckpointRecord(run.workflow_id, 2, 1, "pay", '[{"torn"', 0.0)
    return replace(case, view=replace(case.view, checkpoints=(torn,)))


def waits_for_nothing(case: CrashCase) -> CrashCase:
    return with_run(case, RunStatus.WAITING, ())


def waits_for_a_review_that_is_not_there(case: CrashCase) -> CrashCase:
    return with_run(case, RunStatus.WAITING, (Wait(WaitKind.REVIEW, "gone", "/"),))


def unspent_licence(case: CrashCase) -> CrashCase:
    licence = used_review(mail_row(case.view), Verb.DID_NOT_HAPPEN)
    return replace(case, view=replace(case.view, reviews=(licence,)))


def approved_for_nobody(case: CrashCase) -> CrashCase:
    """Without a crash a person approves this tool; here no person did."""
    review = replace(used_review(mail_row(case.view), Verb.APPROVE), kind=ReviewKind.APPROVAL)
    lived = case.baseline.lived
    asked = replace(lived, after=replace(lived.after, reviews=(review,)))
    return replace(case, baseline=replace(case.baseline, lived=asked))


def fence_missing(case: CrashCase) -> CrashCase:
    late = [
        UpstreamWrite(2, "ticket", 2, accepted=True),
        UpstreamWrite(1, "ticket", 1, accepted=True),
    ]
    return with_upstream(case, lambda world: world.writes.extend(late))


def effect_lost(case: CrashCase) -> CrashCase:
    return with_upstream(case, lambda world: world.effects.__delitem__(-1))


def step_left_open(case: CrashCase) -> CrashCase:
    (step,) = case.view.steps
    open_step = replace(step, status=StepStatus.IN_PROGRESS)
    return replace(case, view=replace(case.view, steps=(open_step,)))


def still_in_doubt(case: CrashCase) -> CrashCase:
    return with_row(case, mail_row(case.view)._replace(status=CallStatus.UNKNOWN, result=None))


def settled_twice(case: CrashCase) -> CrashCase:
    said = used_review(mail_row(case.view), Verb.HAPPENED)
    return replace(case, view=replace(case.view, reviews=(said,)))


def verified_by_nobody(case: CrashCase) -> CrashCase:
    return with_row(case, mail_row(case.view)._replace(settled_by="verify"))


def never_ends(case: CrashCase) -> CrashCase:
    return replace(case, lived=Lived(trouble="it has not ended after 40 rounds"))


def ends_otherwise(case: CrashCase) -> CrashCase:
    return replace(case, lived=Lived(ending=StageEnding(error="StoreError")))


def paid_twice(case: CrashCase) -> CrashCase:
    return with_upstream(case, lambda world: world.invoked.extend(world.invoked[-1:] * 2))


AFTER_A_CRASH = [
    (happened_twice, "no effect twice"),
    (no_row, "intent before effect"),
    (no_intent_for_the_retry, "intent before effect"),
    (invented, "receipts are true"),
    (other_result, "receipts are true"),
    (still_in_doubt, "receipts are kept"),
    (no_row, "receipts are kept"),
    (no_mark, "rows and steps agree"),
    (doubt_in_a_finished_step, "rows and steps agree"),
    (unreadable_checkpoint, "checkpoints can be read"),
    (waits_for_nothing, "waits have a reason"),
    (waits_for_a_review_that_is_not_there, "waits have a reason"),
    (unspent_licence, "decisions apply once"),
    (approved_for_nobody, "approvals come first"),
    (fence_missing, "only the holder writes"),
]
AFTER_A_RESUME = [
    (effect_lost, "same world"),
    (step_left_open, "same ledger"),
    (still_in_doubt, "doubts are settled once"),
    (settled_twice, "doubts are settled once"),
    (verified_by_nobody, "doubts are settled once"),
    (never_ends, "every run ends"),
    (ends_otherwise, "every run ends"),
    (paid_twice, "little is done again"),
]


def test_an_uninterrupted_run_breaks_nothing(sound: CrashCase) -> None:
    assert check_after_crash(sound) == []
    assert check_after_resume(sound) == []


@pytest.mark.parametrize(("breaks", "name"), [*AFTER_A_CRASH, *AFTER_A_RESUME])
def test_an_invariant_finds_what_breaks_it(
    sound: CrashCase, breaks: Callable[[CrashCase], CrashCase], name: str
) -> None:
    broken = breaks(sound)
    after_crash = {violation.invariant for violation in check_after_crash(broken)}
    after_resume = {violation.invariant for violation in check_after_resume(broken)}
    assert name in after_resume
    assert (name in after_crash) == ((breaks, name) in AFTER_A_CRASH)


def test_every_invariant_has_a_case_that_breaks_it() -> None:
    broken = {name for _, name in (*AFTER_A_CRASH, *AFTER_A_RESUME)}
    assert broken == {invariant.name for invariant in INVARIANTS}
