"""Are two places in a run told apart, and found inside each other, by their ids alone?"""

from __future__ import annotations

import pytest

from nottwice.model.run import StepRecord, StepStatus
from nottwice.model.runs.places import (
    branches_differ,
    is_inside,
    is_visit_of,
    shown_node,
    was_left,
)


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


@pytest.mark.parametrize(
    ("node_id", "shown"),
    [
        ("pay", "pay"),
        ("phase/pay", "phase/pay"),
        ("/[0]/pay", "pay, branch 0"),
        ("/[12]/phase/pay", "phase/pay, branch 12"),
        ("pay[3]", "pay[3]"),
        ("/", "/"),
    ],
)
def test_a_node_in_a_branch_is_named_like_any_other(node_id: str, shown: str) -> None:
    assert shown_node(node_id) == shown


@pytest.mark.parametrize(
    ("status", "checkpoint_id", "left"),
    [
        (StepStatus.IN_PROGRESS, "flow@1.0.0/1", True),
        (StepStatus.FAILED, "flow@1.0.0/1/x", True),
        (StepStatus.DONE, "flow@1.0.0/1", False),
        (StepStatus.FAILED, "flow@2.0.0/1", False),
        (StepStatus.IN_PROGRESS, "flow@2.0.01/1", True),
    ],
)
def test_a_step_of_another_version_that_never_ended_was_left(
    status: StepStatus, checkpoint_id: str, left: bool
) -> None:
    step = StepRecord("run", "pay", checkpoint_id, status, 1, 0.0)
    assert was_left(step, "flow@2.0.0") is left
    assert not was_left(step, None)
