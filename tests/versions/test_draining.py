"""What still drains, and what can be removed without stranding a run."""

from __future__ import annotations

from nottwice.model.run import RunStatus
from nottwice.model.runs.tally import DECIDED, RunGroup
from nottwice.versions.draining import VersionRemoval, VersionView, drains, taker_of


def run(
    graph_id: str | None,
    status: RunStatus = RunStatus.WAITING,
    *,
    began: float = 5.0,
    waits: tuple[str, ...] = (),
    version: str | None = None,
    queued: bool = False,
    ready: bool = False,
    runs: int = 1,
) -> RunGroup:
    return RunGroup(
        graph_id=graph_id,
        version=version,
        status=status,
        queued=queued,
        waits=waits,
        ready=ready,
        runs=runs,
        oldest_at=None if status.is_final else began,
    )


def removals(runs: list[RunGroup], deployed: list[str] | None) -> dict[str | None, VersionRemoval]:
    return {view.graph_id: view.removal for view in drains(runs, deployed=deployed)}


def test_runs_without_a_graph_are_counted_by_the_version_that_they_have() -> None:
    said = {"1.10.0": RunStatus.COMPLETED, "1.9.0": RunStatus.FAILED}
    runs = [run(None, status, version=version) for version, status in said.items()]
    found = drains([*runs, run(None), run("a@1.0.0")], deployed=["a@1.0.0"])
    assert [(view.graph_id, view.version, view.removal) for view in found] == [
        ("a@1.0.0", "1.0.0", VersionRemoval.NEW_RUNS),
        (None, "1.9.0", VersionRemoval.OPEN_RUNS),
        (None, "1.10.0", VersionRemoval.NO_OPEN_RUNS),
    ]


def test_each_version_says_how_many_are_open_how_old_and_what_they_wait_for() -> None:
    runs = [
        run("a@1.0.0", waits=("review",), began=3.0),
        run("a@1.0.0", waits=("review", "timer"), began=2.0),
        run("a@1.0.0", waits=(DECIDED, "timer"), ready=True, runs=4),
        run("a@1.0.0", RunStatus.FAILED),
        run("a@1.0.0", RunStatus.COMPLETED, began=1.0),
        run("a@1.0.0", RunStatus.ABORTED, began=1.0),
        run(None),
    ]
    assert drains(runs, deployed=["a@2.0.0", "a@1.0.1"])[0] == VersionView(
        graph_id="a@1.0.0",
        version="1.0.0",
        runs=9,
        open=7,
        oldest_at=2.0,
        waits=(("failed", 1), ("ready", 4), ("review", 2), ("timer", 1)),
        taken_by="a@1.0.1",
        removal=VersionRemoval.GONE,
    )


def test_queued_runs_are_not_counted_as_running() -> None:
    queued = run("a@1.0.0", RunStatus.RUNNING, began=1.0, queued=True)
    (view,) = drains([queued, run("a@1.0.0", RunStatus.RUNNING)], deployed=None)
    assert view.waits == (("queued", 1), ("running", 1))


def test_versions_come_in_their_own_order_and_deployed_ones_without_runs_too() -> None:
    runs = [run("b@1.10.0"), run("b@1.9.0")]
    found = drains(runs, deployed=["a@1.0.0"])
    assert [view.graph_id for view in found] == ["a@1.0.0", "b@1.9.0", "b@1.10.0"]


def test_a_version_with_open_runs_is_not_safe_to_remove() -> None:
    deployed = ["a@1.0.0", "a@2.0.0"]
    assert removals([run("a@1.0.0")], deployed) == {
        "a@1.0.0": VersionRemoval.OPEN_RUNS,
        "a@2.0.0": VersionRemoval.NEW_RUNS,
    }
    over = [run("a@1.0.0", RunStatus.COMPLETED)]
    assert removals(over, deployed)["a@1.0.0"] is VersionRemoval.SAFE


def test_a_patch_is_needed_by_the_runs_of_earlier_patches() -> None:
    found = removals([run("a@1.0.0")], ["a@1.0.1", "a@1.0.2", "a@2.0.0"])
    assert found == {
        "a@1.0.0": VersionRemoval.GONE,
        "a@1.0.1": VersionRemoval.SAFE,
        "a@1.0.2": VersionRemoval.OPEN_RUNS,
        "a@2.0.0": VersionRemoval.NEW_RUNS,
    }


def test_open_runs_that_nothing_deployed_can_take_stand_out() -> None:
    assert removals([run("a@1.0.0")], ["a@1.1.0"])["a@1.0.0"] is VersionRemoval.MISSING
    over = [run("a@1.0.0", RunStatus.COMPLETED)]
    assert removals(over, ["a@1.1.0"])["a@1.0.0"] is VersionRemoval.GONE


def test_without_the_code_the_answer_is_unknown() -> None:
    assert removals([run("a@1.0.0")], None) == {"a@1.0.0": VersionRemoval.UNKNOWN}


def test_a_run_is_taken_by_the_latest_patch_of_its_own_version() -> None:
    deployed = ["a@1.0.9", "a@1.0.10", "a@1.1.0", "b@1.0.11"]
    assert taker_of("a@1.0.0", deployed) == "a@1.0.10"
    assert taker_of("a@2.0.0", deployed) is None
