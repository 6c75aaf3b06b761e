"""What becomes of a run if its process dies at any line of the code that writes its files?

This file is a process of its own. For every line that the rooms which write JSON files execute, it
forks a child that does the work and dies of a real SIGKILL right before that line. Another child
then looks, resumes, and says what it found. Production code knows nothing of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import nottwice as nt
from nottwice.engine.clock import SystemClock
from nottwice.store.files import disk as jsonfile_disk
from nottwice.store.files import store as jsonfile
from nottwice.store.files.store import JsonFileStore

# What is killed: every line of the functions that write.
WRITING = {
    jsonfile_disk.__file__: set(
        "replace _write_beside _rename append remove make_folder sync_folder _opened _write_all "
        "sync".split()
    ),
    jsonfile.__file__: {"_create", "_write", "_append", "_replace"},
}
_kept: list[Any] = []


def call(folder: Path, *, dies: bool = False) -> None:
    """A run of one unsafe call, whose effect is a line in a file."""

    def append_line(number: int) -> dict[str, int]:
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        with (folder / "effects").open("a") as effects:
            effects.write(f"{number}\n")
        return {"number": number}

    act = nt.tool("unsafe_on_replay", name="append_line")(append_line)
    _kept.append(act)
    with nt.run("run", store=f"file:{folder / 'runs'}"):
        with nt.step("work"):
            act(1)


def decide_and_call(folder: Path) -> None:
    """A person decides beside the run, and then the run continues."""
    decide(folder, "did-not-happen")
    call(folder)


def decide(folder: Path, verb: str) -> None:
    reviews = nt.Reviews(f"file:{folder / 'runs'}")
    more: dict[str, Any] = {"result": {"number": 1}} if verb == "happened" else {}
    for case in reviews.open():
        if case.review.status.value == "open":
            reviews.decide(case.review.review_id, verb, by="ann", why="looked", **more)


def resume(folder: Path) -> None:
    """Look at what is there, end the doubt as the truth is, and continue to the end."""
    runs = folder / "runs"
    if (runs / ".nottwice" / "format.json").exists():
        before = JsonFileStore(runs, now=SystemClock().now(), create=False)
        before.runs(), before.calls("run"), before.reviews()
        before.close()
    try:
        call(folder)
    except nt.RunBlocked:
        decide(folder, "happened" if effects_of(folder) else "did-not-happen")
        call(folder)
    store = JsonFileStore(runs, now=SystemClock().now(), create=False)
    (run,), rows = store.runs(), store.calls("run")
    print(
        json.dumps(
            {
                "effects": effects_of(folder),
                "status": run.status.value,
                "calls": [row.status.value for row in rows],
                "attempts": [row.attempt for row in rows],
                "decisions": len([one for one in store.audit("run") if "decide" in one.action]),
                "reviews": [one.status.value for one in store.reviews("run")],
                "files": sorted(file.name for file in runs.iterdir()),
            }
        ),
        flush=True,
    )


def effects_of(folder: Path) -> int:
    effects = folder / "effects"
    return len(effects.read_text().splitlines()) if effects.exists() else 0


def doubt(folder: Path) -> None:
    """Leave a run behind that waits for a person: its process died in the middle of its tool."""
    in_child(lambda: call(folder, dies=True))
    in_child(lambda: call(folder))


def in_child(work: Callable[[], None]) -> int:
    """Do something in a process of its own; how that ended."""
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            work()
        except nt.RunBlocked:
            code = 3
        except BaseException:
            traceback.print_exc()
            code = 1
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def dying_at(point: int, work: Callable[[], None]) -> None:
    """Die right before the so-manieth line of those that write."""
    passed = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        writes = frame.f_code.co_name in WRITING.get(frame.f_code.co_filename, ())
        return watch if writes else None

    def watch(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal passed
        if event == "line":
            passed += 1
            if passed == point:
                os.kill(os.getpid(), signal.SIGKILL)
        return watch

    sys.settrace(trace)
    work()


SCENARIOS: dict[str, tuple[Callable[[Path], None], Callable[[Path], None]]] = {
    "call": (lambda folder: None, call),
    "decision": (doubt, decide_and_call),
}


def main(place: str, scenario: str, every: str) -> None:
    """Kill at every line, or at every so-manieth, until the work survives."""
    # A SIGKILL takes nothing from the kernel that was written; syncing would only take time here.
    setattr(os, "fsync", lambda descriptor: None)  # noqa: B010
    prepare, work = SCENARIOS[scenario]
    for point in range(1, 10_000, int(every)):
        folder = Path(place) / str(point)
        folder.mkdir()
        prepare(folder)
        ended = in_child(partial(dying_at, point, partial(work, folder)))
        print(json.dumps({"point": point, "ended": ended}), flush=True)
        again = in_child(partial(resume, folder))
        print(json.dumps({"resumed": again}), flush=True)
        if ended == 0:
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
