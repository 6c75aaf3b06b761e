"""The moments of a process outlive it, and one of them kills."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from nottwice.testing.compare.journey import Journey, moments_in

NOWHERE = "http://127.0.0.1:9"


def test_moments_are_on_record_in_their_order(tmp_path: Path) -> None:
    journey = Journey(tmp_path, name="run", url=NOWHERE)
    journey.come_to("0", "begin")
    journey.come_to("0", "before the act")
    assert [one.phase for one in moments_in(tmp_path)] == ["begin", "before the act"]


def test_a_run_without_a_process_has_no_moments(tmp_path: Path) -> None:
    assert moments_in(tmp_path) == []


def test_a_process_dies_at_its_moment_counted_over_all_processes_of_the_run(tmp_path: Path) -> None:
    Journey(tmp_path, name="run", url=NOWHERE).come_to("0", "begin")
    pid = os.fork()
    if pid == 0:
        journey = Journey(tmp_path, name="run", url=NOWHERE, kill_at=3)
        for beat in "12345":
            journey.come_to(beat, "begin")
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    assert [one.beat for one in moments_in(tmp_path)] == ["0", "1", "2"]
