"""Is this a store? One class with every claim that a store must keep, and a function to check them.

Promise kept here: P22 (every store that is shipped keeps every claim of this suite).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nottwice.model.data.records import frozen_record
from nottwice.testing.conformance.bench import Bench
from nottwice.testing.conformance.calls import Calls
from nottwice.testing.conformance.charges import Charges
from nottwice.testing.conformance.commits import CommitChecks
from nottwice.testing.conformance.endurance import Endurance
from nottwice.testing.conformance.graphs import Graphs
from nottwice.testing.conformance.groups import GroupChecks
from nottwice.testing.conformance.holders import HolderChecks
from nottwice.testing.conformance.labels import LabelChecks
from nottwice.testing.conformance.people import People
from nottwice.testing.conformance.reads import Reads
from nottwice.testing.conformance.ready import Ready
from nottwice.testing.conformance.removals import Removals
from nottwice.testing.conformance.takers import TakerChecks
from nottwice.testing.conformance.workers import WorkerChecks


class StoreConformance(
    CommitChecks,
    HolderChecks,
    Calls,
    People,
    Charges,
    Graphs,
    LabelChecks,
    GroupChecks,
    TakerChecks,
    WorkerChecks,
    Ready,
    Removals,
    Reads,
    Endurance,
):
    """All claims. Derive from it, define ``open_store``, and let pytest collect it.

    A claim that needs a capability which your store does not have is not collected.
    """


@frozen_record(frozen=True, slots=True)
class Broken:
    """A claim that a store does not keep."""

    claim: str
    reason: str


def claims_of(author: type[Bench]) -> list[str]:
    """Return the names of the claims that apply to a store with these capabilities."""
    names = [name for name in dir(author) if name.startswith("test_")]
    return [name for name in names if callable(getattr(author, name))]


def check_store(author: type[Bench], *, claims: Sequence[str] | None = None) -> Iterator[Broken]:
    """Check every claim, or only these, without pytest. Yield those that do not hold."""
    for name in claims_of(author) if claims is None else claims:
        bench = author()
        bench.setup_method()
        try:
            getattr(bench, name)()
        except Exception as error:
            yield Broken(name, f"{type(error).__name__}: {error}")
        finally:
            bench.teardown_method()
