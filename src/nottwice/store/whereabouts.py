"""Where does a ledger lie that some code names? Where it says, or where its process is told.

A crash test runs code of users in processes of its own, and no ledger that this code names may be
the real one. It says here where they lie instead. Every store asks when it opens, also when it
opens anew after a fork.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from nottwice.errors import StoreError
from nottwice.model.records import frozen_record


@frozen_record(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """What the stores of a process are told."""

    path_of: Callable[[Path], Path] = lambda named: named
    """The path of the ledger that is named by a path."""
    server_of: Callable[[str], str] = lambda url: url
    """The URL of the ledger that is named by one of PostgreSQL."""
    busy_seconds: float | None = None
    """How long to wait for other processes; None: as the store is told."""


AS_NAMED = Whereabouts()
_told = AS_NAMED


def told() -> Whereabouts:
    """Where ledgers lie in this process."""
    return _told


def busy_seconds(wanted: float) -> float:
    """How long a store of this process waits for other processes that write."""
    return wanted if _told.busy_seconds is None else _told.busy_seconds


def tell(whereabouts: Whereabouts) -> None:
    """Lead every ledger that this process opens from now on elsewhere."""
    global _told
    _told = whereabouts


class OnDisk(ABC):
    """A store in the file system."""

    location: str
    _pid: int
    _path: Path
    """Where it lies in this process."""

    def _name(self, path: str | Path) -> None:
        """Take note of the path that the store was named by."""
        try:
            self._named_path = Path(path).expanduser().resolve()
        except (OSError, RuntimeError) as error:
            text = f"{path} is not a usable path ({error}). Nothing was opened."
            raise StoreError(text) from error
        self._reopening = threading.Lock()
        self._moved = False
        self._settle()

    def _settle(self) -> bool:
        """Find out where the ledger lies in this process. True: not where it lay before."""
        before = getattr(self, "location", None)
        self._path = _told.path_of(self._named_path)
        self.location = str(self._path)
        return self.location != before

    def _in_this_process(self) -> None:
        """After a fork, open anew: this process is another holder, with locks of its own."""
        if self._pid != os.getpid():
            with self._reopening:
                if self._pid != os.getpid():
                    # Asked for again if that fails: where it lies now there may be nothing yet.
                    self._moved = self._settle() or self._moved
                    self._prepare(create=self._moved)
                    self._moved = False

    @abstractmethod
    def _prepare(self, *, create: bool) -> None: ...
