"""Steps are marked at both ends, and code that drifts away from the ledger is stopped (D6, D7)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.stepping import steps
from nottwice.engine.stepping.drift import Drift
from nottwice.model.review import ReviewKind, Verb
from nottwice.model.run import RunStatus, StepStatus
from tests.fakes import Host
from tests.store.samples import identity, pending


class Recorder:
    """An effect that is remembered, and a program made of such effects."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        recorder = self

        @nt.tool("unsafe_on_replay")
        def act(what: str) -> str:
            recorder.effects.append(what)
            return what

        self.act = act


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


class Crash(Exception):
    """Ends a block early, as a bug in user code would."""


def interrupted(host: Host, body: Callable[[], object]) -> None:
    with host.process() as ledger, pytest.raises(Crash), ledger.run("r"):
        body()


def marks(host: Host) -> dict[str, StepStatus]:
    return {step.node_id: step.status for step in host.data.steps.values()}


def test_a_step_is_in_progress_before_its_effect_and_done_after(
    host: Host, recorder: Recorder
) -> None:
    seen: list[dict[str, StepStatus]] = []

    @nt.tool("unsafe_on_replay")
    def look_at_marks(at: int) -> None:
        seen.append(marks(host))

    with host.process() as ledger, ledger.run("r"):
        with nt.step("notify"):
            look_at_marks(1)
        with nt.step("close"):
            look_at_marks(1)
    assert seen == [
        {"notify": StepStatus.IN_PROGRESS},
        {"notify": StepStatus.DONE, "close": StepStatus.IN_PROGRESS},
    ]
    assert marks(host) == {"notify": StepStatus.DONE, "close": StepStatus.DONE}


def test_a_step_that_raises_is_failed_with_its_error(host: Host, recorder: Recorder) -> None:
    def body() -> None:
        with nt.step("notify"):
            raise Crash("out of paper")

    interrupted(host, body)
    (step,) = host.data.steps.values()
    assert step.status is StepStatus.FAILED
    assert step.failure is not None
    assert "out of paper" in step.failure.message


def test_the_same_call_in_two_steps_is_two_effects_and_in_one_step_one(
    host: Host, recorder: Recorder
) -> None:
    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            with nt.step("a"):
                recorder.act("x")
                recorder.act("x")
            with nt.step("b"):
                recorder.act("x")
            with nt.step("a", at=2):
                recorder.act("x")
    assert recorder.effects == ["x", "x", "x"]


def test_visits_of_nested_steps_are_told_apart_at_every_level(
    host: Host, recorder: Recorder
) -> None:
    with host.process() as ledger, ledger.run("r"):
        with nt.step("a", at=1), nt.step("b"):
            recorder.act("x")
        with nt.step("a"), nt.step("b", at=1):
            recorder.act("x")
    assert recorder.effects == ["x", "x"]


def test_a_resumed_step_replays_and_may_add(host: Host, recorder: Recorder) -> None:
    def body(crash: bool) -> None:
        with nt.step("notify"):
            recorder.act("one")
            if crash:
                raise Crash
            recorder.act("two")

    interrupted(host, lambda: body(crash=True))
    with host.process() as ledger, ledger.run("r"):
        body(crash=False)
    assert recorder.effects == ["one", "two"]


def test_a_new_effect_is_refused_while_one_is_outstanding(host: Host, recorder: Recorder) -> None:
    def before() -> None:
        with nt.step("notify"):
            recorder.act("old words")
            raise Crash

    interrupted(host, before)
    with host.process() as ledger, ledger.run("r"):
        with (
            pytest.raises(nt.errors.ReplayDriftError, match="old words") as caught,
            nt.step("notify"),
        ):
            recorder.act("new words")
    assert recorder.effects == ["old words"]
    (review,) = host.open_reviews
    assert (review.kind, review.review_id) == (ReviewKind.DRIFT, caught.value.review_id)


def test_no_step_finishes_with_an_effect_outstanding(host: Host, recorder: Recorder) -> None:
    def before() -> None:
        with nt.step("notify"):
            recorder.act("one")
            raise Crash

    interrupted(host, before)
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayDriftError):
        with nt.step("notify"):
            pass


def test_a_new_effect_is_refused_while_a_later_step_holds_one(
    host: Host, recorder: Recorder
) -> None:
    def before() -> None:
        with pytest.raises(Crash), nt.step("first"):
            recorder.act("one")
            raise Crash
        with nt.step("second"):
            recorder.act("two")
        raise Crash

    interrupted(host, before)
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayDriftError):
        with nt.step("first"):
            recorder.act("one")
            recorder.act("squeezed in")
    assert recorder.effects == ["one", "two"]


