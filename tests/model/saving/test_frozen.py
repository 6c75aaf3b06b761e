"""Frozen data is plain data that cannot be changed, and what two versions share is found fast."""

from __future__ import annotations

import copy
import json
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nottwice.errors import InvalidGraph
from nottwice.model import values
from nottwice.model.saving import delta
from nottwice.model.saving.frozen import (
    FrozenDict,
    FrozenList,
    changed_keys,
    freeze,
    shared_ends,
    shared_items,
    thaw,
)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=12,
)
OBJECT = st.dictionaries(st.text(max_size=2), PLAIN, max_size=5)


CHANGES: list[Callable[[Any], Any]] = [
    lambda some: some.append(1),
    lambda some: some.extend([1]),
    lambda some: some.insert(0, 1),
    lambda some: some.pop(),
    lambda some: some.remove(3),
    lambda some: some.clear(),
    lambda some: some.sort(),
    lambda some: some.reverse(),
    lambda some: some.__setitem__(0, 1),
    lambda some: some.__delitem__(0),
    lambda some: some.__iadd__([1]),
    lambda some: some.__imul__(2),
    lambda some: some[1].update(a=2),
    lambda some: some[1].pop("a"),
    lambda some: some[1].popitem(),
    lambda some: some[1].clear(),
    lambda some: some[1].setdefault("b", 2),
    lambda some: some[1].__setitem__("a", 2),
    lambda some: some[1].__delitem__("a"),
    lambda some: some[1].__ior__({"a": 2}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_no_way_of_changing_it_works_and_all_say_what_to_do(change: Callable[[Any], Any]) -> None:
    frozen = freeze([3, {"a": 1}])
    with pytest.raises(InvalidGraph, match=r"changed the state in place.*Return what changes"):
        change(frozen)
    assert frozen == [3, {"a": 1}]


@given(PLAIN)
def test_it_is_the_same_plain_data(value: Any) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert values.encode(frozen) == values.encode(value)
    assert values.hash_of(frozen) == values.hash_of(value)
    assert json.dumps(frozen) == json.dumps(value)
    assert delta.same(frozen, value)
    assert delta.diff(value, frozen) == {}
    assert freeze(frozen) is frozen


@given(PLAIN)
def test_every_copy_can_be_changed_and_holds_nothing_frozen(value: Any) -> None:
    frozen = freeze(value)
    for made in (thaw(frozen), copy.deepcopy(frozen), pickle.loads(pickle.dumps(frozen))):
        assert made == value
        assert not values.survey(made) & values.HOLDS_FROZEN  # type: ignore[operator]
    if isinstance(value, list | dict):
        assert type(copy.copy(frozen)) is type(value)
        assert type(frozen.copy()) is type(value)


@given(PLAIN, PLAIN)
def test_a_change_between_frozen_values_is_the_change_between_plain_ones(
    old: Any, new: Any
) -> None:
    found = delta.diff(freeze(old), freeze(new))
    assert delta.same(delta.apply(old, found), new)
    assert values.encode(found) == values.encode(delta.diff(old, new))


@given(st.lists(PLAIN, max_size=6), st.lists(PLAIN, max_size=6), st.booleans())
def test_shared_items_are_the_very_same_values(old: list[Any], new: list[Any], takes: bool) -> None:
    frozen = freeze(old)
    mixed = [*frozen, *new] if takes else new
    shared = shared_items(frozen, mixed)
    assert shared >= len(old) if takes else shared <= min(len(old), len(new))
    assert all(map(delta.same, frozen[:shared], mixed[:shared]))


@pytest.mark.parametrize(
    ("old", "new"),
    [([1], [True]), ([0.0], [-0.0]), ([{"a": 1}], [{"a": True}]), (["x", [1]], ["x", [1.0]])],
)
def test_values_that_only_look_alike_are_not_shared(old: list[Any], new: list[Any]) -> None:
    assert shared_items(freeze(old), new) == len(old) - 1


@pytest.mark.parametrize("length", [1, 1_023, 1_024, 1_025, 3_000])
@pytest.mark.parametrize("items", ["records", "numbers"])
def test_one_change_of_a_long_list_is_found_wherever_it_is(length: int, items: str) -> None:
    plain = [{"n": at} if items == "records" else at for at in range(length)]
    old = freeze(plain)
    for at in {0, 1, 951, 952, 1_023, 1_024, 1_975, 1_976, length - 2, length - 1}:
        if not 0 <= at < length:
            continue
        alike = {"n": at} if items == "records" else float(at)
        new = [*old[:at], alike, *old[at + 1 :]]
        assert shared_ends(old, new) == (at, length - 1 - at)
        assert shared_ends(old, [*old[:at], *old[at + 1 :]]) == (at, length - 1 - at)
        assert shared_ends(old, [*old[:at], alike, *old[at:]]) == (at, length - at)
    assert shared_ends(old, list(old)) == (length, 0)


def test_a_list_that_grew_shares_what_it_had() -> None:
    old = freeze([{"n": 1}, {"n": 2}])
    grown = old.grown([{"n": 3}])
    assert grown == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert [type(item) for item in grown] == [FrozenDict] * 3
    assert all(one is other for one, other in zip(old, grown, strict=False))
    assert old == [{"n": 1}, {"n": 2}]
    assert type(grown) is FrozenList


def test_changed_keys_are_those_without_the_very_same_value() -> None:
    old = freeze({"a": {"x": 1}, "b": [1], "c": "text"})
    assert list(changed_keys(old, {**old, "b": [1]})) == ["b"]
    assert list(changed_keys(old, {**old, "b": [1], "d": None})) == ["b", "d"]
    assert list(changed_keys(old, {"c": old["c"], "b": True, "a": old["a"]})) == ["b"]


@given(OBJECT, OBJECT, st.data())
def test_an_updated_dict_is_the_one_that_was_asked_for(
    items: dict[str, Any], changes: dict[str, Any], data: st.DataObject
) -> None:
    old = freeze(items)
    wanted = {**old, **changes}
    keys = data.draw(st.permutations(list(wanted)))
    keys = keys[: data.draw(st.integers(0, len(keys)))]
    wanted = {key: wanted[key] for key in keys}
    written = {key: wanted[key] for key in changed_keys(old, wanted)}
    made = old.updated(wanted, written)
    assert values.encode(made) == values.encode(wanted)
    assert list(made) == keys
    assert delta.diff(old, made) == delta.diff(items, wanted)
    assert old == items


@given(st.lists(PLAIN, max_size=5), st.lists(PLAIN, max_size=3), st.data())
def test_a_spliced_list_is_the_one_that_was_asked_for(
    items: list[Any], more: list[Any], data: st.DataObject
) -> None:
    old = freeze(items)
    start = data.draw(st.integers(0, len(items)))
    stop = data.draw(st.integers(start, len(items)))
    wanted = [*old[:start], *more, *old[stop:]]
    head, rest = shared_ends(old, wanted)
    assert head + rest <= min(len(old), len(wanted))
    made = old.spliced(head, rest, wanted[head : len(wanted) - rest])
    assert values.encode(made) == values.encode(wanted)
    assert made.is_exact <= freeze(wanted).is_exact
    assert delta.apply(items, delta.diff(old, made)) == wanted
    assert old == items


def test_what_a_list_grew_by_is_found_without_a_copy_of_it() -> None:
    old = freeze([str(number) for number in range(50_000)])
    new = old.grown(["x"])
    tracemalloc.start()
    try:
        found = delta.diff(old, new)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == {"parts": [[0, 50_000], {"new": ["x"]}]}
    assert most < 50_000


@given(st.lists(PLAIN, max_size=5), st.lists(PLAIN, min_size=1, max_size=3), PLAIN)
def test_a_longer_list_begins_with_another_only_if_all_are_the_very_same_values(
    items: list[Any], more: list[Any], other: Any
) -> None:
    old = freeze(items)
    if not old.is_exact:
        return
    longer = [*old, *more]
    head = old.head_of(longer)
    assert head == items
    assert type(head) is FrozenList
    assert values.encode(old.grown(more, copy=head)) == values.encode(longer)
    assert longer == [*items, *more]
    for at in range(len(items)):
        changed = [*old[:at], other, *old[at + 1 :], *more]
        if old.head_of(changed) is not None:
            assert values.encode(other) == values.encode(items[at])


def test_a_copy_that_is_used_up_remembers_what_its_items_allow() -> None:
    old = freeze(["a"])
    assert old.grown(["b"], copy=old.head_of(["a", "b"])).is_exact
    assert not old.grown([1], copy=old.head_of(["a", 1])).is_exact
