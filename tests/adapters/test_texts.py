"""What a model is told contains no command that decides, and says what was not done (P244)."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.adapters import (
    VERDICTS,
    CallResult,
    declare,
    text_for_lost_answer,
    text_for_model,
    text_for_repeat,
)
from tests.fakes import Host, dying, unwanted

CHARGE = declare("charge", replay="unsafe_on_replay")
NOON = 1_700_000_000.0


def test_a_doubt_is_told_without_a_way_to_decide_it() -> None:
    host = Host()
    with host.process() as ledger, ledger.attach("r") as handle:
        handle.call(CHARGE, {"amount": 4000}, dying(ledger))
    with host.process() as ledger, ledger.attach("r") as handle:
        with pytest.raises(nt.errors.ReplayUnsafeError) as stopped:
            handle.call(CHARGE, {"amount": 4000}, unwanted)
    (review,) = host.open_reviews
    text = text_for_model(stopped.value)
    assert text == (
        "[nottwice] STOPPED: it is not known whether this happened. charge(amount=4000) was sent "
        "at 22:13:20 UTC; no answer was recorded. It was not sent again. Do not retry it, do not "
        "work around it with another tool, and do not decide this yourself. Tell the user to "
        f"check, then to answer review {review.review_id} in nottwice. Other tools still work."
    )


@pytest.mark.parametrize("kind", VERDICTS)
def test_no_text_for_a_model_has_a_command(kind: type[nt.NottwiceError]) -> None:
    told = "Decide with: nottwice decide 1c6a9990 --store agent.db"
    error = kind(f"It waits. {told}") if VERDICTS[kind] != "told_to_model" else kind("It failed.")
    text = text_for_model(error)
    assert text
    for word in ("nottwice decide", "--store", "nottwice reviews", "happened --"):
        assert word not in text


def test_an_approval_that_is_missing_is_told_as_such() -> None:
    text = text_for_model(nt.errors.ApprovalNeeded("It waits.", review_id="1c6a9990"))
    assert "must approve this first (review 1c6a9990)" in text
    assert "not known whether" not in text


def test_a_failure_is_told_in_the_words_of_its_tool() -> None:
    ledger = nt.Ledger(":memory:")

    def declined(arguments: dict[str, object]) -> None:
        raise nt.Permanent("card declined")

    with ledger.attach("r") as handle, pytest.raises(nt.Permanent) as failed:
        handle.call(CHARGE, {}, declined)
    assert text_for_model(failed.value) == "It failed: card declined"


def test_wrong_arguments_are_told() -> None:
    text = text_for_model(nt.errors.InvalidArguments("the argument 'cents' is missing."))
    assert text == "[nottwice] Nothing was done. the argument 'cents' is missing."


@pytest.mark.parametrize(
    ("seconds", "ago"),
    [(0.2, "a moment"), (1, "1 second"), (240, "4 minutes"), (7200, "2 hours"), (1e6, "11 days")],
)
def test_a_receipt_is_told_as_such(seconds: float, ago: str) -> None:
    made = CallResult({"ok": True}, True, "1a3bfa0f77", NOON)
    assert text_for_repeat(made, now=NOON + seconds) == (
        f"[nottwice] Not done again. You asked for exactly this {ago} ago and it succeeded; above "
        "is the result from then (receipt 1a3bfa0f). If the user wants it done a second time, call "
        'again with nottwice_repeat="<short reason>".'
    )
    assert "nottwice_repeat" not in text_for_repeat(made, now=NOON, parameter=None)


def test_a_lost_answer_is_told_as_such() -> None:
    assert text_for_lost_answer(CallResult(1, True, "1a3bfa0f77", NOON)) == (
        "[nottwice] This call was made at 22:13:20 UTC and succeeded, but its answer was lost. It "
        "was not made again; above is its result."
    )
