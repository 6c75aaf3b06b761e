"""A pipeline is phases with steps, in order; a step that is done is not run again (S1)."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import InvalidGraph
from nottwice.graphs.phases import phases
from tests.fakes import Host
from tests.graphs.effects import Effects, crash, run

State = dict[str, Any]


def pipeline(effects: Effects) -> nt.Graph[Any]:
    def read(state: State) -> Any:
        return {"log": [effects.act("read")]}

    def check(state: State) -> Any:
        effects.visit("check")
        return {"log": [effects.act("check")]}

    def write(state: State) -> Any:
        return {"log": [effects.act("write")]}

    return phases(
        "bug-fix",
        version="1.3.0",
        phases={"plan": [read, check], "fix": [write, check]},
        append=["log"],
    )


def test_steps_run_phase_after_phase_and_are_named_by_both(host: Host, effects: Effects) -> None:
    outcome = run(host, pipeline(effects))
    assert outcome.state == {"log": ["did read", "did check", "did write", "did check"]}
    assert [(mark.node, mark.status) for mark in outcome.nodes] == [
        ("plan/read", "done"),
        ("plan/check", "done"),
        ("fix/write", "done"),
        ("fix/check", "done"),
    ]


def test_the_same_step_in_two_phases_is_two_steps(host: Host, effects: Effects) -> None:
    run(host, pipeline(effects))
    assert effects.done == ["read", "check", "write", "check"]
    assert sorted(row.identity.node_id for row in host.calls) == [
        "fix/check",
        "fix/write",
        "plan/check",
        "plan/read",
    ]


def test_a_pipeline_continues_at_the_step_that_failed(host: Host, effects: Effects) -> None:
    flow = pipeline(effects)
    effects.broken = {"check"}
    crash(host, flow)
    effects.broken = set()
    outcome = run(host, flow)
    assert outcome.status == "completed"
    assert effects.done == ["read", "check", "write", "check"]


def nothing(state: State) -> None: ...


@pytest.mark.parametrize("steps", [[], (), nothing])
def test_a_phase_has_steps(steps: Any) -> None:
    with pytest.raises(InvalidGraph, match="Phase 'plan' of 'p' needs a list of functions"):
        phases("p", version="1.0.0", phases={"plan": steps})


def test_a_pipeline_without_phases_is_refused() -> None:
    with pytest.raises(InvalidGraph, match="has no node"):
        phases("p", version="1.0.0", phases={})


def test_one_step_twice_in_a_phase_is_refused() -> None:
    with pytest.raises(InvalidGraph, match="already has a node 'plan/nothing'"):
        phases("p", version="1.0.0", phases={"plan": [nothing, nothing]})


def test_the_file_that_a_step_returned_is_on_record_with_its_end(host: Host) -> None:
    def collect(state: State) -> Any:
        return {"output_file": "numbers.csv"}

    def think(state: State) -> Any:
        return {**state, "thought": True}

    def report(state: State) -> Any:
        return {"report": {"output_file": "may.md", "bytes": 9}}

    steps = {"read": [collect, think], "write": [report]}
    run(host, phases("monthly", version="1.0.0", phases=steps))
    assert [(step.node_id, step.output_file) for step in host.data.steps.values()] == [
        ("read/collect", "numbers.csv"),
        ("read/think", None),
        ("write/report", "may.md"),
    ]
