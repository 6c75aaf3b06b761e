"""What does an agent do whose tools read the folder of its own ledger?

Three kinds of processes in one folder: agents that make calls while their threads copy every file
they find, one that opens and closes the ledger without end, and one that makes short runs. Each
notes outside of the ledger what it was told, so that a test can compare.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from pathlib import Path

import nottwice as nt

LEDGER = "agent.db"
EFFECTS = "effects.txt"
TOLD = "told.txt"
STOP = "stop"


def note(name: str, line: str) -> None:
    """Add a line to a file of the folder above: no reader of the ledger's folder closes that."""
    descriptor = os.open(Path("..") / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


def look_up(call: nt.Call) -> nt.Verification:
    """Whether the effect is on record."""
    line = f"{call.args['run']} {call.args['number']}"
    if line in Path("..", EFFECTS).read_text().splitlines():
        return nt.happened({"sent": line})
    return nt.did_not_happen()


@nt.tool("unsafe_on_replay", name="send_among_readers", verify=look_up, settles="1ms")
def send(run: str, number: int) -> dict[str, str]:
    """An effect that can be counted."""
    note(EFFECTS, f"{run} {number}")
    return {"sent": f"{run} {number}"}


def drive(name: str, runs: int, calls: int) -> None:
    """Make calls in one run after the other, or resume them, while threads read all files."""
    for _ in range(2):
        threading.Thread(target=_copy_without_end, args=(name,), daemon=True).start()
    for number in range(runs):
        make_run(f"{name}-{number}", calls)


def make_run(run: str, calls: int) -> None:
    with nt.run(run, store=LEDGER, acquire_timeout="30s"):
        for number in range(calls):
            send(run, number)
            note(TOLD, f"{run} {number}")


def look() -> None:
    """Open and close the ledger until told to stop."""
    while not Path("..", STOP).exists():
        with nt.Ledger(LEDGER, create=False) as ledger:
            ledger.store.runs(limit=5)


def visit(name: str) -> None:
    """Open the ledger, make a short run and close it, until told to stop."""
    number = 0
    while not Path("..", STOP).exists():
        number += 1
        run = f"{name}-{number}"
        with nt.Ledger(LEDGER, create=False) as ledger, ledger.run(run):
            send(run, 0)
            note(TOLD, f"{run} 0")


def _copy_without_end(name: str) -> None:
    while True:
        for end in ("", "-wal", "-shm"):
            # The log is gone whenever the last process that used it has closed it.
            with contextlib.suppress(FileNotFoundError):
                Path(LEDGER + end).read_bytes()
                shutil.copyfile(LEDGER + end, Path("..", f"copy-{name}{end}"))


if __name__ == "__main__":
    what, who, *numbers = sys.argv[1:]
    if what == "drive":
        drive(who, *map(int, numbers))
    elif what == "look":
        look()
    else:
        visit(who)