def test_a_person_can_accept_a_drift_and_the_run_continues(host: Host, recorder: Recorder) -> None:
    def before() -> None:
        with nt.step("notify"):
            recorder.act("old words")
            raise Crash

    def after() -> None:
        with nt.step("notify"):
            recorder.act("new words")

    interrupted(host, before)
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayDriftError):
        after()
    with pytest.raises(nt.errors.ReplayDriftError), host.process() as ledger, ledger.run("r"):
        raise AssertionError("the run must wait")
    host.decide(Verb.ACCEPT)
    with host.process() as ledger, ledger.run("r"):
        after()
    assert recorder.effects == ["old words", "new words"]
    assert host.open_reviews == []


def test_a_finished_step_only_replays_and_says_how_to_visit_again(
    host: Host, recorder: Recorder
) -> None:
    with host.process() as ledger, ledger.run("r"):
        with nt.step("notify"):
            recorder.act("one")
        with nt.step("notify"):
            assert recorder.act("one") == "one"
            with pytest.raises(nt.errors.ReplayDriftError, match="at="):
                recorder.act("two")
        with nt.step("notify", at=2):
            recorder.act("two")
    assert recorder.effects == ["one", "two"]


def test_parallel_branches_are_judged_separately(host: Host, recorder: Recorder) -> None:
    """Branch 0 died early; branch 1 had done its work. Neither blocks the other."""
    finished: list[str] = []

    def work(item: str) -> str:
        recorder.act(f"{item} 1")
        if item == "a" and not finished:
            raise Crash
        return recorder.act(f"{item} 2")

    def body() -> list[str]:
        with nt.step("all"):
            return nt.map(work, ["a", "b"])

    interrupted(host, body)
    finished.append("now")
    with host.process() as ledger, ledger.run("r"):
        assert body() == ["a 2", "b 2"]
    assert sorted(recorder.effects) == ["a 1", "a 2", "b 1", "b 2"]


def test_a_map_over_other_items_is_drift_not_a_second_effect(
    host: Host, recorder: Recorder
) -> None:
    def body(items: list[str], crash: bool) -> None:
        with nt.step("all"):
            nt.map(recorder.act, items)
            if crash:
                raise Crash

    interrupted(host, lambda: body(["a", "b"], crash=True))
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayDriftError):
        body(["b", "a"], crash=False)
    assert sorted(recorder.effects) == ["a", "b"]


def test_calls_outside_steps_are_not_judged(host: Host, recorder: Recorder) -> None:
    """A host that resumes midway asks only for what is new."""
    with host.process() as ledger, ledger.run("r"):
        recorder.act("one")
    with host.process() as ledger, ledger.run("r"):
        recorder.act("two")
    assert recorder.effects == ["one", "two"]


def test_an_accepted_drift_that_does_not_occur_again_lets_the_run_end(
    host: Host, recorder: Recorder
) -> None:
    def body(words: str, crash: bool = False) -> None:
        with nt.step("notify"):
            recorder.act(words)
            if crash:
                raise Crash

    interrupted(host, lambda: body("old words", crash=True))
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayDriftError):
        body("new words")
    host.decide(Verb.ACCEPT)
    with host.process() as ledger, ledger.run("r"):
        body("old words")
    assert host.data.runs["r"].status is RunStatus.COMPLETED
    assert host.open_reviews == []


def test_branches_that_get_their_receipts_meanwhile_do_not_disturb_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = [pending(identity("r", node=f"/[{number}]")) for number in range(3)]
    state = SimpleNamespace(
        finished=False,
        may_refuse=True,
        outstanding={row.identity: row for row in held},
        later={},
        abandoned={},
    )

    def while_another_branch_asks(*_: object) -> bool:
        state.outstanding.popitem()
        return False

    monkeypatch.setattr(steps, "is_inside", while_another_branch_asks)
    drift = Drift(is_first_drive=True)
    session = SimpleNamespace(run_id="r", run=SimpleNamespace(origin=None), drift=drift)
    scope: Any = SimpleNamespace(steps=(state,), node_id="/[7]", session=session)
    assert list(steps.admit(scope, identity("r", node="/[7]", tool="other"))) == []
    assert state.outstanding == {}


