"""Is a question read back as it was asked, and is an invalid question refused?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from nottwice.errors import LedgerCorrupt, UsageError
from nottwice.model.asking.asked import (
    Question,
    WantedCall,
    check_options,
    options_of,
    shown_in,
    words_of,
)
from nottwice.model.call import CallIdentity
from nottwice.model.review import Decision, Review, ReviewKind, ReviewStatus, Verb


def review(kind: ReviewKind, about: str | None) -> Review:
    identity = CallIdentity("r", "s", "start/", "nottwice.ask", "00")
    return Review("1a2b", kind, ReviewStatus.OPEN, identity, "c", "", "why", 1.0, about=about)


def test_a_question_is_shown_as_it_was_asked() -> None:
    asked = Question("Ship?", ("yes", "no"), {"order": [7, None]}, "bool", {"type": "boolean"})
    assert shown_in(review(ReviewKind.QUESTION, asked.to_json())) == asked


def test_a_wanted_call_is_shown_as_it_would_be_made() -> None:
    wanted = WantedCall("refund", {"order_id": 2**63, "cents": 1.5}, "unsafe_on_replay", 3600.0)
    assert shown_in(review(ReviewKind.APPROVAL, wanted.to_json())) == wanted


def test_a_review_of_what_may_have_happened_shows_nothing_of_the_kind() -> None:
    assert shown_in(review(ReviewKind.IN_DOUBT, None)) is None
    assert options_of(review(ReviewKind.DRIFT, None)) == ()


@pytest.mark.parametrize("kind", [ReviewKind.QUESTION, ReviewKind.APPROVAL])
@pytest.mark.parametrize("about", ["[]", "7", "{}", '{"question":1}', '{"tool":"x","args":7}'])
def test_a_question_that_cannot_have_been_asked_is_not_believed(
    kind: ReviewKind, about: str
) -> None:
    with pytest.raises(LedgerCorrupt, match="1a2b"):
        shown_in(review(kind, about))


def test_options_take_the_place_of_the_verb_answer() -> None:
    with_options = review(ReviewKind.QUESTION, Question("Ship?", ("yes", "no")).to_json())
    assert list(words_of(with_options)) == ["yes", "no", "abort"]
    free = review(ReviewKind.QUESTION, Question("What?").to_json())
    assert list(words_of(free)) == ["answer", "abort"]
    approval = review(ReviewKind.APPROVAL, WantedCall("t", {}, "unsafe_on_replay").to_json())
    assert list(words_of(approval)) == ["approve", "reject", "abort"]


def test_options_may_use_the_words_that_questions_do_not_have() -> None:
    assert check_options(["approve", "reject", "accept"]) == ("approve", "reject", "accept")
    assert check_options(None) == ()


@pytest.mark.parametrize(
    "options", [[], "yes", ["a", "a"], ["abort"], ["undo"], ["answer"], ["later"], ["-x"], [""], 7]
)
def test_options_that_could_not_be_typed_are_refused(options: object) -> None:
    with pytest.raises(UsageError):
        check_options(options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [ReviewKind.QUESTION, ReviewKind.APPROVAL])
def test_who_asks_first_holds_back_no_other_effect_unless_the_run_is_to_be_aborted(
    kind: ReviewKind,
) -> None:
    open_one = review(kind, None)
    assert not open_one.blocks
    verb = Verb.ANSWER if kind is ReviewKind.QUESTION else Verb.APPROVE
    assert not open_one.decided(Decision(verb, "ann", "", 2.0)).blocks
    aborted = open_one.decided(Decision(Verb.ABORT, "ann", "enough", 2.0))
    assert aborted.blocks
    assert not aborted.used(now=3.0).blocks
    assert not replace(open_one, status=ReviewStatus.CLOSED).blocks
