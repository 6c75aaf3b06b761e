"""Which file does a step name in what it returns? (S1)"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.model.runs.output_file import named_by_step, named_in

RECEIPT = {"output_file": "of_a_tool.md", "bytes": 3}


@pytest.mark.parametrize(
    ("changes", "file"),
    [
        ({"output_file": "a.md"}, "a.md"),
        ({"report": RECEIPT}, "of_a_tool.md"),
        ({"output_file": "a.md", "report": RECEIPT}, "a.md"),
        ({"first": {"output_file": "1.md"}, "second": {"output_file": "2.md"}}, "2.md"),
        ({"output_file": RECEIPT}, "of_a_tool.md"),
        ({"report": "a.md"}, None),
        ({"deep": {"report": RECEIPT}}, None),
        ({}, None),
    ],
)
def test_a_step_names_its_file_itself_or_by_the_last_result(
    changes: dict[str, Any], file: str | None
) -> None:
    assert named_by_step(changes, {}, {}) == file


def test_a_result_that_is_added_to_a_list_names_its_file() -> None:
    assert named_by_step({}, {"reports": [{}, RECEIPT]}, {"reports": []}) == "of_a_tool.md"
    assert named_by_step({"n": 1}, {"reports": []}, {"reports": [RECEIPT]}) is None


def test_a_step_that_hands_on_the_whole_state_does_not_name_what_it_found_there() -> None:
    state = {"output_file": "before.md", "report": RECEIPT, "n": 1}
    assert named_by_step({**state, "n": 2}, {}, state) is None
    assert named_by_step({**state, "output_file": "new.md"}, {}, state) == "new.md"


def test_a_step_that_names_the_same_file_again_has_written_it_again() -> None:
    state = {"output_file": "before.md", "n": 1}
    assert named_by_step({"output_file": "before.md"}, {}, state) == "before.md"


@pytest.mark.parametrize("name", ["", "a\0b", "\udce9", "x" * 4097, 7, None, ["a.md"]])
def test_what_no_store_could_keep_as_the_name_of_a_file_is_none(name: Any) -> None:
    assert named_in({"output_file": name}) is None
