"""Two real deployments on one ledger: old runs drain while new ones start, under kills."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.cli.workplace import Ended, Workplace, make_workplace

PLACES = ("before pay", "after pay", "between", "before mail", "after mail")
KILLED = -signal.SIGKILL


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    place = make_workplace(tmp_path / "place")
    shutil.copy(Path(__file__).with_name("deployment.py"), place.folder / "deployment.py")
    return place


def run(place: Workplace, app: str, run_id: str, *, kill: str = "", fail: str = "") -> Ended:
    return place.process("/bin/sh", "-c", f"exec {_line(app, run_id)}", KILL=kill, FAIL=fail)


def _line(app: str, run_id: str) -> str:
    line = f"nottwice run refund --id {run_id} --app deployment:{app} --store agent.db"
    return f"""{line} --input '{{"order": "{run_id}"}}'"""


def together(place: Workplace, *started: tuple[str, str, str]) -> list[int]:
    """Several processes at the same time, each with its deployment, its run and where it dies."""
    processes = [
        subprocess.Popen(
            ["/bin/sh", "-c", f"exec {_line(app, run_id)}"],
            cwd=place.folder,
            env={**place.environment(), "KILL": kill},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for app, run_id, kill in started
    ]
    return [process.wait(timeout=60) for process in processes]


def _migration(run_id: str) -> str:
    return (
        f"nottwice migrate {run_id} --to refund@2.0.0 --map notify=tell --map pay=pay --by ann"
        " --why 'the old code must go' --upgrade deployment:upgrade --app deployment:new"
        " --store agent.db"
    )


def effects(place: Workplace) -> Counter[str]:
    """How often each effect happened, whichever call it belonged to."""
    return Counter(line.rpartition(" ")[0] for line in place.world())


def drained(place: Workplace) -> dict[str, str]:
    lines = "runs --by-version --app deployment:both --json --store agent.db"
    (ended,) = place.lines(lines)
    return {one["graph"]: one["removal"] for one in json.loads(ended.stdout)["versions"]}


@pytest.mark.deep(part="sweeps")
def test_old_runs_drain_on_their_version_while_new_ones_start_under_kills(
    place: Workplace,
) -> None:
    for number, where in enumerate(PLACES):
        assert run(place, "old", f"old-{number}", kill=where).exit_code == KILLED
    # The new version alone takes new runs, is also killed, and leaves the old ones alone.
    for number, where in enumerate(PLACES):
        before = effects(place)
        refused = run(place, "new", f"old-{number}")
        assert refused.exit_code == 1
        assert "bound to refund@1.0.0" in refused.stderr
        assert effects(place) == before
        assert run(place, "new", f"new-{number}", kill=where).exit_code == KILLED
    assert drained(place) == {"refund@1.0.0": "open_runs", "refund@2.0.0": "new_runs"}
    # Side by side, or each by its own deployment: every run ends on the version it began with.
    for number in range(len(PLACES)):
        assert run(place, "old" if number % 2 else "both", f"old-{number}").exit_code == 0
        assert run(place, "new" if number % 2 else "both", f"new-{number}").exit_code == 0
    expected = {
        f"{what} {age}-{number}": 1
        for what in ("pay", "mail")
        for age in ("old", "new")
        for number in range(len(PLACES))
    }
    assert effects(place) == expected
    assert place.json("reviews")["reviews"] == []
    graphs = {one["run_id"][:3]: one["graph"] for one in place.json("runs", "--all")["runs"]}
    assert graphs == {"old": "refund@1.0.0", "new": "refund@2.0.0"}
    assert drained(place) == {"refund@1.0.0": "safe", "refund@2.0.0": "new_runs"}


@pytest.mark.deep(part="sweeps")
def test_both_deployments_at_the_same_time_each_end_what_they_began(place: Workplace) -> None:
    names = [("old", "old-1"), ("new", "new-1")]
    places = ("after pay", "between")
    started = [(age, name, where) for (age, name), where in zip(names, places, strict=True)]
    assert together(place, *started) == [KILLED] * len(started)
    assert together(place, *((age, name, "") for age, name in names)) == [0] * len(names)
    assert effects(place) == {f"{what} {name}": 1 for what in ("pay", "mail") for _, name in names}
    assert drained(place) == {"refund@1.0.0": "safe", "refund@2.0.0": "new_runs"}


@pytest.mark.deep(part="sweeps")
def test_a_killed_run_is_migrated_by_a_process_that_is_killed_too(place: Workplace) -> None:
    """Before a node's effect it goes over; in doubt it is refused until the old version ends it."""
    assert run(place, "old", "between", fail="between").exit_code == 1
    assert run(place, "old", "doubt", kill="after mail").exit_code == KILLED
    # Killed while it holds the run: the run is as it was, and typing the same again migrates it.
    ended = place.process("/bin/sh", "-c", f"exec {_migration('between')}", KILL="upgrade")
    assert ended.exit_code == KILLED
    shown = {one["run_id"]: one["graph"] for one in place.json("runs")["runs"]}
    assert shown == {"between": "refund@1.0.0", "doubt": "refund@1.0.0"}
    # The old deployment cannot touch what went over, and ends what was refused.
    lines = (
        _migration("between"),
        _migration("doubt"),
        _line("old", "between"),
        _line("old", "doubt"),
    )
    migrated, refused, *old = place.lines(*(line.removeprefix("nottwice ") for line in lines))
    assert migrated.exit_code == 0
    assert refused.exit_code == 3
    assert "it is not known whether" in refused.stdout
    assert [one.exit_code for one in old] == [1, 0]
    assert run(place, "new", "between", kill="before mail").exit_code == KILLED
    assert run(place, "new", "between").exit_code == 0
    assert effects(place) == {
        f"{what} {name}": 1 for what in ("pay", "mail") for name in ("between", "doubt")
    }
    assert drained(place) == {"refund@1.0.0": "safe", "refund@2.0.0": "new_runs"}
