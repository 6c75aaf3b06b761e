"""Where is the ledger that some code names? At that place, or where its process was redirected to.

A crash test runs users' code in separate processes, and no ledger that this code names may be the
real one. The crash test sets here where those ledgers are instead. Every store asks when it opens,
and again when it reopens after a fork.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from nottwice.errors import StoreError
from nottwice.model.data.records import frozen_record


@frozen_record(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where the stores of a process find their ledgers."""

    path_of: Callable[[Path], Path] = lambda named: named
    """The path to use for a ledger that was named by a path."""
    server_of: Callable[[str], str] = lambda url: url
    """The URL to use for a ledger that was named by a PostgreSQL URL."""
    busy_seconds: float | None = None
    """How long to wait for other processes; None uses the store's own setting."""


AS_NAMED = Whereabouts()
_told = AS_NAMED


def told() -> Whereabouts:
    """Where ledgers are in this process."""
    return _told


def busy_seconds(wanted: float) -> float:
    """How long a store of this process waits for other processes that write."""
    return wanted if _told.busy_seconds is None else _told.busy_seconds


def tell(whereabouts: Whereabouts) -> None:
    """Redirect every ledger that this process opens from now on."""
    global _told
    _told = whereabouts


class OnDisk(ABC):
    """A store in the file system."""

    location: str
    _pid: int
    _path: Path
    """Where the ledger is in this process."""

    def _name(self, path: str | Path) -> None:
        """Remember the path that the store was opened with."""
        try:
            self._named_path = Path(path).expanduser().resolve()
        except (OSError, RuntimeError) as error:
            text = f"{path} is not a usable path ({error}). Nothing was opened."
            raise StoreError(text) from error
        self._reopening = threading.Lock()
        self._moved = False
        self._settle()

    def _settle(self) -> bool:
        """Find out where the ledger is in this process. True if it is not where it was before."""
        before = getattr(self, "location", None)
        self._path = _told.path_of(self._named_path)
        self.location = str(self._path)
        return self.location != before

    def _in_this_process(self) -> None:
        """Reopen after a fork: the child is another holder and needs its own locks."""
        if self._pid != os.getpid():
            with self._reopening:
                if self._pid != os.getpid():
                    # Kept for another try if ``_prepare`` fails: the new place may be empty.
                    self._moved = self._settle() or self._moved
                    self._prepare(create=self._moved)
                    self._moved = False

    @abstractmethod
    def _prepare(self, *, create: bool) -> None: ...
