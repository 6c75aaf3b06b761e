"""Where can a process die, and how does the demo kill it exactly there?

The points are before and after every write to the ledger and every request to the upstream. They
are in wrappers around the two seams, so production code does not know them. A process that reaches
its point is ended by a real SIGKILL: nothing is flushed, nothing unwinds.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from nottwice.engine.clock import SystemClock
from nottwice.model.call import CallStatus
from nottwice.store.interface import CallWrite, Commit
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing.world import WorldClient


class FatalPoints:
    """The points that this process has passed, and the one at which it dies."""

    def __init__(self, *, die_at: str | None = None) -> None:
        self.passed: list[str] = []
        self._die_at = die_at

    @contextlib.contextmanager
    def around(self, what: str) -> Iterator[None]:
        """A point before and a point after. The second exists only if nothing was raised."""
        self._reach(f"before {what}")
        yield
        self._reach(f"after {what}")

    def _reach(self, name: str) -> None:
        self.passed.append(name)
        if name == self._die_at:
            os.kill(os.getpid(), signal.SIGKILL)


class FatalStore(SqliteStore):
    """The SQLite ledger with a point before and after everything it makes durable.

    With ``intents=False`` it is broken on purpose: it drops intents and stores only results. A
    crash test that does not detect this is worthless.
    """

    def __init__(self, path: Path, points: FatalPoints, *, intents: bool = True) -> None:
        self._points = points
        self._intents = intents
        super().__init__(path, now=SystemClock().now())

    def commit(self, commit: Commit) -> None:
        """Apply one commit, between two points."""
        with self._points.around(name_of(commit)):
            super().commit(commit if self._intents else without_intents(commit))


class FatalClient(WorldClient):
    """The upstream's client with a point before and after every effect."""

    def __init__(self, url: str, points: FatalPoints) -> None:
        super().__init__(url)
        self._points = points

    def do(self, tool: str, /, **order: Any) -> Any:
        """Request one effect, between two points."""
        with self._points.around(f"the effect of {tool}"):
            return super().do(tool, **order)


def name_of(commit: Commit) -> str:
    """Return the purpose of a commit in words, ignoring pending writes that it also contains."""
    if commit.claim is not None:
        return "claiming the run"
    if commit.run is not None and commit.run.release:
        return "releasing the run"
    if not commit.calls:
        return _name_without_calls(commit)
    row = commit.calls[-1].row
    what = "intent" if row.status is CallStatus.PENDING else "receipt"
    return f"recording the {what} of {row.identity.tool_name}"


def _name_without_calls(commit: Commit) -> str:
    for records, name in (
        (commit.reviews, "writing a review"),
        (commit.events, "sending an event"),
        (commit.evidence, "recording evidence"),
        (commit.checkpoints, "saving a checkpoint"),
        (commit.steps, "marking a step"),
    ):
        if records:
            return name
    return "another commit"


def without_intents(commit: Commit) -> Commit:
    """Return the commit as a ledger would see it that records only results."""
    kept = [write for write in commit.calls if write.row.status is not CallStatus.PENDING]
    return replace(commit, calls=tuple(_as_if_first(write) for write in kept))


def _as_if_first(write: CallWrite) -> CallWrite:
    follows_intent = write.after is not None and write.after[0] is CallStatus.PENDING
    return replace(write, after=None) if follows_intent else write