# What a tool's body calls


def test_calls_that_overlapped_are_not_taken_for_one_inside_the_other(
    host: Host, recorder: Recorder
) -> None:
    """Both were under way at the same time; only one of them is asked for again."""

    async def body(names: list[str], *, crash: bool) -> None:
        async with nt.step("notify"):
            await asyncio.gather(*(asyncio.to_thread(recorder.act, name) for name in names))
            if crash:
                raise Crash

    async def process(ledger: nt.Ledger, names: list[str], *, crash: bool) -> None:
        async with ledger.run("r"):
            await body(names, crash=crash)

    with host.process() as ledger, pytest.raises(Crash):
        asyncio.run(process(ledger, ["ann", "bob"], crash=True))
    with host.process() as ledger, pytest.raises(nt.errors.ReplayDriftError, match="bob"):
        asyncio.run(process(ledger, ["ann", "bob@home"], crash=False))
    assert sorted(recorder.effects) == ["ann", "bob"]


def nest(recorder: Recorder) -> Callable[[str], str]:
    """A tool whose body makes effects: by itself, in a thread that gets its context, in a branch
    and in a step."""

    @nt.tool("unsafe_on_replay")
    def deliver(what: str) -> str:
        recorder.act(f"{what} packed")
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(recorder.act, f"{what} insured"))
        thread.start()
        thread.join()
        nt.map(recorder.act, [f"{what} left half", f"{what} right half"])
        with nt.step("label"):
            wrap(what)
        return what

    @nt.tool("pure")
    def wrap(what: str) -> str:
        return recorder.act(f"{what} labelled")

    return deliver


def test_the_receipt_of_a_tool_answers_for_everything_that_its_body_called(
    host: Host, recorder: Recorder
) -> None:
    deliver = nest(recorder)

    def body(crash: bool) -> None:
        with nt.step("ship"):
            deliver("book")
            if crash:
                raise Crash
            recorder.act("told")

    interrupted(host, lambda: body(crash=True))
    made = len(recorder.effects)
    parents = {row.identity.tool_name: row.parent_call_id for row in host.calls}
    assert parents["deliver"] is None
    assert made == 5
    with host.process() as ledger, ledger.run("r"):
        body(crash=False)
    assert recorder.effects[made:] == ["told"]
    assert host.data.runs["r"].status is RunStatus.COMPLETED


def test_a_tool_that_is_not_asked_for_any_more_leaves_its_inner_calls_outstanding(
    host: Host, recorder: Recorder
) -> None:
    deliver = nest(recorder)

    def before() -> None:
        with nt.step("ship"):
            recorder.act("order")
            deliver("book")
            raise Crash

    interrupted(host, before)
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.ReplayDriftError) as caught, nt.step("ship"):
            recorder.act("order")
            recorder.act("something else")
    assert "deliver(what='book')" in str(caught.value)
    assert "something else" not in recorder.effects


def test_a_call_in_another_run_is_not_inside_the_tool_that_opened_that_run(
    host: Host, recorder: Recorder
) -> None:
    with host.process() as ledger:

        @nt.tool("unsafe_on_replay")
        def delegate(what: str) -> str:
            with ledger.run("other"):
                return recorder.act(what)

        with ledger.run("r"):
            delegate("work")
    assert [row.parent_call_id for row in host.calls] == [None, None]


# Reviews name what was refused


def test_a_drift_review_names_the_refused_call_and_what_is_outstanding(
    host: Host, recorder: Recorder
) -> None:
    def before() -> None:
        with nt.step("notify"):
            recorder.act("old words")
            raise Crash

    interrupted(host, before)
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.ReplayDriftError), nt.step("notify"):
            recorder.act("new words")
    (review,) = host.open_reviews
    assert "a new effect, act(what='new words')," in review.summary
    assert "act(what='old words')" in review.summary


def test_a_finished_step_names_the_call_that_it_refuses(host: Host, recorder: Recorder) -> None:
    with host.process() as ledger, ledger.run("r"):
        with nt.step("notify"):
            recorder.act("one")
        with (
            nt.step("notify"),
            pytest.raises(nt.errors.ReplayDriftError, match=r"act\(what='two'\)"),
        ):
            recorder.act("two")


# A step that an earlier process left in progress


BEFORE_THE_FIRST_RESULT, BEFORE_THE_SECOND_INTENT = 5, 7
"""The claim, each intent and each result are two points, one before and one after the commit."""


