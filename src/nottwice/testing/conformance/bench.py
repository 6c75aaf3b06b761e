"""What must the author of a store provide, and how does the suite report what is wrong?

Nothing here needs pytest. A method whose name starts with ``test_`` is a claim, and a claim that
does not hold raises. Plain ``assert`` is not used, because it vanishes with ``python -O``, and
because the reader of the message did not write the test.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from nottwice.errors import UsageError
from nottwice.store.interface import Store
from nottwice.testing.conformance.others import Other, OtherProcess
from nottwice.testing.conformance.samples import NOW

F = TypeVar("F", bound=Callable[..., None])
_MOST_SHOWN = 2_000


class NotConforming(AssertionError):
    """A store does not do what every store must do."""


def expect(actual: object, expected: object, what: str) -> None:
    """Compare what a store shows with what it must show."""
    if actual != expected:
        shown, wanted = _short(actual), _short(expected)
        raise NotConforming(f"{what}.\n  The store shows: {shown}\n  It must show:    {wanted}")


@contextlib.contextmanager
def refused(*kinds: type[BaseException], what: str) -> Iterator[list[BaseException]]:
    """The block must be refused with one of these errors. The list then holds the error."""
    caught: list[BaseException] = []
    names = " or ".join(kind.__name__ for kind in kinds)
    try:
        yield caught
    except kinds as error:
        caught.append(error)
        return
    except Exception as error:
        raise NotConforming(f"{what} must be refused with {names}, not {error!r}.") from error
    raise NotConforming(f"{what} was accepted; it must be refused with {names}.")


def needs(capability: str) -> Callable[[F], F]:
    """Mark a claim that only applies to stores with this capability."""

    def mark(claim: F) -> F:
        claim.needs = capability  # type: ignore[attr-defined]
        return claim

    return mark


class Bench:
    """What the suite needs from the author of a store. Only ``open_store`` is required."""

    durable: ClassVar[bool] = True
    """Another process finds what this one has written."""
    proves_death: ClassVar[bool] = True
    """A killed holder is proven dead immediately. Stores with leases may not be able to."""

    def open_store(self, place: Path, now: float) -> Store:
        """Open another store on the data at ``place``, a folder that is empty at first."""
        raise UsageError(
            f"{type(self).__name__} does not define how to open its store. Nothing was tested. "
            "Define open_store(self, place, now)."
        )

    def start_other(self, place: Path) -> Other:
        """Start a holder that is not this process. For stores in memory, use another store."""
        return OtherProcess(type(self), place)

    @contextlib.contextmanager
    def lose_answers(self, store: Store) -> Iterator[None]:
        """Optional: commits inside the block become durable, but their answers are lost.

        The store then raises CommitUnknown. Or it finds the truth on its own: it succeeds, or it
        takes back what it wrote and raises StoreError.
        """
        yield

    @classmethod
    def capabilities(cls) -> frozenset[str]:
        """Return what this store can do, from what its author has declared and defined."""
        found = {
            "durable": cls.durable,
            "proves_death": cls.proves_death,
            "other_holders": cls.durable or cls.start_other is not Bench.start_other,
            "ambiguity": cls.lose_answers is not Bench.lose_answers,
        }
        return frozenset(name for name, there in found.items() if there)

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if cls.open_store is Bench.open_store:
            # An intermediate class, not yet an author's, so its capabilities are not known.
            return
        for name in dir(cls):
            needed = getattr(getattr(cls, name), "needs", None)
            if name.startswith("test_") and needed not in (None, *cls.capabilities()):
                # pytest and our own runner skip what is not callable.
                setattr(cls, name, None)

    # Called by pytest around every test, and by ``check_store``.

    def setup_method(self) -> None:
        """Create an empty place. Nothing is open."""
        self._scratch = Path(tempfile.mkdtemp(prefix="nottwice-"))
        self._opened: list[Store] = []
        self._others: list[Other] = []
        self.place = self.new_place()

    def teardown_method(self) -> None:
        """Close and end everything, and leave nothing behind."""
        for other in self._others:
            other.end()
        for store in self._opened:
            store.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def new_place(self) -> Path:
        """Return another empty place, for a claim that starts over."""
        return Path(tempfile.mkdtemp(dir=self._scratch))

    def open(self, place: Path | None = None) -> Store:
        """Open another store on the data of this test."""
        store = self.open_store(place or self.place, NOW)
        self._opened.append(store)
        return store

    def fresh(self) -> Store:
        """Open a store on separate data."""
        return self.open(self.new_place())

    def other(self) -> Other:
        """Start a holder that is not this process, on the data of this test."""
        started = self.start_other(self.place)
        self._others.append(started)
        return started


def everything(store: Store, run: str = "run") -> dict[str, Any]:
    """Return all that a store shows about a run."""
    return {
        "run": store.load_run(run),
        "calls": store.calls(run),
        "steps": store.steps(run),
        "last visits": store.last_visits(run),
        "reviews": store.reviews(run),
        "evidence": store.evidence(run),
        "audit": store.audit(run),
        "checkpoints": store.checkpoint_chain(run),
        "events": store.events(run),
        "graphs": store.graphs(),
    }


def outcomes_of(actions: Sequence[Callable[[], None]]) -> list[str]:
    """Run all actions at the same moment, each in a thread, and return how each ended."""
    start = threading.Barrier(len(actions))

    def act(action: Callable[[], None]) -> str:
        start.wait()
        try:
            action()
        except Exception as error:
            return type(error).__name__
        return "done"

    with ThreadPoolExecutor(len(actions)) as pool:
        return sorted(pool.map(act, actions))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + " …"
