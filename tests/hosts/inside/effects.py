"""The effect that every host is tested with: a line in a file, and a process that may die at it.

The line is the effect: it stays when the process is killed. A file beside it says when to die, and
is used up by the death, so that the next process lives.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def lines(folder: Path) -> list[str]:
    """What has taken effect."""
    file = folder / "effects"
    return file.read_text().split() if file.exists() else []


def plan_death(folder: Path, at: str) -> None:
    """The next process that comes here dies: ``before``, ``after`` or ``acknowledge``."""
    (folder / f"die-{at}").touch()


def die_if_planned(folder: Path, at: str) -> None:
    try:
        (folder / f"die-{at}").unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def take_effect(folder: Path, line: str) -> dict[str, str]:
    """Append the line. The process may be killed on either side of it."""
    die_if_planned(folder, "before")
    with (folder / "effects").open("a") as file:
        file.write(line + "\n")
    die_if_planned(folder, "after")
    slow = folder / "slow"
    if slow.exists():
        # Only the first attempt is slow: until the file says that it may go on.
        slow.rename(folder / "slowed")
        while not (folder / "go").exists():
            time.sleep(0.05)
    return {"did": line}


def wait_for(condition: object, *, seconds: float = 60.0) -> None:
    """Wait until a function returns true."""
    until = time.monotonic() + seconds
    assert callable(condition)
    while not condition():
        assert time.monotonic() < until, f"It did not happen within {seconds} s: {condition}"
        time.sleep(0.05)
