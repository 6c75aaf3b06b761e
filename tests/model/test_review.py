"""Reviews: decided once, undone until used, closed when the doubt ends without a person (H2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nottwice.errors import DecisionConflict, UsageError
from nottwice.model.call import CallIdentity, ResultKind, StoredResult
from nottwice.model.review import (
    VERBS,
    Decision,
    Review,
    ReviewKind,
    ReviewStatus,
    Verb,
)

IDENTITY = CallIdentity("ticket-7", "/", "start", "send", "00ff")
OPEN = Review(
    review_id="3f2a",
    kind=ReviewKind.IN_DOUBT,
    status=ReviewStatus.OPEN,
    identity=IDENTITY,
    call_id=IDENTITY.call_id,
    attempt_id="attempt 1",
    summary="it may or may not have happened",
    opened_at=100.0,
)
DRIFT = replace(OPEN, kind=ReviewKind.DRIFT)


def decision(verb: Verb = Verb.DID_NOT_HAPPEN, *, by: str = "ann", result: str = "") -> Decision:
    stored = StoredResult(ResultKind.PLAIN, result) if result else None
    return Decision(verb=verb, by=by, why="looked", at=110.0, result=stored)


def test_a_decision_is_kept_with_the_review_and_makes_a_new_version() -> None:
    decided = OPEN.decided(decision())
    assert (decided.status, decided.decision) == (ReviewStatus.DECIDED, decision())
    assert decided.version == OPEN.version + 1
    assert OPEN.status is ReviewStatus.OPEN


def test_every_kind_has_its_verbs_and_the_others_are_refused_with_them() -> None:
    for review in (OPEN, DRIFT):
        for verb in Verb:
            if verb in VERBS[review.kind]:
                assert review.decided(decision(verb)).status is ReviewStatus.DECIDED
                continue
            with pytest.raises(UsageError) as caught:
                review.decided(decision(verb))
            assert "Nothing was decided. Choose one of: " in str(caught.value)
            for known in VERBS[review.kind]:
                assert known.value in str(caught.value)
    assert set(VERBS) == set(ReviewKind)


def test_saying_the_same_again_is_harmless_even_by_another_person() -> None:
    decided = OPEN.decided(decision())
    assert decided.decided(decision(by="bob")) is decided
    used = decided.used(now=120)
    assert used.decided(decision()) is used


def test_a_second_and_different_decision_is_a_conflict_that_names_the_first() -> None:
    decided = OPEN.decided(decision(Verb.HAPPENED, result='"sent"'))
    for other in (decision(), decision(Verb.ABORT), decision(Verb.HAPPENED, result='"lost"')):
        with pytest.raises(DecisionConflict) as caught:
            decided.decided(other)
        text = str(caught.value)
        assert "Review 3f2a was already decided: 'happened' by ann. Nothing was changed." in text
        assert "nottwice decide 3f2a undo" in text


def test_a_conflict_about_a_question_says_what_the_first_answer_was() -> None:
    asked = replace(OPEN, kind=ReviewKind.QUESTION)
    for given, shown in (('"yes"', "'answer' \"yes\" by ann."), (f'"{"y" * 99}"', "yyy… by ann.")):
        decided = asked.decided(decision(Verb.ANSWER, result=given))
        with pytest.raises(DecisionConflict) as caught:
            decided.decided(decision(Verb.ANSWER, result='"no"'))
        assert shown in str(caught.value)


def test_a_used_decision_cannot_be_changed_any_more() -> None:
    used = OPEN.decided(decision()).used(now=120)
    assert (used.status, used.closed_by, used.closed_at) == (ReviewStatus.USED, "decision", 120)
    with pytest.raises(DecisionConflict, match="It has been used and can no longer be changed"):
        used.decided(decision(Verb.ABORT))
    with pytest.raises(DecisionConflict, match="Review 3f2a is used"):
        used.undone()


def test_a_decision_can_be_undone_until_it_is_used() -> None:
    undone = OPEN.decided(decision()).undone()
    assert (undone.status, undone.decision, undone.version) == (ReviewStatus.OPEN, None, 3)
    assert undone.decided(decision(Verb.ABORT)).status is ReviewStatus.DECIDED
    for not_decided in (OPEN, OPEN.closed("verify", now=120)):
        with pytest.raises(DecisionConflict, match="Nothing was changed"):
            not_decided.undone()


def test_a_doubt_that_ended_by_itself_leaves_nothing_to_decide() -> None:
    closed = OPEN.closed("verify", now=120)
    assert (closed.status, closed.closed_by, closed.closed_at) == (
        ReviewStatus.CLOSED,
        "verify",
        120,
    )
    with pytest.raises(DecisionConflict, match="closed by verify before you decided"):
        closed.decided(decision())


def test_every_change_makes_a_new_version_so_that_no_person_decides_what_they_did_not_see() -> None:
    decided = OPEN.decided(decision())
    after = [decided, decided.undone(), decided.used(now=1), OPEN.closed("verify", now=1)]
    assert [review.version for review in after] == [2, 3, 3, 2]


def test_a_licence_allows_one_attempt_and_nothing_once_it_was_used_or_taken_back() -> None:
    decided = OPEN.decided(decision())
    assert decided.is_licence
    assert not OPEN.is_licence
    assert not OPEN.decided(decision(Verb.HAPPENED, result="1")).is_licence
    assert not decided.used(now=120.0).is_licence
    assert not decided.undone().is_licence


def test_new_effects_wait_for_what_is_open_or_not_yet_used() -> None:
    decided = OPEN.decided(decision())
    assert [OPEN.blocks, decided.blocks, DRIFT.blocks] == [True, True, True]
    assert not decided.used(now=1).blocks
    assert not OPEN.closed("verify", now=1).blocks
    assert not DRIFT.decided(decision(Verb.ACCEPT)).blocks, "it is used where it is met"
    assert DRIFT.decided(decision(Verb.ABORT)).blocks
