"""Steps are marked at both ends, and code that drifts away from the ledger is stopped (D6, D7)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine import steps
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
        with pytest.raises(nt.ReplayDriftError, match="old words") as caught, nt.step("notify"):
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
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.ReplayDriftError):
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
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.ReplayDriftError):
        with nt.step("first"):
            recorder.act("one")
            recorder.act("squeezed in")
    assert recorder.effects == ["one", "two"]


def test_a_person_can_accept_a_drift_and_the_run_goes_on(host: Host, recorder: Recorder) -> None:
    def before() -> None:
        with nt.step("notify"):
            recorder.act("old words")
            raise Crash

    def after() -> None:
        with nt.step("notify"):
            recorder.act("new words")

    interrupted(host, before)
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.ReplayDriftError):
        after()
    with pytest.raises(nt.ReplayDriftError), host.process() as ledger, ledger.run("r"):
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
            with pytest.raises(nt.ReplayDriftError, match="at="):
                recorder.act("two")
        with nt.step("notify", at=2):
            recorder.act("two")
    assert recorder.effects == ["one", "two"]


def test_parallel_branches_are_judged_separately(host: Host, recorder: Recorder) -> None:
    """Branch 0 died early; branch 1 had done its work. Neither stands in the other's way."""
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
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.ReplayDriftError):
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
    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.ReplayDriftError):
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
        finished=False, outstanding={row.identity: row for row in held}, later={}
    )

    def while_another_branch_asks(*_: object) -> bool:
        state.outstanding.popitem()
        return False

    monkeypatch.setattr(steps, "is_inside", while_another_branch_asks)
    session = SimpleNamespace(run_id="r", run=SimpleNamespace(origin=None))
    scope: Any = SimpleNamespace(steps=(state,), node_id="/[7]", session=session)
    assert list(steps.admit(scope, identity("r", node="/[7]", tool="other"))) == []
    assert state.outstanding == {}
