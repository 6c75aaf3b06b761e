"""Does the process that writes a ledger lose no commit by reading its files? (P110)

Closing a file drops every POSIX lock that the process has on it, SQLite's own among them.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.kill.processes import ROOT
from tests.kill.readers import EFFECTS, LEDGER, STOP, TOLD, make_run

SEED = int(os.environ.get("NOTTWICE_SEED", random.randrange(10**9)))
CALLS = 25


class Folder:
    """A ledger in a folder of its own, and the processes that work there."""

    def __init__(self, path: Path) -> None:
        self.above = path
        self.place = path / "ledger"
        self.place.mkdir()

    def start(self, what: str, who: str, *numbers: int) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.kill.readers", what, who, *map(str, numbers)]
        path = os.pathsep.join((str(ROOT), str(ROOT / "src")))
        with (self.above / "errors.txt").open("ab") as errors:
            return subprocess.Popen(
                words, cwd=self.place, env={**os.environ, "PYTHONPATH": path}, stderr=errors
            )

    def lines(self, name: str) -> list[str]:
        # The last line may be a half, of a process that was killed.
        return (self.above / name).read_text().splitlines()

    def wait_for(self, process: subprocess.Popen[bytes], name: str, *, calls: int) -> None:
        """Until that many more calls of a driver were told to have happened."""
        wanted = calls + self._calls_of(name)
        over = time.monotonic() + 60
        while self._calls_of(name) < wanted:
            assert process.poll() is None, (self.above / "errors.txt").read_text()
            assert time.monotonic() < over, "it makes no progress"
            time.sleep(0.01)

    def _calls_of(self, name: str) -> int:
        return len({line for line in self.lines(TOLD) if line.startswith(f"{name}-")})


@pytest.mark.parametrize("kills", [2, pytest.param(12, marks=pytest.mark.deep(part="sweeps"))])
def test_no_commit_is_lost_while_the_process_that_writes_also_reads_and_closes_all_files(
    kills: int, tmp_path: Path
) -> None:
    chosen = random.Random(SEED)
    folder = Folder(tmp_path)
    first = folder.start("drive", "first", 1, 1)
    assert first.wait(30) == 0, (tmp_path / "errors.txt").read_text()
    others = [folder.start("look", "look"), folder.start("visit", "visit")]
    drivers = {name: folder.start("drive", name, 400, CALLS) for name in ("a", "b")}
    try:
        for _ in range(kills):
            name = chosen.choice(sorted(drivers))
            folder.wait_for(drivers[name], name, calls=chosen.randrange(10, 40))
            drivers[name].kill()
            drivers[name].wait()
            drivers[name] = folder.start("drive", name, 400, CALLS)
    finally:
        (tmp_path / STOP).touch()
        codes = [other.wait(30) for other in others]
        for driver in drivers.values():
            driver.kill()
            driver.wait()
    assert codes == [0, 0], (tmp_path / "errors.txt").read_text()
    assert not (tmp_path / "errors.txt").read_text()
    _check(folder, kills)


def _check(folder: Folder, kills: int) -> None:
    told = set(folder.lines(TOLD))
    begun = {line.split()[0] for line in told if line[:2] in ("a-", "b-")}
    here = os.getcwd()
    os.chdir(folder.place)
    try:
        for run in sorted(begun):
            make_run(run, CALLS)
    finally:
        os.chdir(here)
    twice = [line for line, times in Counter(folder.lines(EFFECTS)).items() if times > 1]
    assert not twice, f"seed {SEED}: {twice}"
    with closing(sqlite3.connect(folder.place / LEDGER)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        done = connection.execute(
            "SELECT workflow_id || ' ' || json_extract(args_json, '$.number')"
            " FROM tool_call_results WHERE status = 'DONE'"
        ).fetchall()
    assert told <= {line for (line,) in done}, f"seed {SEED}"
    assert len(told) > 10 * kills
