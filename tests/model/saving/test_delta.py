"""Does a delta say exactly what changed, in few words, and does it always lead to the new value?"""

from __future__ import annotations

import copy
from functools import reduce
from itertools import pairwise, permutations
from typing import Any, cast

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nottwice.model import values
from nottwice.model.saving.delta import (
    Misfit,
    apply,
    apply_in_place,
    combine,
    diff,
    grown,
    growth,
    inverse,
    of_keys,
    same,
    weight,
)

# What our own words could be confused with, and what is awkward in JSON.
WORDS = [
    "set",
    "put",
    "keys",
    "gone",
    "parts",
    "new",
    "at",
    "change",
    "kept",
    "more",
    "",
    "\x00",
    "ü",
    "🦀",
    "\\",
]
KEYS = st.sampled_from([*WORDS, "a", "b", "c"]) | st.text(max_size=8)
LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 2, 0.0, -0.0, 1.0, 2.0, 2**63])
    | st.text(max_size=6)
    | st.text(max_size=6).map("a text that is long enough to be kept: ".__add__)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=25,
)


def changed(draw: st.DrawFn, value: Any) -> Any:
    """A value that is like another one, as states of a run are like each other."""
    action = draw(st.sampled_from(["keep", "inside", "inside", "inside", "replace"]))
    if action == "replace":
        return draw(VALUES)
    if action == "inside" and isinstance(value, str):
        return value + draw(st.text(max_size=6)) if draw(st.booleans()) else value[:-2]
    if action == "keep" or not isinstance(value, (dict, list)):
        # A copy is as good as the object itself.
        return copy.deepcopy(value) if draw(st.booleans()) else value
    if isinstance(value, dict):
        kept = {key: changed(draw, each) for key, each in value.items() if draw(st.integers(0, 4))}
        return {**kept, **draw(st.dictionaries(KEYS, VALUES, max_size=2))}
    items = [changed(draw, each) for each in value if draw(st.integers(0, 5))]
    start = draw(st.integers(0, 1))
    front = draw(st.lists(VALUES, max_size=1))
    return [*front, *items[start:], *draw(st.lists(VALUES, max_size=2))]


@st.composite
def histories(draw: st.DrawFn) -> list[Any]:
    history = [draw(VALUES)]
    for _ in range(draw(st.integers(1, 4))):
        history.append(changed(draw, history[-1]))
    return history


