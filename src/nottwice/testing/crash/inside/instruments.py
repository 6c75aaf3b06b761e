"""The clock and the stores of a child.

Waiting takes no time, every ledger is in the folder of its examination, and every commit has a
point before and after it.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from nottwice.model.call import CallStatus
from nottwice.model.run import HolderRecord, Life
from nottwice.store.claiming import ClaimedRun, ClaimRequest
from nottwice.store.files.store import OWN_FOLDER
from nottwice.store.interface import Commit, commit_of
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing.crash.inside.link import ChildLink
from nottwice.testing.crash.inside.points import Points
from nottwice.testing.fatal import name_of


class StillClock:
    """Time does not advance except for pauses, which end immediately. The parent keeps the time."""

    def __init__(self, link: ChildLink, *, now: float, ahead_seconds: float) -> None:
        self._link = link
        self._now = now
        self._ahead_seconds = ahead_seconds

    def now(self) -> float:
        return self._now + self._ahead_seconds

    def pause(self, seconds: float) -> None:
        self._now = self._link.ask("pause", seconds=max(0.0, seconds))["now"]

    async def pause_async(self, seconds: float) -> None:
        self.pause(seconds)
        await asyncio.sleep(0)

    def random_unit(self) -> float:
        return 0.5

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Never call it: deferred calls would come at a different moment in every course."""


class Redirect:
    """Where the ledger that the code names by a path is in an examination."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def path_of(self, named: Path) -> Path:
        path = named.expanduser().resolve()
        if path.is_relative_to(self._folder):
            return path
        mark = hashlib.sha256(str(path).encode()).hexdigest()[:8]
        moved = self._folder / f"{mark}-{path.name}"
        if (path / OWN_FOLDER).is_dir():
            # A folder is recognised by its contents. The real one stays untouched.
            (moved / OWN_FOLDER).mkdir(parents=True, exist_ok=True)
        return moved


class CountedStore:
    """A store with a point before and after everything that it makes durable."""

    def __init__(self, store: Any, link: ChildLink, points: Points, *, elsewhere: bool) -> None:
        """``elsewhere``: nothing can be proven about other processes, as on another machine."""
        self._store = store
        self._points = points
        self._writes = Writes(link)
        # SQLite registers the process with its first commit.
        self._registered = isinstance(store, SqliteStore)
        if elsewhere:
            self.life_of = self._life_elsewhere

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, one: Commit) -> None:
        with self._points.around(name_of(one)):
            number = self._writes.begin(one)
            self._store.commit(one)
            self._writes.accepted(number)

    def commit_soon(self, one: Commit) -> Future[None]:
        self._points.reach(f"before {name_of(one)}")
        number = self._writes.begin(one)
        outer: Future[None] = Future()
        outer.set_running_or_notify_cancel()

        def passed_on(done: Future[None]) -> None:
            error = done.exception()
            if error is not None:
                outer.set_exception(error)
                return
            self._writes.accepted(number)
            # Only now, because the waiter must not run ahead of the point.
            self._points.reach(f"after {name_of(one)}")
            outer.set_result(None)

        self._store.commit_soon(one).add_done_callback(passed_on)
        return outer

    def claim_ready(self, wanted: ClaimRequest) -> list[ClaimedRun]:
        self._points.reach("before claiming runs")
        found: list[ClaimedRun] = self._store.claim_ready(wanted)
        claimed = [commit_of(one) for one in found if one.run is not None]
        for commit in claimed:
            # Which runs it writes is not known before.
            self._writes.accepted(self._writes.begin(commit))
        if claimed:
            self._points.reach("after claiming runs")
        return found

    def holder(self) -> HolderRecord:
        if self._registered:
            found: HolderRecord = self._store.holder()
            return found
        with self._points.around("registering the process"):
            record: HolderRecord = self._store.holder()
        self._registered = True
        return record

    def _life_elsewhere(self, holder_id: str) -> Life:
        own = self._store.holder()
        return Life.ALIVE if own.holder_id == holder_id else Life.NOT_PROVEN


_numbers = itertools.count()
"""Shared by all ledgers of this process: the parent identifies a write by its number."""


class Writes:
    """Tells the parent which holder starts to write, and that the write was accepted.

    The start counts. A process that is stopped between its commit and the report of it has still
    written before the process that came next.
    """

    def __init__(self, link: ChildLink) -> None:
        self._link = link

    def begin(self, commit: Commit) -> int:
        number = next(_numbers)
        epoch = commit.fence.epoch if commit.fence is not None else 0
        if commit.claim is not None:
            epoch = commit.claim.run.epoch
        done = [one.row.call_id for one in commit.calls if one.row.status is CallStatus.DONE]
        self._link.note("writing", number=number, run=commit.workflow_id, epoch=epoch, done=done)
        return number

    def accepted(self, number: int) -> None:
        self._link.note("wrote", number=number)
