"""An answer through a framework has one shape, and names its review (P245)."""

from __future__ import annotations

import json
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.asking.answers import read_answer
from nottwice.model.review import Verb


def test_a_payload_comes_back_as_what_was_said() -> None:
    payload = nt.happened({"id": "ch_1"}).payload("1c6a9990", by="ann", why="saw it")
    assert payload == {
        "nottwice": {
            "review": "1c6a9990",
            "answer": "happened",
            "result": {"id": "ch_1"},
            "by": "ann",
            "why": "saw it",
        }
    }
    told = read_answer(json.loads(json.dumps(payload)))
    assert told is not None
    assert (told.review_id, told.verb, told.result, told.by, told.why) == (
        "1c6a9990",
        Verb.HAPPENED,
        {"id": "ch_1"},
        "ann",
        "saw it",
    )
    assert told.payload() == payload


def test_that_nothing_was_returned_is_a_result_and_that_nothing_happened_has_none() -> None:
    none = read_answer(nt.happened(None).payload("r1", by="ann", why="saw it"))
    assert none is not None
    assert (none.has_result, none.result) == (True, None)
    not_there = read_answer(nt.did_not_happen().payload("r1", by="ann", why="not there"))
    assert not_there is not None
    assert (not_there.verb, not_there.has_result) == (Verb.DID_NOT_HAPPEN, False)


@pytest.mark.parametrize("said", [nt.still_running(), nt.cannot_tell()])
def test_what_decides_nothing_is_no_answer(said: nt.Verification) -> None:
    with pytest.raises(nt.errors.UsageError, match="decides nothing"):
        said.payload("r1", by="ann", why="?")


@pytest.mark.parametrize("given", [None, True, "yes", "happened", {"answer": "happened"}, [1], {}])
def test_what_a_framework_says_of_its_own_is_no_answer(given: Any) -> None:
    assert read_answer(given) is None


@pytest.mark.parametrize(
    "told",
    [
        None,
        "happened",
        {},
        {"answer": "happened"},
        {"review": "r1"},
        {"review": "r1", "answer": "yes"},
        {"review": 7, "answer": "happened"},
        {"review": "r1", "answer": "happened", "by": None},
        {"review": "r1", "answer": "happened", "reslut": 7},
    ],
)
def test_a_malformed_answer_is_told_and_not_ignored(told: Any) -> None:
    with pytest.raises(nt.errors.UsageError, match="malformed"):
        read_answer({"nottwice": told})
