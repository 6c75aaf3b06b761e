"""A store that nottwice does not know: led into the examination's folder, or refused (P146).

The stores of nottwice are redirected by their classes. Where another store keeps its ledger is not
known here, so its commits would go to the real one, with results that no tool returned. Everything
reaches a store through a ledger or a run block, and both are watched here, also those that were
made before the fork. All of it is patched in after the fork and dies with the child.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from nottwice.errors import NottwiceError
from nottwice.guard.ledger import Ledger
from nottwice.guard.run import Run
from nottwice.model.run import HolderRecord
from nottwice.store.interface import Commit, Store
from nottwice.store.memory import MemoryStore
from nottwice.testing.crash import instruments
from nottwice.testing.crash.link import Link
from nottwice.testing.crash.points import Points
from nottwice.testing.crash.scratch import REFUSED, scratch_url
from nottwice.testing.crash.view import THIRD_PARTY

MakeStore = Callable[[Path], Store]
_NOTHING = "No tool ran, and the crash test wrote nothing to it."
IN_MEMORY = (
    "A ledger in memory is gone with its process, so nothing can be resumed after a crash. Nothing "
    "was opened. Give the crash test code that opens a ledger by its path."
)


class ThirdParty:
    """What a child does about stores that are not part of nottwice."""

    def __init__(self, folder: Path, make: MakeStore | None, link: Link, points: Points) -> None:
        self._folder = folder
        self._make = make
        self._link = link
        self._points = points
        self._elsewhere = False
        # The store that the work named is kept beside ours, so that its id stays its own.
        self._ours: dict[int, tuple[Any, _Counted]] = {}

    def install(self, *, elsewhere: bool) -> None:
        """Watch every ledger and every block; with ``elsewhere`` no holder can be proven dead."""
        self._elsewhere = elsewhere
        third_party = self

        def store_of(ledger: Ledger) -> Any:
            return third_party._safe(vars(ledger)["store"])

        def set_store(ledger: Ledger, store: Store) -> None:
            vars(ledger)["store"] = store

        Ledger.store = property(store_of, set_store)  # type: ignore[assignment]
        check_fresh = Run._check_fresh

        def check_and_redirect(block: Run) -> None:
            opening = block._opening
            block._opening = replace(opening, store=third_party._safe(opening.store))
            check_fresh(block)

        Run._check_fresh = check_and_redirect  # type: ignore[method-assign, assignment]

    @contextlib.contextmanager
    def opened(self) -> Iterator[list[Store]]:
        """The ledgers that lie in this examination's folder, to be looked at; closed afterwards."""
        if self._make is None:
            yield []
            return
        stores = [self._make(path) for path in sorted(self._folder.glob(f"{THIRD_PARTY}*"))]
        yield stores
        for store in stores:
            with contextlib.suppress(NottwiceError):
                store.close()

    def _safe(self, named: Any) -> Any:
        """The store that may be used in place of the one that the work names."""
        if isinstance(named, (_Counted, *instruments.STORES)):
            return named
        if _is_postgres(named):
            # Without a scratch database, one that was opened before the fork is the real ledger.
            return named if scratch_url() is not None else self._refuse(REFUSED)
        if isinstance(named, MemoryStore):
            self._refuse(IN_MEMORY)
        if id(named) not in self._ours:
            self._ours[id(named)] = (named, self._redirected(named))
        return self._ours[id(named)][1]

    def _redirected(self, named: Any) -> _Counted:
        kind = type(named).__name__
        if self._make is None:
            self._refuse(
                f"The work keeps its ledger in a {kind}, which is not part of nottwice, so the "
                f"crash test cannot keep it away from the real ledger. {_NOTHING} Say how to open "
                f"an empty one in a folder: store=lambda folder: {kind}(folder) (on the command "
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
                "store in the folder that the function is given."
            )
        return _Counted(made, self._link, self._points, elsewhere=self._elsewhere)

    def _refuse(self, text: str) -> NoReturn:
        self._link.tell("refused", text=text)
        os._exit(0)


def _is_postgres(store: Any) -> bool:
    """Asked by name: the driver need not be installed."""
    return any(
        (kind.__module__, kind.__name__) == ("nottwice.store.postgres", "PostgresStore")
        for kind in type(store).__mro__
    )


class _Counted:
    """A third party's store with a point before and after everything that it makes durable."""

    def __init__(self, store: Any, link: Link, points: Points, *, elsewhere: bool) -> None:
        self._store = store
        self._points = points
        self._writes = instruments.Writes(link)
        self._registered = False
        if elsewhere:
            self.life_of = lambda holder_id: instruments.life_elsewhere(self, holder_id)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, one: Commit) -> None:
        instruments.count_commit(self._store.commit, one, self._points, self._writes)

    def commit_soon(self, one: Commit) -> Future[None]:
        return instruments.count_soon(self._store.commit_soon, one, self._points, self._writes)

    def holder(self) -> HolderRecord:
        if self._registered:
            found: HolderRecord = self._store.holder()
            return found
        with self._points.around("registering the process"):
            record: HolderRecord = self._store.holder()
        self._registered = True
        return record
