"""Is a process that a test did not start itself still running?"""

from __future__ import annotations

import subprocess
import time

LIMIT_SECONDS = 20.0


def is_running(pid: int) -> bool:
    # A process that ended may stay as a zombie where no process reaps orphans.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], stdout=subprocess.PIPE, text=True)
    return state.stdout.strip()[:1] not in ("", "Z")


def wait_until_ended(pid: int) -> None:
    give_up_at = time.monotonic() + LIMIT_SECONDS
    while is_running(pid):
        assert time.monotonic() < give_up_at, f"process {pid} is still running"
        time.sleep(0.01)
