"""What does a process do whose syncs are counted? Steps of a plain run, with one call each.

python -m tests.guard.sync_programs FOLDER "KIND STEPS CHECKPOINTS"...
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import nottwice as nt
from tests.fakes import UnhurriedClock


@nt.tool("pure")
def look(number: int) -> int:
    return number


@nt.tool("pure", volatile="*")
def ask_model(number: int) -> int:
    return number


@nt.tool("pure", durable=True)
def look_durably(number: int) -> int:
    return number


@nt.tool("unsafe_on_replay")
def act(number: int) -> int:
    return number


def recorded(number: int) -> int:
    return nt.recorded("reply", lambda: number)


KINDS = {one.__name__: one for one in (look, ask_model, look_durably, act, recorded)}


def main(folder: str, *cases: str) -> None:
    """Do no step and then so many of each case, and say between them where one ends."""
    for case in cases:
        kind, steps, checkpoints = case.split()
        for count in (0, int(steps)):
            os.chdir(folder)
            place = Path(folder, case, str(count))
            place.mkdir(parents=True)
            work(place / "ledger.db", kind, count, checkpoints)


def work(path: Path, kind: str, steps: int, checkpoints: str) -> None:
    words = int(checkpoints) if checkpoints.isdigit() else checkpoints
    with nt.Ledger(path, clock=UnhurriedClock()) as ledger, ledger.run("r", checkpoints=words):
        for number in range(steps):
            with nt.step("turn", at=number):
                assert KINDS[kind](number) == number


if __name__ == "__main__":
    main(*sys.argv[1:])
