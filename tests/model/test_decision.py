"""The decision table, exhaustively: every combination of facts, against rules said in words."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.model.call import CallStatus
from nottwice.model.decision import Action, Answer, Attempt, DoubtVerdict, Facts, Settle, decide
from nottwice.model.replay_class import ReplayClass

ROOT = Path(__file__).parents[2]
FIRES = {Action.RUN, Action.RECORD_AND_RUN, Action.REISSUE, Action.NEW_ATTEMPT}
YES_NO = (True, False)


def every_situation() -> Iterator[Facts]:
    axes = {
        "replay_class": tuple(ReplayClass),
        "status": (None, *CallStatus),
        "intact": YES_NO,
        "result_kept": YES_NO,
        "retry_granted": YES_NO,
        "attempt": tuple(Attempt),
        "window_open": YES_NO,
        "keyless": YES_NO,
        "can_verify": YES_NO,
        "answer": (None, *Answer),
        "settle": tuple(Settle),
        "patience": YES_NO,
        "review_open": YES_NO,
        "verdict": (None, *DoubtVerdict),
    }
    for combination in itertools.product(*axes.values()):
        yield Facts(**dict(zip(axes, combination, strict=True)))


# Half a million objects: made when the first of these tests runs, because every process that
# collects this file would keep them, and copy them with each of its forks.
@pytest.fixture(scope="module")
def everything() -> list[Facts]:
    return list(every_situation())


@pytest.fixture(scope="module")
def in_doubt(everything: list[Facts]) -> list[Facts]:
    return [
        facts
        for facts in everything
        if facts.intact and facts.status is not None and facts.status.in_doubt
    ]


@pytest.fixture(scope="module")
def effects_in_doubt(in_doubt: list[Facts]) -> list[Facts]:
    return [facts for facts in in_doubt if facts.replay_class.effectful]


def test_every_situation_has_a_decision(everything: list[Facts]) -> None:
    assert len(everything) == 3 * 5 * 2 * 2 * 2 * 3 * 2 * 2 * 2 * 5 * 3 * 2 * 2 * 3
    assert {decide(facts) for facts in everything} == set(Action)


def test_a_row_that_was_tampered_with_is_refused_whatever_else_is_true(
    everything: list[Facts],
) -> None:
    assert all(decide(facts) is Action.REFUSE for facts in everything if not facts.intact)
    assert all(decide(facts) is not Action.REFUSE for facts in everything if facts.intact)


def test_a_new_effect_is_recorded_before_it_runs(everything: list[Facts]) -> None:
    for facts in everything:
        if facts.status is None and facts.intact:
            effectful = facts.replay_class.effectful
            assert decide(facts) is (Action.RECORD_AND_RUN if effectful else Action.RUN)


def test_an_effect_never_runs_without_an_intent(everything: list[Facts]) -> None:
    assert all(
        decide(facts) is not Action.RUN for facts in everything if facts.replay_class.effectful
    )


def test_a_receipt_is_returned_and_nothing_fires(everything: list[Facts]) -> None:
    for facts in everything:
        if facts.status is CallStatus.DONE and facts.intact and facts.result_kept:
            assert decide(facts) is Action.RETURN_RECEIPT


def test_a_result_that_was_not_kept_never_makes_an_effect_fire_again(
    everything: list[Facts],
) -> None:
    for facts in everything:
        if facts.status is CallStatus.DONE and facts.intact and not facts.result_kept:
            effectful = facts.replay_class.effectful
            assert decide(facts) is (Action.ASK_FOR_RESULT if effectful else Action.RUN)


def test_a_recorded_failure_is_tried_again_only_when_that_was_granted(
    everything: list[Facts],
) -> None:
    for facts in everything:
        if facts.status is CallStatus.FAILED and facts.intact:
            fires = decide(facts) in FIRES
            assert fires is facts.retry_granted
            assert fires or decide(facts) is Action.RETURN_FAILURE


def test_an_attempt_that_is_alive_here_is_waited_for(in_doubt: list[Facts]) -> None:
    for facts in in_doubt:
        alive = facts.attempt is Attempt.ALIVE_HERE
        assert (decide(facts) is Action.WAIT_FOR_ATTEMPT) is alive


def test_a_pure_call_in_doubt_simply_runs_again(in_doubt: list[Facts]) -> None:
    for facts in in_doubt:
        if not facts.replay_class.effectful and facts.attempt is not Attempt.ALIVE_HERE:
            assert decide(facts) is Action.RUN


def test_an_effect_in_doubt_fires_only_with_a_licence(effects_in_doubt: list[Facts]) -> None:
    """A person's word. Before a person was asked: also the stored key in its window, or verify,
    a proven end and settling."""
    for facts in effects_in_doubt:
        keyed = facts.replay_class is ReplayClass.IDEMPOTENT_WITH_KEY and facts.window_open
        if facts.keyless:
            keyed = keyed and facts.attempt is Attempt.OVER
        settled = (
            facts.answer is Answer.DID_NOT_HAPPEN
            and facts.attempt is Attempt.OVER
            and facts.settle is Settle.PASSED
        )
        licensed = facts.verdict is DoubtVerdict.DID_NOT_HAPPEN or (
            facts.verdict is None and not facts.review_open and (keyed or settled)
        )
        expected = licensed and facts.attempt is not Attempt.ALIVE_HERE
        assert (decide(facts) in FIRES) is expected, facts


def test_while_a_person_is_being_asked_nothing_is_sent_and_verify_may_still_confirm(
    effects_in_doubt: list[Facts],
) -> None:
    for facts in effects_in_doubt:
        undecided = facts.review_open and facts.verdict is None
        if undecided and facts.attempt is not Attempt.ALIVE_HERE:
            assert decide(facts) not in FIRES
            if facts.answer is Answer.HAPPENED:
                assert decide(facts) is Action.RECORD_HAPPENED


def test_a_key_is_reissued_only_while_its_window_is_open_and_never_for_an_unsafe_call(
    effects_in_doubt: list[Facts],
) -> None:
    for facts in effects_in_doubt:
        if decide(facts) is Action.REISSUE:
            assert facts.window_open
            assert facts.replay_class is ReplayClass.IDEMPOTENT_WITH_KEY
            assert facts.verdict is None


def test_a_call_that_needs_no_key_is_not_sent_again_while_the_old_attempt_may_be_alive(
    effects_in_doubt: list[Facts],
) -> None:
    for facts in effects_in_doubt:
        if facts.keyless and decide(facts) is Action.REISSUE:
            assert facts.attempt is Attempt.OVER


def test_past_its_window_a_keyed_call_is_treated_like_an_unsafe_one(
    effects_in_doubt: list[Facts],
) -> None:
    unsafe = ReplayClass.UNSAFE_ON_REPLAY
    for facts in effects_in_doubt:
        if facts.replay_class is ReplayClass.IDEMPOTENT_WITH_KEY and not facts.window_open:
            twin = Facts(
                **{name: getattr(facts, name) for name in Facts.__slots__}
                | {"replay_class": unsafe}
            )
            assert decide(facts) is decide(twin)


def test_while_the_old_attempt_may_be_alive_verify_may_only_confirm(
    effects_in_doubt: list[Facts],
) -> None:
    for facts in effects_in_doubt:
        undecided = facts.verdict is None and not facts.window_open
        if facts.attempt is Attempt.MAYBE_ALIVE and undecided and facts.answer is not None:
            confirmed = facts.answer is Answer.HAPPENED
            assert decide(facts) is (Action.RECORD_HAPPENED if confirmed else Action.OPEN_REVIEW)


def test_did_not_happen_without_a_declared_settle_time_goes_to_a_person(
    effects_in_doubt: list[Facts],
) -> None:
    for facts in effects_in_doubt:
        undecided = facts.verdict is None and not facts.window_open
        alive_here = facts.attempt is Attempt.ALIVE_HERE
        if undecided and facts.answer is Answer.DID_NOT_HAPPEN and not alive_here:
            if facts.settle is Settle.NOT_DECLARED:
                assert decide(facts) is Action.OPEN_REVIEW


def test_waiting_for_an_answer_ends_when_patience_does(everything: list[Facts]) -> None:
    assert all(facts.patience for facts in everything if decide(facts) is Action.WAIT_AND_ASK_AGAIN)


def test_verify_is_asked_only_if_there_is_one_and_only_once_a_look(everything: list[Facts]) -> None:
    for facts in everything:
        if decide(facts) is Action.ASK_VERIFY:
            assert facts.can_verify
            assert facts.answer is None


def test_a_persons_word_counts_before_keys_and_hooks(effects_in_doubt: list[Facts]) -> None:
    said = {
        DoubtVerdict.HAPPENED: Action.RECORD_VERDICT,
        DoubtVerdict.DID_NOT_HAPPEN: Action.NEW_ATTEMPT,
    }
    for facts in effects_in_doubt:
        if facts.verdict is not None and facts.attempt is not Attempt.ALIVE_HERE:
            assert decide(facts) is said[facts.verdict]


def test_the_documented_table_is_the_function() -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "decision_table.py"))
    page = tool["PAGE"].read_text(encoding="utf-8")
    assert tool["table"]() in page, "run: python tools/decision_table.py"
