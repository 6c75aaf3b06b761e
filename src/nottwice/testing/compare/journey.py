"""What happens to a process on its way through a task? Its moments are recorded, one kills it.

The record is a file that outlives the process. Every way of keeping state passes the same kinds of
moments: a beat begins, an act is about to happen, an act has happened.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from nottwice.model.data.records import frozen_record
from nottwice.testing.world import WorldClient

RECORD = "moments.txt"


@frozen_record(frozen=True, slots=True)
class JourneyMoment:
    """A point that a process reached."""

    process: int
    beat: str
    phase: str
    at: float
    """By the monotonic clock, which all processes of a machine share."""


class Journey:
    """One process on its way. ``kill_at`` counts the moments of all processes of the run."""

    def __init__(self, folder: Path, *, name: str, url: str, kill_at: int | None = None) -> None:
        self.folder = folder
        self.name = name
        self.client = WorldClient(url)
        self._kill_at = kill_at
        self._guard = threading.Lock()
        self._record = os.open(folder / RECORD, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._passed = len(moments_in(folder))

    def come_to(self, beat: str, phase: str) -> None:
        """Pass a moment, or die there."""
        with self._guard:
            line = f"{os.getpid()}\t{beat}\t{phase}\t{time.monotonic():.6f}\n"
            os.write(self._record, line.encode())
            self._passed += 1
            if self._passed == self._kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    def act(
        self, tool: str, beat: str, *, key: str | None = None, call_id: str | None = None
    ) -> str:
        """Change the world, with a moment before and a moment after."""
        self.come_to(beat, "before the act")
        done = self.client.do(
            tool, key=key, call_id=call_id, result=f"{tool} {beat}", run=self.name, beat=beat
        )
        self.come_to(beat, "after the act")
        return str(done)


def moments_in(folder: Path) -> list[JourneyMoment]:
    """Return all moments that the processes of a run reached, in order."""
    path = folder / RECORD
    if not path.exists():
        return []
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        process, beat, phase, at = line.split("\t")
        found.append(JourneyMoment(int(process), beat, phase, float(at)))
    return found