def text_of(value: Any) -> str:
    """The text of a value; equal exactly for values that are strictly equal."""
    return values.encode(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def stored(delta: Any) -> Any:
    """A delta as it comes back from the ledger."""
    return values.decode(values.encode(delta))


@given(histories())
def test_a_delta_leads_from_the_old_value_to_the_new_one(history: list[Any]) -> None:
    for old, new in pairwise(history):
        before = text_of(old)
        assert text_of(apply(old, stored(diff(old, new)))) == text_of(new)
        assert text_of(apply(old, stored(diff(old, new, shortest=False)))) == text_of(new)
        assert text_of(old) == before


@given(histories(), st.booleans())
@example([[1, 2, 3, 4], [2, 9, 4, 5], [2]], False)
@example([{"a": [{"b": 1}, 2]}, {"a": [{"b": 2}, 2, 3]}, {"c": [{"b": 2}, 2, 3]}], False)
def test_an_inverse_leads_back(history: list[Any], shortest: bool) -> None:
    for old, new in pairwise(history):
        delta = diff(old, new, shortest=shortest)
        new = apply(old, delta)
        before, after = values.encode(old), values.encode(new)
        undone = inverse(old, delta)
        if undone is None:
            assert '"gone"' in values.encode(delta)
            continue
        # With the keys of every object in their order.
        assert values.encode(apply(new, stored(undone))) == before
        assert (values.encode(old), values.encode(new)) == (before, after)
        assert values.encode(apply_in_place(copy.deepcopy(new), stored(undone))) == before


@given(histories(), st.booleans())
def test_the_inverse_of_deltas_that_were_combined_leads_back(
    history: list[Any], shortest: bool
) -> None:
    deltas = [diff(old, new, shortest=shortest) for old, new in pairwise(history)]
    combined: Any = reduce(combine, deltas, cast(Any, {}))
    undone = inverse(history[0], combined)
    if undone is not None:
        last = apply(history[0], combined)
        assert values.encode(apply(last, stored(undone))) == values.encode(history[0])


def test_the_inverse_of_growth_names_the_place_where_it_began() -> None:
    old = {"log": ["x" * 500] * 3, "number": 3}
    change = of_keys({"log": grown(3, ["x" * 500]), "number": {"set": 4}, "new": {"set": 1}})
    assert inverse(old, change) == {
        "put": {"number": 3},
        "keys": {"log": {"parts": [[0, 3]]}},
        "gone": ["new"],
    }


@given(histories(), st.booleans())
@example([{"a": 1, "b": 2}, {"b": 2}, {"b": 2, "a": 1}], False)
@example([{"a": {"x": 1}, "b": 2}, {"b": 2}, {"b": 2, "a": {"y": 1}}, {"b": 2, "a": {}}], False)
def test_deltas_that_were_combined_leave_the_keys_in_the_order_they_left_one_by_one(
    history: list[Any], shortest: bool
) -> None:
    deltas = [diff(old, new, shortest=shortest) for old, new in pairwise(history)]
    one_by_one = reduce(apply, deltas, history[0])
    combined = stored(reduce(combine, deltas, cast(Any, {})))
    assert values.encode(apply(history[0], combined)) == values.encode(one_by_one)


def test_what_went_from_the_end_comes_back_and_what_went_from_the_middle_does_not() -> None:
    old = {"a": 1, "b": 2, "c": 3}
    assert inverse(old, {"gone": ["c", "b"], "put": {"d": 4}}) == {
        "put": {"b": 2, "c": 3},
        "gone": ["d"],
    }
    assert inverse(old, {"gone": ["b"]}) is None
    assert inverse([old], {"parts": [{"at": 0, "change": {"gone": ["a"]}}]}) is None
    assert inverse({"x": old}, {"keys": {"x": {"gone": ["a"]}}}) is None


@given(VALUES, VALUES)
def test_a_delta_leads_to_a_value_that_has_nothing_in_common(old: Any, new: Any) -> None:
    assert text_of(apply(old, stored(diff(old, new)))) == text_of(new)


# With every change named where it happened, small values make all the shapes that large ones do.


@given(histories(), st.booleans())
@example([[{"a": 1}, {"b": 1}, 3], [{"a": 1, "c": 2}, {"b": 1}, 3], [{"b": 1}, 3]], False)
def test_deltas_that_were_combined_lead_where_they_led_one_by_one(
    history: list[Any], shortest: bool
) -> None:
    combined: Any = {}
    for old, new in pairwise(history):
        before = copy.deepcopy(combined)
        together = combine(combined, diff(old, new, shortest=shortest))
        assert combined == before
        combined = stored(together)
        assert text_of(apply(history[0], combined)) == text_of(new)


@given(histories(), st.booleans())
def test_combining_does_not_depend_on_what_is_combined_first(
    history: list[Any], shortest: bool
) -> None:
    deltas = [diff(old, new, shortest=shortest) for old, new in pairwise(history)]
    from_the_end: Any = {}
    for delta in reversed(deltas):
        from_the_end = combine(delta, from_the_end)
    assert text_of(apply(history[0], from_the_end)) == text_of(history[-1])


@given(histories(), st.booleans())
def test_in_place_deltas_lead_to_the_same_value_as_one_step_after_the_other(
    history: list[Any], shortest: bool
) -> None:
    deltas = [stored(diff(old, new, shortest=shortest)) for old, new in pairwise(history)]
    assert text_of(reduce(apply_in_place, deltas, copy.deepcopy(history[0]))) == text_of(
        history[-1]
    )


@given(histories())
@example([["x" * 90, "y"], ["y"]])
@example([{"\x00" * 30: 1, "\x01" * 30: 2}, {}])
@example([{key: {"a": 1} for key in "abcdefgh"}, {key: {"a": 2} for key in "abcdefgh"}])
def test_a_delta_is_never_longer_than_the_new_value_and_a_few_words(history: list[Any]) -> None:
    for old, new in pairwise(history):
        assert len(values.encode(diff(old, new))) <= len(values.encode(new)) + len('{"set":}')


@given(VALUES, VALUES)
def test_values_are_the_same_exactly_if_their_texts_are(one: Any, other: Any) -> None:
    assert same(one, other) == (text_of(one) == text_of(other))
    assert same(one, copy.deepcopy(one))


@given(histories())
def test_nothing_changed_exactly_if_the_delta_is_empty(history: list[Any]) -> None:
    for old, new in pairwise(history):
        assert (diff(old, new) == {}) == (text_of(old) == text_of(new))


TWINS = [(1, 1.0), (1, True), (1.0, True), (0, False), (0.0, -0.0), ([1], [True]), ("1", 1)]


@pytest.mark.parametrize(("old", "new"), [*TWINS, *[(new, old) for old, new in TWINS]])
def test_equal_numbers_of_other_types_are_a_change(old: Any, new: Any) -> None:
    for pack in (lambda x: x, lambda x: {"a": x}, lambda x: ["b", x], lambda x: [{"c": [x]}]):
        assert text_of(apply(pack(old), diff(pack(old), pack(new)))) == text_of(pack(new))
        assert diff(pack(old), pack(new))


@given(st.dictionaries(st.sampled_from(WORDS), st.sampled_from([{}, [], {"set": 1}, [[0, 1]]])))
def test_data_that_looks_like_a_delta_is_data(lookalike: dict[str, Any]) -> None:
    for old, new in (({}, lookalike), (lookalike, {}), ({"a": {}}, {"a": lookalike})):
        assert apply(old, stored(diff(old, new))) == new
        assert combine(diff(old, new), diff(new, lookalike)) is not None
        assert apply(old, combine(diff(old, new), diff(new, lookalike))) == lookalike


def test_the_order_of_keys_is_no_change() -> None:
    assert diff({"a": 1, "b": 2}, {"b": 2, "a": 1}) == {}


ITEMS = [{"role": "user", "text": f"message {number} " + "x" * 60} for number in range(40)]


def length_of_delta(old: Any, new: Any) -> int:
    return len(values.encode(diff({"list": old}, {"list": copy.deepcopy(new)})))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ITEMS[:39], ITEMS),
        (ITEMS[1:], ITEMS),
        (ITEMS, ITEMS[1:]),
        (ITEMS, ITEMS[:-1]),
        (ITEMS, ITEMS[:7] + ITEMS[8:]),
        (ITEMS[:39], ITEMS[1:]),
        (ITEMS[:20] + ITEMS[21:], ITEMS),
        (ITEMS, [*ITEMS[:9], {**ITEMS[9], "role": "tool"}, *ITEMS[10:]]),
    ],
    ids="appended prepended worked-off popped removed window inserted edited".split(),
)
def test_one_item_of_a_list_costs_one_item(old: Any, new: Any) -> None:
    assert length_of_delta(old, new) < 2 * len(values.encode(ITEMS[0])) + 60


