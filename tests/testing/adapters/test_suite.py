"""The adapter of the guide keeps every claim, and the suite notices adapters that do not (P250)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import pytest

from nottwice.testing.adapters import AdapterConformance, AdapterFailed, Driven, Scene
from tests.nursery import starting


class Cheap(AdapterConformance):
    """The suite in processes that are forked from one that has imported nottwice."""

    driver = ""

    def process(self, scene: Scene) -> subprocess.CompletedProcess[str]:
        return starting.run(
            [sys.executable, "-m", "nottwice.testing.adapters.child", self.driver],
            input=scene.to_json(),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )


class TestToy(Cheap):
    """The adapter of the guide "Write an adapter", really killed."""

    driver = "tests.testing.adapters.toy:drive"
    declares = True


KILLED = "test_an_effect_whose_process_was_killed_is_not_made_again"
WRONG = {
    "without_protection": KILLED,
    "with_a_run_of_its_own": "test_a_receipt_that_the_framework_did_not_save_answers_the_same_call",
    "with_recorded_reads": "test_a_read_after_a_write_returns_the_new_value",
    "with_a_yes_that_decides": "test_the_yes_of_the_framework_does_not_decide_a_doubt",
    "with_doubts_told_to_the_model": KILLED,
    "one_by_one": "test_of_parallel_calls_each_is_made_once_and_answered_by_itself",
    "with_classes_alone": "test_an_effect_that_is_asked_for_in_other_words_is_made_once",
    "into_a_stop": "test_a_failure_without_effect_is_told_and_can_be_tried_again",
}
"""How an adapter is wrong, and the claim that notices."""


@pytest.mark.parametrize("driver", WRONG)
def test_an_adapter_that_is_wrong_is_noticed(driver: str) -> None:
    named = {"driver": f"tests.testing.adapters.toy:drive_{driver}", "declares": True}
    suite = type("Wrong", (Cheap,), named)()
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

    class Never(AdapterConformance):
        driver = "tests.testing.adapters.toy:drive"

    class Derived(Never):
        repeats = True

    claim = "test_a_deliberate_repeat_is_made"
    assert getattr(TestToy, claim) is None
    assert callable(getattr(Repeating, claim))
    assert callable(getattr(Derived, claim)), "what its base class cannot do is its own matter"


def test_an_approval_that_does_not_reach_the_ledger_is_noticed() -> None:
    # In a process that the suite itself starts, as users have it.
    named = {"driver": "tests.testing.adapters.toy:drive_with_classes_alone", "declares": True}
    suite = type("Wrong", (AdapterConformance,), named)()
    suite.setup_method()
    with pytest.raises(AdapterFailed, match="Pauses for an approval"):
        suite.test_an_approved_effect_whose_process_was_killed_is_not_made_again()
    suite.teardown_method()


def test_a_framework_that_makes_one_call_at_a_time_says_so() -> None:
    named = {"driver": "tests.testing.adapters.toy:drive_one_by_one", "parallel": False}
    suite = type("OneByOne", (Cheap,), named)()
    suite.setup_method()
    suite.test_of_parallel_calls_each_is_made_once_and_answered_by_itself()
    suite.teardown_method()


def test_a_schema_that_the_adapter_changes_is_noticed() -> None:
    class Renaming(AdapterConformance):
        driver = ""
        shows_schemas = True

        def process(self, scene: Scene) -> subprocess.CompletedProcess[str]:
            taken: dict[str, Any] = {"properties": {"amount" if scene.protected else "cents": {}}}
            seen = Driven(schemas=dict.fromkeys(scene.tools, taken))
            return subprocess.CompletedProcess([], 0, json.dumps(asdict(seen)), "")

    suite = Renaming()
    suite.setup_method()
    with pytest.raises(AdapterFailed, match="The schemas"):
        suite.test_the_schemas_of_the_tools_are_unchanged()
    suite.teardown_method()
