"""A store that counts the records it returns, and a ledger with many runs."""

from __future__ import annotations

import contextlib
from typing import Any

import nottwice as nt
from nottwice.guard.ledger import Ledger
from nottwice.model.call import CallIdentity, CallRow
from nottwice.model.run import RunRecord
from nottwice.store.interface import Store


class Loads:
    """A store that counts the runs and reviewed calls that it hands out."""

    reads_can_block = False

    def __init__(self, store: Store) -> None:
        self._store = store
        self.runs_loaded = 0
        self.calls_loaded = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def runs(self, **asked: Any) -> list[RunRecord]:
        found = self._store.runs(**asked)
        self.runs_loaded += len(found)
        return found

    def load_call(self, identity: CallIdentity) -> CallRow | None:
        self.calls_loaded += 1
        return self._store.load_call(identity)


@nt.tool("unsafe_on_replay", name="views_post")
def post(ticket: int) -> None:
    raise TimeoutError("no answer")


def many_runs(ledger: Ledger, *, completed: int, in_doubt: int) -> None:
    for number in range(completed):
        with ledger.run(f"done-{number}"):
            pass
    for number in range(in_doubt):
        with contextlib.suppress(nt.errors.ReplayUnsafeError), ledger.run(f"open-{number}"):
            post(number)
