"""A process that sends while its database fails over: what it sends is in a file, line by line.

    python -m tests.postgres.failing_over URL FOLDER RUN...

Each run has a thread. A run that is named ``quiet`` sends once and then waits in its tool until
the test makes the file ``go``; all others send until they are held, or the file ``stop`` is there.
The process says how each run ended, and the error that a held one ended with.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nottwice as nt

URL, FOLDER, RUNS = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
WAIT = threading.Event()


def note(line: str) -> None:
    descriptor = os.open(FOLDER / "sent", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


@nt.tool("unsafe_on_replay", name="send_while_failing_over")
def send(what: str) -> str:
    note(what)
    return what


@nt.tool("unsafe_on_replay", name="send_slowly_while_failing_over")
def send_slowly(what: str) -> str:
    note(what)
    while not (FOLDER / "go").exists():
        WAIT.wait(0.01)
    return what


def work(run_id: str) -> None:
    if run_id.startswith("quiet"):
        send_slowly(f"{run_id} slowly")
        send(f"{run_id} after that")
        return
    number = 0
    while not (FOLDER / "stop").exists():
        send(f"{run_id} {number}")
        number += 1


def drive(ledger: nt.Ledger, run_id: str) -> dict[str, str]:
    """What a careful caller does: begin again after trouble, until it is done or held."""
    while True:
        try:
            with ledger.run(run_id):
                work(run_id)
            return {"run": run_id, "ended": "done"}
        except nt.RunBlocked as held:
            return {"run": run_id, "ended": "held", "why": str(held)}
        except (nt.errors.OwnershipLost, nt.errors.StoreError, nt.errors.CommitUnknown, nt.RunBusy):
            WAIT.wait(0.05)


def main() -> None:
    with nt.Ledger(URL) as ledger, ThreadPoolExecutor(len(RUNS)) as pool:
        for ended in pool.map(lambda run_id: drive(ledger, run_id), RUNS):
            print(json.dumps(ended), flush=True)


if __name__ == "__main__":
    main()