def test_a_retry_that_counts_tries_does_not_repeat_what_a_person_decided(
    host: Host, recorder: Recorder
) -> None:
    def attempt_number(number: int) -> None:
        with nt.step("refund", at=number):
            recorder.act("refund 7")

    with host.process(dies_at=BEFORE_THE_FIRST_RESULT) as ledger, ledger.run("r"):
        attempt_number(1)
    with host.process() as ledger, pytest.raises(nt.errors.ReplayUnsafeError), ledger.run("r"):
        raise AssertionError("the run must wait")
    host.decide(Verb.HAPPENED, result="refunded")
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.ReplayDriftError, match="refund 7"):
            attempt_number(2)
    assert recorder.effects == ["refund 7"]
    with host.process() as ledger, pytest.raises(nt.errors.ReplayDriftError), ledger.run("r"):
        raise AssertionError("the run must wait")
    host.decide(Verb.ACCEPT)
    with host.process() as ledger, ledger.run("r"):
        attempt_number(2)
    assert recorder.effects == ["refund 7", "refund 7"]


def test_a_retry_that_counts_tries_does_not_repeat_what_the_killed_try_had_done(
    host: Host, recorder: Recorder
) -> None:
    def attempt_number(number: int) -> None:
        with nt.step("order", at=number):
            recorder.act("pay")
            with nt.step("tell"):
                recorder.act("mail")

    with host.process(dies_at=BEFORE_THE_SECOND_INTENT) as ledger, ledger.run("r"):
        attempt_number(1)
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayDriftError):
        attempt_number(2)
    assert recorder.effects == ["pay"]


def test_the_old_try_may_be_resumed_before_the_new_one(host: Host, recorder: Recorder) -> None:
    def attempt_number(number: int) -> None:
        with nt.step("order", at=number):
            recorder.act("pay")
            recorder.act("mail")

    with host.process(dies_at=BEFORE_THE_SECOND_INTENT) as ledger, ledger.run("r"):
        attempt_number(1)
    with host.process() as ledger, ledger.run("r"):
        attempt_number(1)
        attempt_number(2)
    assert recorder.effects == ["pay", "mail", "pay", "mail"]


def test_steps_per_item_that_tolerate_a_failure_may_notify_the_same_address(
    host: Host, recorder: Recorder
) -> None:
    """The step of the first item is killed in progress, fails when it is resumed, and is left."""

    def body(fails: bool) -> None:
        for item in range(3):
            try:
                with nt.step("item", at=item):
                    if fails and item == 0:
                        raise Crash
                    recorder.act("notify ops")
                    recorder.act(f"handle {item}")
            except Crash:
                continue

    with host.process(dies_at=BEFORE_THE_SECOND_INTENT) as ledger, ledger.run("r"):
        body(fails=False)
    with host.process() as ledger, ledger.run("r"):
        body(fails=True)
    told = ["notify ops", "handle 1", "notify ops", "handle 2"]
    assert recorder.effects == ["notify ops", *told]
    assert host.open_reviews == []


def test_a_host_that_resumes_midway_need_not_ask_for_the_steps_before(
    host: Host, recorder: Recorder
) -> None:
    def body(first: int) -> None:
        for item in range(first, 4):
            with nt.step("item", at=item):
                recorder.act("notify ops")
                recorder.act(f"handle {item}")

    # Two calls of two commits each for items 0 and 1, and one for item 2.
    before_handling_two = BEFORE_THE_SECOND_INTENT + 2 * 2 * 4
    with host.process(dies_at=before_handling_two) as ledger, ledger.run("r"):
        body(first=0)
    assert recorder.effects[-1] == "notify ops"
    with host.process() as ledger, ledger.run("r"):
        body(first=2)
    assert recorder.effects == [
        text for item in range(4) for text in ("notify ops", f"handle {item}")
    ]


def test_other_effects_may_happen_although_a_visit_was_left_in_progress(
    host: Host, recorder: Recorder
) -> None:
    with host.process(dies_at=BEFORE_THE_SECOND_INTENT) as ledger, ledger.run("r"):
        with nt.step("turn", at=1):
            recorder.act("look")
            recorder.act("write")
    with host.process() as ledger, ledger.run("r"):
        with nt.step("turn", at=2):
            recorder.act("read")
        with nt.step("another step", at=2):
            recorder.act("look")
    assert recorder.effects == ["look", "read", "look"]
