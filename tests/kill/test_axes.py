"""Does each of the five axes of a call's identity count? (L1)

Two calls that differ in one axis only are two effects, also when the process dies between them or
inside the second. Each test fails if its axis is dropped from the identity or from the table's key.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import pytest

from tests.kill.agents import RESULT
from tests.kill.processes import Case

# run, step, visit, tool, order, label
BASE = ["run", "pack", 1, "act", 7, None]
AXES: dict[str, list[Any]] = {
    "workflow_id": ["another run", "pack", 1, "act", 7, None],
    "node_id": ["run", "ship", 1, "act", 7, None],
    "checkpoint_id": ["run", "pack", 2, "act", 7, None],
    "tool_name": ["run", "pack", 1, "other", 7, None],
    "input_hash": ["run", "pack", 1, "act", 8, None],
}


def plan(*visits: list[Any]) -> dict[str, Any]:
    return {"tools": ["act", "other"], "visits": list(visits)}


def all_rows(case: Case) -> list[dict[str, Any]]:
    return [*case.rows("run"), *case.rows("another run")]


def effects_of_both(case: Case) -> int:
    return case.effects() + case.effects("other of " + case.effect)


@pytest.mark.parametrize("axis", AXES)
def test_calls_that_differ_in_one_axis_are_two_effects(case: Case, axis: str) -> None:
    more = plan(BASE, AXES[axis])
    for resumed in (False, True):
        agent = case.finish("visits", more=more)
        assert [line.get("value") for line in agent.words] == [RESULT, RESULT], agent.words
        assert [line["replayed"] for line in agent.words] == [resumed, resumed]
        assert len({line["id"] for line in agent.words}) == 2
        assert effects_of_both(case) == 2
    one, other = all_rows(case)
    differing = [name for name in AXES if one[name] != other[name]]
    assert differing == [axis]


@pytest.mark.parametrize("axis", AXES)
def test_a_receipt_never_answers_for_a_call_that_differs_in_one_axis(case: Case, axis: str) -> None:
    """The first call is done, and the second is in doubt: neither answers for the other."""
    more = plan(BASE, AXES[axis])
    crash = case.finish("visits", more=more, die_at="after intent", die_at_visit=2)
    assert crash.was_killed
    assert [row["status"] for row in all_rows(case)] == ["DONE", "PENDING"]
    assert effects_of_both(case) == 1
    agent = case.finish("visits", more=more)
    assert agent.said["error"] == "ReplayUnsafeError"
    assert [row["status"] for row in all_rows(case)] == ["DONE", "PENDING"]
    assert effects_of_both(case) == 1


def test_calls_that_agree_in_all_five_axes_are_one_effect(case: Case) -> None:
    agent = case.finish("visits", more=plan(BASE, BASE))
    assert [line["replayed"] for line in agent.words] == [False, True]
    assert case.effects() == 1


def test_the_five_axes_are_the_primary_key_in_this_order(case: Case) -> None:
    case.finish()
    with closing(sqlite3.connect(case.ledger)) as connection:
        columns = connection.execute("PRAGMA table_info(tool_call_results)").fetchall()
    key = sorted((column[5], column[1]) for column in columns if column[5])
    assert [name for _, name in key] == list(AXES)
