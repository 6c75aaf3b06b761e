"""What a replay class answers when it is asked, and which of two is the stricter."""

from __future__ import annotations

import dataclasses
import itertools

from nottwice.model.replay_class import STRICTEST, ReplayClass, stricter
from nottwice.model.runs.retention import Retention

PURE, KEYED, UNSAFE = ReplayClass


def test_a_class_is_stored_and_declared_by_its_text() -> None:
    assert [kind.value for kind in ReplayClass] == [
        "pure",
        "idempotent_with_key",
        "unsafe_on_replay",
    ]
    assert all(ReplayClass(kind.value) is kind for kind in ReplayClass)


def test_a_tool_without_a_key_is_called_by_the_word_that_declared_it() -> None:
    assert [kind.declared_as("k") for kind in ReplayClass] == [kind.value for kind in ReplayClass]
    assert [kind.declared_as(None) for kind in ReplayClass] == [
        "pure",
        "idempotent",
        "unsafe_on_replay",
    ]


def test_the_stricter_of_two_classes_counts_in_either_order() -> None:
    for one, other in itertools.combinations([PURE, KEYED, UNSAFE], 2):
        assert stricter(one, other) is stricter(other, one) is other
    assert [stricter(kind, kind) for kind in ReplayClass] == [PURE, KEYED, UNSAFE]
    assert STRICTEST is UNSAFE


def test_all_but_pure_tools_have_effects() -> None:
    assert [kind.effectful for kind in ReplayClass] == [False, True, True]


def test_no_class_with_effects_is_run_again_or_run_without_a_recorded_intent() -> None:
    for kind in ReplayClass:
        assert kind.records_intent or not kind.effectful
        assert not (kind.may_rerun and kind.effectful)


def test_a_doubt_ends_by_a_key_or_by_proof_and_not_by_both() -> None:
    assert [kind.keyed for kind in ReplayClass] == [False, True, False]
    assert [kind.needs_proof for kind in ReplayClass] == [False, False, True]


def test_every_class_names_a_period_for_which_its_receipts_are_kept() -> None:
    periods = {field.name for field in dataclasses.fields(Retention)}
    assert {kind.kept_as for kind in ReplayClass} <= periods


def test_every_class_says_in_words_what_a_second_run_does() -> None:
    said = [kind.second_run.format(window="24h") for kind in ReplayClass]
    assert said == [
        "no: it only reads",
        "no, as long as the upstream gets the same key within 24h",
        "yes: it would happen again",
    ]
