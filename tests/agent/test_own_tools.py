"""Do the harness's own tools change what they say, and nothing on bad arguments?"""

from __future__ import annotations

from typing import Any

import pytest

from nottwice.agent.messages import ToolCall
from nottwice.agent.own_tools import OWN_TOOLS, BadArguments, Changes, answer
from nottwice.agent.state import RunState, first_state


def state(**given: Any) -> RunState:
    return RunState({**first_state({"goal": "g", "done_when": ["paid", "told"]}), **given})


def call(name: str, /, **arguments: Any) -> ToolCall:
    return ToolCall("c", name, arguments)


def test_a_new_plan_replaces_what_is_still_to_be_done() -> None:
    before = state(plan=["a", "b", "c"], cursor=1)
    changes = Changes.of(before)
    assert answer(before, changes, call("make_plan", steps=["x", "y"])).startswith("Noted. 2 steps")
    assert changes.to_update()["plan"] == ["a", "x", "y"]


def test_steps_are_finished_one_after_the_other() -> None:
    before = state(plan=["a", "b"], turn=4)
    changes = Changes.of(before)
    assert answer(before, changes, call("finish_step", evidence="e1")) == "Noted. Next: b"
    assert "last step" in answer(before, changes, call("finish_step", evidence="e2"))
    with pytest.raises(BadArguments, match="No step"):
        answer(before, changes, call("finish_step", evidence="e3"))
    assert changes.cursor == 2
    assert changes.completed == [
        {"step": "a", "evidence": "e1", "turn": 4},
        {"step": "b", "evidence": "e2", "turn": 4},
    ]


def test_evidence_is_kept_by_condition() -> None:
    before = state()
    changes = Changes.of(before)
    answer(before, changes, call("show_evidence", condition=2.0, evidence="mail 1"))
    assert changes.evidence == {"told": "mail 1"}


@pytest.mark.parametrize(
    "wrong",
    [
        call("make_plan"),
        call("make_plan", steps="one"),
        call("make_plan", steps=[1]),
        call("finish_step", evidence=""),
        call("show_evidence", condition=3, evidence="x"),
        call("show_evidence", condition=0, evidence="x"),
        call("show_evidence", condition=True, evidence="x"),
        call("show_evidence", condition=1),
        call("remember", name="x"),
        call("recall", first="a", last=2),
    ],
    ids=lambda one: f"{one.name} {one.arguments}",
)
def test_what_does_not_fit_changes_nothing(wrong: ToolCall) -> None:
    before = state(plan=["a"])
    changes = Changes.of(before)
    with pytest.raises(BadArguments):
        answer(before, changes, wrong)
    assert changes == Changes.of(before)


def test_each_says_what_it_takes() -> None:
    for name, schema in OWN_TOOLS.items():
        assert schema.name == name
        assert schema.parameters["required"] == list(schema.parameters["properties"])
