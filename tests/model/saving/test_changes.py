"""Can a person read what changed between two states, and does it miss nothing?"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from nottwice.model.saving.changes import Change, ChangeKind, changes
from nottwice.model.saving.delta import same
from tests.model.saving.test_delta import histories

OLD = {
    "order": {"id": 7, "cents": 4000, "note": None},
    "messages": [{"role": "user", "text": "hello"}, {"role": "agent", "text": "hi"}],
}


def told(new: Any, *, old: Any = OLD) -> list[str]:
    return [str(change) for change in changes(old, new)]


def edited(**changed: Any) -> Any:
    return {**copy.deepcopy(OLD), **changed}


def test_nothing_changed_is_nothing_to_tell() -> None:
    assert told(copy.deepcopy(OLD)) == []


def test_a_change_is_told_where_it_happened() -> None:
    order = {"id": 7, "cents": 3500, "note": None}
    assert told(edited(order=order)) == ["~ state.order.cents: 4000 → 3500"]
    assert changes(OLD, edited(order=order)) == [
        Change("state.order.cents", ChangeKind.CHANGED, 4000, 3500)
    ]


def test_what_was_added_and_removed_is_told_apart_from_none() -> None:
    order = {"id": 7, "cents": 4000, "by": None}
    assert told(edited(order=order)) == ["+ state.order.by: null", "- state.order.note: null"]


def test_each_new_item_of_a_list_is_one_change() -> None:
    messages = [*OLD["messages"], "a", "b"]
    assert told(edited(messages=messages)) == [
        '+ state.messages[2]: "a"',
        '+ state.messages[3]: "b"',
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([1, 2, 3], [1, 3], ["- state[1]: 2"]),
        ([1, 2, 3], [2, 3], ["- state[0]: 1"]),
        ([1, 2, 3], [2, 3, 4], ["- state[0]: 1", "+ state[2]: 4"]),
        ([1, 2, 3], [1, 9, 3], ["~ state[1]: 2 → 9"]),
        ([1, 2, 3], [1, 9, 8, 3], ["~ state[1]: 2 → 9", "+ state[2]: 8"]),
        ([1, [2], 3], [1, [2, 5], 3], ["+ state[1][1]: 5"]),
        ([{"a": 1}, 0], [{"a": 2}, 0], ["~ state[0].a: 1 → 2"]),
        ([1], [1.0], ["~ state[0]: 1 → 1.0"]),
        ([1], {"a": 1}, ['~ state: [1] → {"a":1}']),
        (True, 1, ["~ state: true → 1"]),
    ],
)
def test_changes_of_lists_and_types_read_well(old: Any, new: Any, expected: list[str]) -> None:
    assert told(new, old=old) == expected


def test_odd_keys_are_quoted_and_long_values_shortened() -> None:
    told_now = told({"unit price": "x" * 1_000, "\x1b[31m": "\x9b31m"}, old={})
    assert told_now == [
        f'+ state["unit price"]: "{"x" * 58}… (1,002 characters)',
        r'+ state["\u001b[31m"]: "�31m"',
    ]


@given(histories())
def test_states_differ_exactly_if_there_is_something_to_tell(history: list[Any]) -> None:
    for old in history:
        for new in history:
            found = changes(old, new)
            assert bool(found) != same(old, new)
            for change in found:
                if change.kind is ChangeKind.CHANGED:
                    assert not same(change.before, change.after)
                assert str(change)
