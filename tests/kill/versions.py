"""A run of a graph that is killed around its commits, again and again, and looked at each time.

Started by ``test_versions.py`` as a process of its own, because it forks for every kill.

    python -m tests.kill.versions LEDGER STEPS
"""

from __future__ import annotations

import os
import signal
import sys
import time
from itertools import cycle
from pathlib import Path
from typing import Any

import nottwice as nt
from nottwice.engine.upkeep import history
from nottwice.store.interface import Commit
from nottwice.store.sqlite.store import SqliteStore

RUN = "growing"
# So large that a process packs what it saved after its eighth step, and again after eight more.
BODY = "x" * 8_000
COMMITS = range(2, 20)

flow = nt.Graph("growing", version="1.0.0", append=("log",), checkpoints="every_step")


@flow.node(then={"more": "step", "done": nt.END}, most=10**6)
def step(state: dict[str, Any]) -> Any:
    number = state["number"] + 1
    to = "done" if number == state["steps"] else "more"
    return nt.goto(to, {"number": number, "log": [f"{number} {BODY}"]})


def killed(ledger: Path, steps: int, *, commits: int, after: bool) -> bool:
    """Continue the run in a child that dies at a commit; False: it came to its end."""
    child = os.fork()
    if child == 0:
        _die_at(commits, after=after)
        flow.run(RUN, {"number": 0, "steps": steps, "log": []}, store=ledger)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0 or os.WTERMSIG(status) == signal.SIGKILL, status
    return status != 0


def _die_at(commits: int, *, after: bool) -> None:
    real, left = SqliteStore.commit, [commits]

    def commit(self: SqliteStore, commit: Commit) -> None:
        # Two threads may count at the same moment, so zero itself may be passed unseen.
        left[0] -= 1
        if left[0] <= 0 and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        real(self, commit)
        if left[0] <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    SqliteStore.commit = commit  # type: ignore[method-assign]


def look(ledger: Path, *, last: int = 0) -> tuple[int, int]:
    """Load versions, all or the last ones. Answer: how many there are, how many are turned."""
    if not ledger.exists():
        return 0, 0
    store = SqliteStore(ledger, now=time.time())
    records = store.checkpoints(RUN) if store.load_run(RUN) is not None else []
    for record in records[-last:]:
        state = history.load(store, RUN, record.version)["state"]
        expected = [f"{number} {BODY}" for number in range(1, record.version + 1)]
        assert state["log"] == expected, record
        assert state["number"] == record.version, record
    store.close()
    return len(records), sum(record.snapshot > record.version for record in records)


def main() -> None:
    ledger, steps = Path(sys.argv[1]), int(sys.argv[2])
    kills, seen = 0, 0
    plans = cycle((commits, after) for commits in COMMITS for after in (False, True))
    for commits, after in plans:
        if not killed(ledger, steps, commits=commits, after=after):
            break
        kills += 1
        versions, _ = look(ledger, last=25)
        assert versions >= seen
        seen = versions
    print(kills, *look(ledger))


if __name__ == "__main__":
    main()
