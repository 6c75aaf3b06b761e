"""The adapter of the guide keeps every claim, and the suite notices adapters that do not (P250)."""

from __future__ import annotations

import pytest

from nottwice.testing.adapters import AdapterConformance, AdapterFailed


class TestToy(AdapterConformance):
    """The adapter of the guide "Write an adapter", really killed."""

    driver = "tests.testing.adapters.toy:drive"


KILLED = "test_an_effect_whose_process_was_killed_is_not_made_again"
WRONG = {
    "without_protection": KILLED,
    "with_a_run_of_its_own": "test_a_receipt_that_the_framework_did_not_save_answers_the_same_call",
    "with_recorded_reads": "test_a_read_after_a_write_returns_the_new_value",
    "with_a_yes_that_decides": "test_the_yes_of_the_framework_does_not_decide_a_doubt",
    "with_doubts_told_to_the_model": KILLED,
    "into_a_stop": "test_a_failure_without_effect_is_told_and_can_be_tried_again",
}
"""How an adapter is wrong, and the claim that notices."""


@pytest.mark.parametrize("driver", WRONG)
def test_an_adapter_that_is_wrong_is_noticed(driver: str) -> None:
    wrong = type(
        "Wrong", (AdapterConformance,), {"driver": f"tests.testing.adapters.toy:drive_{driver}"}
    )
    suite = wrong()
    suite.setup_method()
    try:
        with pytest.raises(AdapterFailed):
            getattr(suite, WRONG[driver])()
    finally:
        suite.teardown_method()


def test_a_claim_about_repeats_is_collected_only_where_there_are_repeats() -> None:
    class Repeating(AdapterConformance):
        driver = "tests.testing.adapters.toy:drive"
        repeats = True

    claim = "test_a_deliberate_repeat_is_made"
    assert getattr(TestToy, claim) is None
    assert callable(getattr(Repeating, claim))
