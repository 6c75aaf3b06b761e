"""Two real deployments on one ledger: old runs drain while new ones start, under kills."""

from __future__ import annotations

import json
import shutil
import signal
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


def run(place: Workplace, app: str, run_id: str, *, kill: str = "") -> Ended:
    line = f"nottwice run refund --id {run_id} --app deployment:{app} --store agent.db"
    given = f"""--input '{{"order": "{run_id}"}}'"""
    return place.process("/bin/sh", "-c", f"exec {line} {given}", KILL=kill)


def effects(place: Workplace) -> Counter[str]:
    """How often each effect happened, whichever call it belonged to."""
    return Counter(line.rpartition(" ")[0] for line in place.world())


def drained(place: Workplace) -> dict[str, str]:
    lines = "runs --by-version --app deployment:both --json --store agent.db"
    (ended,) = place.lines(lines)
    return {one["graph"]: one["removal"] for one in json.loads(ended.stdout)["versions"]}


@pytest.mark.slow
def test_old_runs_drain_on_their_version_while_new_ones_start_under_kills(
    place: Workplace,
) -> None:
    for number, where in enumerate(PLACES):
        assert run(place, "old", f"old-{number}", kill=where).exit_code == KILLED
    # The new version alone takes new runs, is killed as well, and leaves the old ones alone.
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
