"""Stores and clock in a child: every ledger lies in the examination's own folder, every commit has
a point before and after it, and waiting takes no time.

All of it is patched in after the fork and dies with the child.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from nottwice.engine.clock import SystemClock
from nottwice.guard import ledger
from nottwice.model.call import CallStatus
from nottwice.model.run import HolderRecord, Life
from nottwice.store import jsonfile, sqlite
from nottwice.store.interface import Commit
from nottwice.store.jsonfile import JsonFileStore
from nottwice.store.sqlite import SqliteStore
from nottwice.testing.crash.link import Link
from nottwice.testing.crash.points import Points
from nottwice.testing.crash.scratch import redirect_postgres
from nottwice.testing.fatal import name_of

STORES: tuple[type[Any], ...] = (SqliteStore, JsonFileStore)


def install_clock(link: Link, *, now: float, ahead_seconds: float) -> None:
    """Time stands still except for pauses, which are over at once. The parent keeps the time."""
    clock = _Time(link, now, ahead_seconds)
    SystemClock.now = lambda self: clock.read()  # type: ignore[assignment]
    SystemClock.pause = lambda self, seconds: clock.pass_by(seconds)  # type: ignore[method-assign]
    SystemClock.pause_async = lambda self, seconds: clock.pass_by_async(seconds)  # type: ignore
    SystemClock.random_unit = lambda self: 0.5  # type: ignore[method-assign]
    # What is put off until later comes at another moment in every course; here it never comes.
    SystemClock.later = lambda self, seconds, call: None  # type: ignore[method-assign]


class _Time:
    def __init__(self, link: Link, now: float, ahead_seconds: float) -> None:
        self._link = link
        self._now = now
        self._ahead_seconds = ahead_seconds

    def read(self) -> float:
        return self._now + self._ahead_seconds

    def pass_by(self, seconds: float) -> None:
        self._now = self._link.ask("pause", seconds=max(0.0, seconds))["now"]

    async def pass_by_async(self, seconds: float) -> None:
        self.pass_by(seconds)
        await asyncio.sleep(0)


def install_stores(
    folder: Path, link: Link, points: Points, *, elsewhere: bool, busy_seconds: float | None
) -> None:
    """Redirect every ledger into ``folder`` and count what is made durable.

    With ``elsewhere`` nothing can be proven about other processes, as on another machine.
    ``busy_seconds`` is how long to wait for one that is stopped while it writes.
    """
    redirect = Redirect(folder)
    ledger._local_path = redirect.path_of
    ledger._shared.clear()
    # Another process that is still there is only stopped, and waited for shortly.
    alone = busy_seconds is None
    on_server = redirect_postgres(folder, link, alone=alone, busy_seconds=busy_seconds)
    for kind in STORES:
        _redirect_class(kind, redirect, busy_seconds)
    for kind in STORES if on_server is None else (*STORES, on_server):
        _count_class(kind, link, points)
        if elsewhere:
            kind.life_of = life_elsewhere
    for opened in (*sqlite._stores, *jsonfile._stores):
        _move(opened, redirect)


class Redirect:
    """Where the ledger that some code names lies in an examination."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._bare = ledger._local_path

    def path_of(self, given: str | Path, *, opens_now: bool = True) -> Path:
        if str(given) == ledger.MEMORY:
            return Path(given)
        path = self._bare(given).absolute()
        if path.is_relative_to(self._folder):
            return path
        as_folder = str(given).startswith(ledger.FOLDER) or path.is_dir()
        mark = hashlib.sha256(str(path).encode()).hexdigest()[:8]
        moved = self._folder / f"{mark}-{path.name}"
        if opens_now and as_folder and path.is_dir():
            # A folder is recognised by being one; the real one stays untouched.
            moved.mkdir(exist_ok=True)
        return moved


def _redirect_class(kind: type[Any], redirect: Redirect, busy_seconds: float | None) -> None:
    bare = kind.__init__

    def redirected(self: Any, path: str | Path, **options: Any) -> None:
        if busy_seconds is not None:
            options["busy_seconds"] = busy_seconds
        bare(self, redirect.path_of(path), **options)

    kind.__init__ = redirected


def _move(opened: Any, redirect: Redirect) -> None:
    """A store that was opened before the fork: it opens anew, and is to do so in our folder."""
    attribute = "_path" if isinstance(opened, SqliteStore) else "_folder"
    # Other code of this process may have opened it, and the work may never ask for it.
    path = redirect.path_of(getattr(opened, attribute), opens_now=False)
    setattr(opened, attribute, path)
    opened.location = str(path)
    if isinstance(opened, JsonFileStore):
        opened._own = path / jsonfile.OWN_FOLDER
    bare = opened._prepare
    opened._prepare = lambda *, create: bare(create=True)


def life_elsewhere(self: Any, holder_id: str) -> Life:
    own: HolderRecord = self.holder()
    return Life.ALIVE if own.holder_id == holder_id else Life.NOT_PROVEN


def _count_class(kind: type[Any], link: Link, points: Points) -> None:
    """Wrap the methods that make something durable."""
    commit, commit_soon, holder = kind.commit, kind.commit_soon, kind.holder
    told = Writes(link)

    def counted_commit(self: Any, one: Commit) -> None:
        count_commit(functools.partial(commit, self), one, points, told)

    def counted_commit_soon(self: Any, one: Commit) -> Future[None]:
        return count_soon(functools.partial(commit_soon, self), one, points, told)

    def counted_holder(self: Any) -> HolderRecord:
        self._in_this_process()
        if self._registered:
            found: HolderRecord = holder(self)
            return found
        points.reach("before registering the process")
        record: HolderRecord = holder(self)
        points.reach("after registering the process")
        return record

    kind.commit, kind.commit_soon = counted_commit, counted_commit_soon
    if kind is not SqliteStore:
        # SQLite registers the process with its first commit.
        kind.holder = counted_holder


def count_commit(
    commit: Callable[[Commit], None], one: Commit, points: Points, told: Writes
) -> None:
    """Make a commit durable, with a point before and after it."""
    with points.around(name_of(one)):
        number = told.begin(one)
        commit(one)
        told.accepted(number)


def count_soon(
    commit_soon: Callable[[Commit], Future[None]], one: Commit, points: Points, told: Writes
) -> Future[None]:
    """The same for a commit whose caller waits for it later."""
    points.reach(f"before {name_of(one)}")
    number = told.begin(one)
    outer: Future[None] = Future()
    outer.set_running_or_notify_cancel()

    def passed_on(done: Future[None]) -> None:
        error = done.exception()
        if error is not None:
            outer.set_exception(error)
            return
        told.accepted(number)
        # Only then: the waiter must not run ahead of the point.
        points.reach(f"after {name_of(one)}")
        outer.set_result(None)

    commit_soon(one).add_done_callback(passed_on)
    return outer


class Writes:
    """Tells the parent which holder begins to write, and that it was let to.

    The beginning counts: a process that is stopped between its commit and the news of it has still
    written before whoever came then.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._numbers = itertools.count()

    def begin(self, commit: Commit) -> int:
        number = next(self._numbers)
        epoch = commit.fence.epoch if commit.fence is not None else 0
        if commit.claim is not None:
            epoch = commit.claim.run.epoch
        done = [one.row.call_id for one in commit.calls if one.row.status is CallStatus.DONE]
        self._link.note("writing", number=number, run=commit.workflow_id, epoch=epoch, done=done)
        return number

    def accepted(self, number: int) -> None:
        self._link.note("wrote", number=number)
