"""The stores of a child: redirected into the folder of the examination, or refused (P146).

The stores of nottwice ask for their location (``store/machine/whereabouts.py``). For any other
store, the location of its ledger is unknown. Its commits would go to the real one, with results
that no tool returned.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from nottwice.errors import NottwiceError
from nottwice.store.files.store import JsonFileStore
from nottwice.store.interface import Store
from nottwice.store.memory import MemoryStore
from nottwice.store.sqlite.store import SqliteStore
from nottwice.testing.crash.inside.instruments import CountedStore
from nottwice.testing.crash.inside.link import ChildLink
from nottwice.testing.crash.inside.points import Points
from nottwice.testing.crash.view import THIRD_PARTY

MakeStore = Callable[[Path], Store]
_NOTHING = "No tool ran, and the crash test wrote nothing to it."
IN_MEMORY = (
    "A ledger in memory is lost with its process, so nothing can be resumed after a crash. Nothing "
    "was opened. Give the crash test code that opens a ledger by its path."
)


class Stores:
    """Chooses the store to use in place of the one that the work names."""

    def __init__(
        self,
        folder: Path,
        make: MakeStore | None,
        link: ChildLink,
        points: Points,
        *,
        elsewhere: bool,
    ) -> None:
        self._folder = folder
        self._make = make
        self._link = link
        self._points = points
        self._elsewhere = elsewhere
        # Keep a reference to the work's store beside ours, so that its id is not reused.
        self._ours: dict[int, tuple[Any, CountedStore]] = {}
        self._guard = threading.RLock()

    def counted(self, named: Any) -> Any:
        """Return the store in the folder of this examination, with every write counted."""
        if isinstance(named, CountedStore):
            return named
        with self._guard:
            if id(named) not in self._ours:
                counted = CountedStore(
                    self._redirected(named), self._link, self._points, elsewhere=self._elsewhere
                )
                self._ours[id(named)] = (named, counted)
            return self._ours[id(named)][1]

    @contextlib.contextmanager
    def opened(self) -> Iterator[list[Store]]:
        """Yield the ledgers in this examination's folder for reading, and close them."""
        if self._make is None:
            yield []
            return
        stores = [self._make(path) for path in sorted(self._folder.glob(f"{THIRD_PARTY}*"))]
        yield stores
        for store in stores:
            with contextlib.suppress(NottwiceError):
                store.close()

    def _redirected(self, named: Any) -> Any:
        if isinstance(named, SqliteStore | JsonFileStore) or _is_postgres(named):
            # It asks for its location itself, even if it was opened before the fork.
            return named
        if isinstance(named, MemoryStore):
            self._refuse(IN_MEMORY)
        kind = type(named).__name__
        if self._make is None:
            self._refuse(
                f"The work keeps its ledger in a {kind}, which is not part of nottwice, so the "
                f"crash test cannot protect the real ledger. {_NOTHING} Define how to open an "
                f"empty one in a folder: store=lambda folder: {kind}(folder) (on the command "
                "line: --redirect MODULE:FUNCTION)."
            )
        mark = hashlib.sha256(f"{kind} {named.location}".encode()).hexdigest()[:8]
        folder = self._folder / f"{THIRD_PARTY}{mark}"
        folder.mkdir(exist_ok=True)
        made = self._make(folder)
        if made is None or not hasattr(made, "commit"):
            self._refuse(f"store= returned {made!r}, which is not a store. {_NOTHING}")
        if made is named or made.location == named.location:
            self._refuse(
                f"store= opened {made.location}, which is the real ledger. {_NOTHING} Open the "
                "store in the folder that the function receives."
            )
        return made

    def _refuse(self, text: str) -> NoReturn:
        self._link.tell("refused", text=text)
        os._exit(0)


def _is_postgres(store: Any) -> bool:
    """Whether it is a PostgresStore. Checked by name: the driver need not be installed."""
    return any(
        (kind.__module__, kind.__name__) == ("nottwice.store.postgres.store", "PostgresStore")
        for kind in type(store).__mro__
    )