def test_a_change_deep_inside_costs_its_path_and_itself() -> None:
    old: Any = {"state": {"order": {"lines": ITEMS, "cents": 4000}}, "position": {"node": "pay"}}
    new = copy.deepcopy(old)
    new["state"]["order"]["cents"] = 3500
    assert diff(old, new) == {"keys": {"state": {"keys": {"order": {"put": {"cents": 3500}}}}}}


def test_a_text_that_grew_costs_what_was_added() -> None:
    old = "ü" * 1_000
    assert diff({"a": old}, {"a": old + "b"}) == {"keys": {"a": {"kept": 1_000, "more": "b"}}}
    assert diff([old + "b"], [old]) == {"parts": [{"at": 0, "change": {"kept": 1_000, "more": ""}}]}
    assert diff(old, old + "b", shortest=False) == {"set": old + "b"}


def test_a_value_that_changed_altogether_is_replaced() -> None:
    old = {f"key {number}": number for number in range(100)}
    assert diff({"a": old, "b": ITEMS}, {"a": {"x": 1}, "b": ITEMS}) == {"put": {"a": {"x": 1}}}
    assert diff(old, {"x": 1}) == {"set": {"x": 1}}
    assert diff([0.25, 0.5], [0.125, 0.75]) == {"set": [0.125, 0.75]}


def test_each_change_is_named_where_it_happened_if_asked_for() -> None:
    assert diff({"a": {"b": 1}}, {"a": {"b": 2}}) == {"set": {"a": {"b": 2}}}
    named = diff({"a": {"b": 1}}, {"a": {"b": 2}}, shortest=False)
    assert named == {"keys": {"a": {"put": {"b": 2}}}}


def test_what_is_known_to_have_changed_can_be_said_without_a_search() -> None:
    old = {"state": {"list": ITEMS, "empty": [], "a": 1, "same": 2}, "position": {"node": "x"}}
    new = {
        "state": {"list": [*ITEMS, 1], "empty": [2], "a": {"b": 3}, "same": 2, "fresh": None},
        "position": {"node": "x"},
    }
    state = of_keys(
        {
            "list": grown(len(ITEMS), [1]),
            "empty": grown(0, [2]),
            "same": grown(2, []),
            "a": diff(1, {"b": 3}),
            "fresh": {"set": None},
        }
    )
    known = of_keys({"state": state, "position": diff({"node": "x"}, {"node": "x"})})
    assert apply(old, known) == new
    assert known == diff(old, new)
    assert of_keys({"a": {}}) == {}


