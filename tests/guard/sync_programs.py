"""What does a process do whose syncs are counted? Steps of a plain run, with one call each.

python -m tests.guard.sync_programs LEDGER KIND STEPS CHECKPOINTS
"""

from __future__ import annotations

import sys

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


def main(path: str, kind: str, steps: str, checkpoints: str) -> None:
    words = int(checkpoints) if checkpoints.isdigit() else checkpoints
    with nt.Ledger(path, clock=UnhurriedClock()) as ledger, ledger.run("r", checkpoints=words):
        for number in range(int(steps)):
            with nt.step("turn", at=number):
                assert KINDS[kind](number) == number


if __name__ == "__main__":
    main(*sys.argv[1:])
