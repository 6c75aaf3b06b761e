"""Are two places in a run told apart, and found inside each other, by their ids alone?"""

from __future__ import annotations

import pytest

from nottwice.model.places import branches_differ, is_inside, is_visit_of


@pytest.mark.parametrize(
    ("node_id", "outer", "inside"),
    [
        ("a", "a", True),
        ("a/b", "a", True),
        ("a[3]", "a", True),
        ("a[3]/b", "a", True),
        ("ab", "a", False),
        ("b/a", "a", False),
        ("a", "a/b", False),
    ],
)
def test_a_node_is_inside_itself_its_outer_steps_and_their_branches(
    node_id: str, outer: str, inside: bool
) -> None:
    assert is_inside(node_id, outer) is inside


@pytest.mark.parametrize(
    ("checkpoint_id", "visit", "belongs"),
    [("start/1", "start/1", True), ("start/1/x", "start/1", True), ("start/12", "start/1", False)],
)
def test_a_checkpoint_belongs_to_its_visit_and_to_those_around_it(
    checkpoint_id: str, visit: str, belongs: bool
) -> None:
    assert is_visit_of(checkpoint_id, visit) is belongs


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("fan[1]", "fan[2]", True),
        ("fan[1]/a", "fan[2]/a", True),
        ("fan[1]/a[0]", "fan[1]/a[1]", True),
        ("fan[1]", "fan", False),
        ("fan[1]", "/", False),
        ("fan[1]/a", "fan[1]", False),
        ("fan[1]", "fan[11]", True),
        ("a", "b", False),
        ("/[0]/a", "/[1]/a", True),
    ],
)
def test_only_siblings_of_one_fan_lie_in_different_branches(
    one: str, other: str, differ: bool
) -> None:
    assert branches_differ(one, other) is differ
    assert branches_differ(other, one) is differ