def test_what_did_not_change_is_shared_and_the_old_value_is_left_alone() -> None:
    old: Any = {"kept": ITEMS, "list": [{"a": 1}, {"b": [1]}], "gone": 1}
    new = {"kept": ITEMS, "list": [{"a": 1}, {"b": [1, 2]}, 3]}
    before = copy.deepcopy(old)
    made = apply(old, diff(old, new, shortest=False))
    assert made == new
    assert old == before
    assert made["kept"] is ITEMS
    assert made["list"][0] is old["list"][0]


def test_old_items_of_a_list_that_grew_are_not_looked_into() -> None:
    class Untouchable(dict[str, Any]):
        def __eq__(self, other: object) -> bool:
            raise AssertionError

        __hash__ = None

    old: list[Any] = [Untouchable() for _ in range(3)]
    assert diff([old], [[*old, 1]], shortest=False)["parts"][0]["change"] == {
        "parts": [[0, 3], {"new": [1]}]
    }


@given(VALUES)
def test_a_weight_is_close_to_the_length_of_the_text_and_never_above(value: Any) -> None:
    assert weight(value) <= len(values.encode(value))


def test_the_weight_of_ordinary_text_is_its_length() -> None:
    assert weight(ITEMS) == len(values.encode(ITEMS))
    assert weight({"a": [{}, [], ""]}) == len(values.encode({"a": [{}, [], ""]}))


@given(VALUES, st.integers(0, 40))
def test_a_limited_weight_tells_whether_it_is_more(value: Any, limit: int) -> None:
    assert (weight(value, limit=limit) > limit) == (weight(value) > limit)


@given(histories(), st.booleans())
def test_growth_is_what_the_weight_gains(history: list[Any], shortest: bool) -> None:
    for old, new in pairwise(history):
        gained = weight(new) - weight(old)
        delta = diff(old, new, shortest=shortest)
        # Of a list or object that was empty, or is now, a comma may be counted that is not there.
        containers = values.encode(delta).count("{")
        assert abs(growth(old, delta) - gained) <= containers


MISFITS: list[tuple[Any, Any]] = [
    ([1], {"put": {"a": 1}}),
    ({"a": 1}, {"parts": [[0, 1]]}),
    ({"a": 1}, {"keys": {"b": {"set": 1}}}),
    ([1, 2], {"parts": [[0, 3]]}),
    ([1, 2], {"parts": [[1, 2], [0, 1]]}),
    ([1, 2], {"parts": [[0, 2], [0, 2]]}),
    ([1, 2], {"parts": [[0, 2], {"at": 1, "change": {}}]}),
    ([1, 2], {"parts": [[-1, 1]]}),
    ([1, 2], {"parts": {"new": [1]}}),
    ([1, 2], {"parts": [[0, 2], {"new": "text"}]}),
    ({"a": 1}, {"put": {"a": 2}, "unheard": 1}),
    ({"a": 1}, {"set": 2, "put": {}}),
    ({"a": 1}, {"kept": 1, "more": "b"}),
    ("a", {"kept": 2, "more": "b"}),
    ("a", {"kept": -1, "more": "b"}),
    ("a", {"kept": True, "more": "b"}),
    ("a", {"kept": 1, "more": ["b"]}),
    ("a", {"kept": 1}),
    ("a", {"kept": 1, "more": "b", "put": {}}),
    ("a", {"put": {"a": 1}}),
]


@pytest.mark.parametrize(("old", "delta"), MISFITS)
def test_a_delta_of_another_value_is_refused(old: Any, delta: Any) -> None:
    with pytest.raises(Misfit):
        apply(old, delta)
    with pytest.raises(Misfit):
        apply_in_place(copy.deepcopy(old), delta)


def test_deltas_that_cannot_follow_each_other_are_refused() -> None:
    kinds: list[Any] = [{"parts": [[0, 1]]}, {"put": {"a": 1}}, {"kept": 1, "more": "b"}]
    for first, second in permutations(kinds, 2):
        with pytest.raises(Misfit):
            combine(first, second)
    with pytest.raises(Misfit):
        combine({"kept": 1, "more": "b"}, {"kept": 3, "more": ""})
    with pytest.raises(Misfit):
        combine({"gone": ["a"]}, {"keys": {"a": {"set": 1}}})
    with pytest.raises(Misfit):
        combine({"parts": [[0, 1]]}, {"parts": [[0, 2]]})


@given(histories())
def test_a_combined_delta_is_not_longer_than_its_parts(history: list[Any]) -> None:
    assume(len(history) > 2)
    deltas = [diff(old, new) for old, new in pairwise(history)]
    combined: Any = {}
    for delta in deltas:
        combined = combine(combined, delta)
    together = sum(len(values.encode(delta)) for delta in deltas)
    assert len(values.encode(combined)) <= together + 2
