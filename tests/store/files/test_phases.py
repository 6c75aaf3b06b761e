"""Does the head of a file say where a run is, as a person would? (B2)"""

from __future__ import annotations

from typing import Any, cast

import pytest

from nottwice.model.call import CallRow, ResultKind, StoredResult
from nottwice.model.run import RunStatus, StepRecord, StepStatus
from nottwice.store.files.phases import overview, phase_of
from nottwice.store.rules import MemoryData
from tests.store.samples import FAILURE, NOW, graph, identity, pending, run_record, step

DONE, FAILED, IN_PROGRESS = StepStatus.DONE, StepStatus.FAILED, StepStatus.IN_PROGRESS
BEGAN = "2023-11-14T22:13:20+00:00"


def data(
    *steps: StepRecord, calls: tuple[CallRow, ...] = (), nodes: str | None = None, **run: Any
) -> MemoryData:
    graph_id = "fix@1.3.0" if nodes is not None else None
    record = run_record(graph_id=graph_id, **run)
    found = MemoryData()
    found.runs["run"] = record
    for one in steps:
        found.steps[(one.workflow_id, one.node_id, one.checkpoint_id)] = one
    for row in calls:
        found.calls[row.identity] = row
    if nodes is not None:
        names = ",".join(f'{{"name":"{name}"}}' for name in nodes.split())
        found.graphs["fix@1.3.0"] = graph("fix@1.3.0", f'{{"nodes":[{names}]}}')
    return found


def marked(node: str, status: StepStatus, ordinal: int = 1, **more: Any) -> StepRecord:
    finished = None if status is IN_PROGRESS else NOW + ordinal
    given = {"checkpoint_id": "fix@1.3.0/1", **more}
    return step(node=node, status=status, ordinal=ordinal, finished_at=finished, **given)


def test_a_run_in_the_middle_of_its_phases_reads_like_the_pattern_it_follows() -> None:
    result = StoredResult(ResultKind.PLAIN, '{"output_file":"bug_info.json"}')
    shown = overview(
        data(
            marked("collect", DONE, 1),
            marked("fix", IN_PROGRESS, 2),
            marked("fix/candidate", DONE, 3),
            marked("fix/review", IN_PROGRESS, 4),
            calls=(pending(identity(node="collect", at="fix@1.3.0/1")).done(result, now=NOW),),
            nodes="collect fix publish",
        )
    )
    assert shown == {
        "workflow_version": "1.3.0",
        "started_at": BEGAN,
        "status": "running",
        "phase": "fix",
        "phases": {
            "collect": {
                "status": "done",
                "completed_at": "2023-11-14T22:13:21+00:00",
                "output_file": "bug_info.json",
            },
            "fix": {
                "status": "in_progress",
                "step": "review",
                "steps": {
                    "candidate": {
                        "status": "done",
                        "completed_at": "2023-11-14T22:13:23+00:00",
                    },
                    "review": {"status": "in_progress"},
                },
            },
            "publish": {"status": "pending"},
        },
    }


def test_a_failed_phase_says_why() -> None:
    shown = overview(data(marked("fix", FAILED, failure=FAILURE), status=RunStatus.FAILED))
    assert shown["status"] == "failed"
    assert shown["phase"] == "fix"
    assert shown["phases"]["fix"]["error"] == "ValueError: no such account"


def test_a_run_without_steps_or_graph_has_no_phases() -> None:
    shown = overview(data())
    assert (shown["workflow_version"], shown["phase"], shown["phases"]) == (None, None, {})


def test_a_run_that_was_never_claimed_has_not_started() -> None:
    assert overview(MemoryData()) == {
        "workflow_version": None,
        "started_at": None,
        "status": None,
        "phase": None,
        "phases": {},
    }


@pytest.mark.parametrize(
    ("statuses", "current"),
    [
        ({"a": DONE, "b": IN_PROGRESS}, "b"),
        ({"a": IN_PROGRESS, "b": DONE}, "a"),
        ({"a": FAILED, "b": DONE}, "a"),
        ({"a": DONE, "b": DONE}, "c"),
        ({"a": DONE, "b": DONE, "c": DONE}, "c"),
        ({}, "a"),
    ],
)
def test_the_phase_is_where_the_work_is(statuses: dict[str, StepStatus], current: str) -> None:
    steps = [marked(name, status, n) for n, (name, status) in enumerate(statuses.items())]
    assert overview(data(*steps, nodes="a b c"))["phase"] == current


def test_a_branch_that_a_completed_run_did_not_take_is_not_still_to_come() -> None:
    steps = (marked("ask", DONE, 1), marked("pay", DONE, 2), marked("post/print", DONE, 3))
    nodes = "ask pay close post/print post/stamp gone/away"
    shown = overview(data(*steps, nodes=nodes, status=RunStatus.COMPLETED))
    assert list(shown["phases"]) == ["ask", "pay", "post"]
    assert list(shown["phases"]["post"]["steps"]) == ["print"]
    assert (shown["phase"], shown["phases"]["post"]["status"]) == ("post", "done")
    still = overview(data(*steps, nodes=nodes, status=RunStatus.FAILED))
    assert list(still["phases"]) == ["ask", "pay", "close", "post", "gone"]


def test_the_last_visit_of_a_loop_counts() -> None:
    first = marked("a", DONE, 1, checkpoint_id="start/1")
    again = marked("a", IN_PROGRESS, 2, checkpoint_id="start/2")
    assert overview(data(again, first))["phases"] == {"a": {"status": "in_progress"}}


