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


def looks(folder: Path) -> int:
    """How often the ``verify`` of a tool that must wait was asked."""
    file = folder / "looks"
    return len(file.read_text().split()) if file.exists() else 0


def plan_death(folder: Path, at: str, *, whole: bool = False) -> None:
    """The next process that comes here dies: ``before`` or ``after`` the effect, or when the call
    has returned and its host has not yet heard of it (``acknowledge``), or ``between`` two steps.

    ``whole``: all processes of its group die with it.
    """
    (folder / f"die-{at}").write_text("group" if whole else "")


def die_if_planned(folder: Path, at: str) -> None:
    plan = folder / f"die-{at}"
    try:
        whole = plan.read_text() == "group"
        plan.unlink()
    except FileNotFoundError:
        return
    os.kill(-os.getpgrp() if whole else os.getpid(), signal.SIGKILL)


def take_effect(folder: Path, line: str) -> dict[str, str]:
    """Append the line. The process may be killed on either side of it."""
    die_if_planned(folder, "before")
    with (folder / "effects").open("a") as file:
        file.write(line + "\n")
    die_if_planned(folder, "after")
    if _is_slow(folder):
        while not (folder / "go").exists():
            time.sleep(0.05)
    return {"did": line}


def _is_slow(folder: Path) -> bool:
    """Whether this attempt lasts until the file ``go`` is there: the first one, or all."""
    if (folder / "all-slow").exists():
        return True
    try:
        (folder / "slow").rename(folder / "slowed")
    except FileNotFoundError:
        return False
    return True


def wait_for(condition: object, *, seconds: float = 150.0) -> None:
    """Wait until a function returns true."""
    until = time.monotonic() + seconds
    assert callable(condition)
    while not condition():
        assert time.monotonic() < until, f"It did not happen within {seconds} s: {condition}"
        time.sleep(0.05)