def test_a_node_in_a_parallel_branch_is_the_phase_of_its_name() -> None:
    shown = overview(data(marked("/[0]/send", DONE, 1), marked("/[1]/print", IN_PROGRESS, 2)))
    assert list(shown["phases"]) == ["send", "print"]
    assert shown["phase"] == "print"


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ({"a/x": DONE, "a/y": IN_PROGRESS}, "in_progress"),
        ({"a/x": DONE, "a/y": FAILED}, "failed"),
        ({"a/x": DONE, "a/y": DONE}, "done"),
        ({"a/x": DONE}, "in_progress"),
        ({}, "pending"),
    ],
)
def test_a_phase_without_its_own_mark_has_the_status_of_its_steps(
    statuses: dict[str, StepStatus], status: str
) -> None:
    steps = [marked(name, mark, n) for n, (name, mark) in enumerate(statuses.items())]
    shown = overview(data(*steps, nodes="a/x a/y"))
    assert shown["phases"]["a"]["status"] == status
    assert list(shown["phases"]["a"]["steps"]) == ["x", "y"]


@pytest.mark.parametrize(
    ("node", "phase", "inside"),
    [
        ("a", "a", ""),
        ("a/b", "a", "b"),
        ("a/b/c", "a", "b/c"),
        ("a[0]", "a", "[0]"),
        ("a[0]/b", "a", "[0]/b"),
        ("/", "/", ""),
        ("/[3]", "/", "[3]"),
        ("/[3]/a/b", "a", "b"),
        ("a%2Fb", "a%2Fb", ""),
    ],
)
def test_a_node_belongs_to_one_phase(node: str, phase: str, inside: str) -> None:
    assert phase_of(node) == (phase, inside)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nodes":7}', '{"nodes":[7]}', "nothing"])
def test_a_graph_of_another_shape_is_no_reason_to_fail(text: str) -> None:
    found = data(nodes="")
    found.graphs["fix@1.3.0"] = graph("fix@1.3.0", text)
    assert overview(found)["phases"] == {}


@pytest.mark.parametrize(
    "text", ["7", "{}", '{"output_file":7}', '"output_file"', '{"output_file"']
)
def test_a_result_that_names_no_file_names_none(text: str) -> None:
    row = pending(identity(node="a", at="fix@1.3.0/1")).done(
        StoredResult(ResultKind.PLAIN, text), now=NOW
    )
    assert overview(data(marked("a", DONE), calls=(row,)))["phases"]["a"].keys() == {
        "status",
        "completed_at",
    }


def test_the_results_of_a_run_without_phases_are_not_read() -> None:
    class Unread(dict[Any, Any]):
        def values(self) -> Any:
            raise AssertionError("the calls are read")

    given = data()
    given.calls = cast(Any, Unread())
    assert overview(given)["phases"] == {}


def test_a_time_that_no_calendar_holds_is_left_out() -> None:
    assert overview(data(created_at=1e18))["started_at"] is None


def test_a_step_that_was_left_behind_by_a_migration_is_not_where_the_work_is() -> None:
    left = marked("old", FAILED, 1, checkpoint_id="fix@1.2.0/1")
    done = marked("collect", DONE, 2, checkpoint_id="fix@1.2.0/1")
    shown = overview(data(done, left, nodes="collect fix"))
    assert shown["phase"] == "fix"
    assert {name: phase["status"] for name, phase in shown["phases"].items()} == {
        "collect": "done",
        "fix": "pending",
    }


def test_a_phase_ends_with_its_last_step_and_names_the_last_file() -> None:
    shown = overview(
        data(
            marked("fix/write", DONE, 1, output_file="a.json"),
            marked("fix/review", DONE, 3, output_file="b.json"),
            marked("fix/check", DONE, 2),
            nodes="fix/write fix/check fix/review",
        )
    )
    fix = shown["phases"]["fix"]
    assert fix["completed_at"] == "2023-11-14T22:13:23+00:00"
    assert fix["output_file"] == "b.json"
    assert fix["steps"]["write"]["output_file"] == "a.json"
    assert "output_file" not in fix["steps"]["check"]


def test_a_phase_that_is_not_over_has_not_ended() -> None:
    fix = overview(data(marked("fix/write", DONE), nodes="fix/write fix/check"))["phases"]["fix"]
    assert fix["status"] == "in_progress"
    assert "completed_at" not in fix


def test_a_phase_whose_step_failed_says_why() -> None:
    steps = (marked("fix/write", DONE, 1), marked("fix/check", FAILED, 2, failure=FAILURE))
    fix = overview(data(*steps, nodes="fix/write fix/check"))["phases"]["fix"]
    assert (fix["status"], fix["error"]) == ("failed", "ValueError: no such account")


@pytest.mark.parametrize("node", ["fix", "fix[0]", "fix[0][1]"])
def test_a_step_has_the_file_of_a_call_in_it_unless_it_names_one_itself(node: str) -> None:
    result = StoredResult(ResultKind.PLAIN, '{"output_file":"of_a_call.json"}')
    row = pending(identity(node=node, at="fix@1.3.0/1")).done(result, now=NOW)
    shown = overview(data(marked("fix", DONE), calls=(row,)))
    assert shown["phases"]["fix"]["output_file"] == "of_a_call.json"
    shown = overview(data(marked("fix", DONE, output_file="own.json"), calls=(row,)))
    assert shown["phases"]["fix"]["output_file"] == "own.json"


def test_a_visit_does_not_show_the_file_of_the_visit_before() -> None:
    result = StoredResult(ResultKind.PLAIN, '{"output_file":"first.json"}')
    row = pending(identity(node="fix", at="fix@1.3.0/1")).done(result, now=NOW)
    again = marked("fix", IN_PROGRESS, 2, checkpoint_id="fix@1.3.0/2")
    assert overview(data(marked("fix", DONE, 1), again, calls=(row,)))["phases"] == {
        "fix": {"status": "in_progress"}
    }
