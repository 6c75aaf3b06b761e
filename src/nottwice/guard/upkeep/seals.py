"""Is everything in a ledger as nottwice wrote it? And: accept rows as they are from now on (L9).

Promise kept here: P97.
"""

from __future__ import annotations

from collections.abc import Callable

from nottwice.errors import KeyMissing
from nottwice.guard.ledger import Ledger
from nottwice.model.data.records import frozen_record
from nottwice.model.review import AuditEntry
from nottwice.store.interface import LEDGER, ManyFiles

ADOPT = "adopt"
"""The audit action with which a person vouches for rows as they are."""
OnProgress = Callable[[int, int], None]


@frozen_record(frozen=True, slots=True)
class Flaw:
    """One thing that does not fit; ``run_id`` is empty if it belongs to no run."""

    run_id: str
    text: str


@frozen_record(frozen=True, slots=True)
class Verified:
    """The result of checking a ledger."""

    key_id: str
    heads: dict[str, str | None]
    """What the rows of every checked run add up to, for comparison with the log."""
    flaws: tuple[Flaw, ...]


def verify(
    ledger: Ledger, run_id: str | None = None, *, on_progress: OnProgress | None = None
) -> Verified:
    """Check the seal of every row of a run, or of the ledger, and that no call is missing."""
    key_id, runs = _runs(ledger, run_id)
    flaws: list[Flaw] = []
    heads: dict[str, str | None] = {}
    for number, name in enumerate(runs, 1):
        flaws += [Flaw(name, text) for text in ledger.store.flaws(name, thorough=True)]
        if name != LEDGER:
            heads[name] = ledger.store.load_head(name)
        if on_progress is not None:
            on_progress(number, len(runs))
    return Verified(key_id, heads, tuple(flaws))


def adopt(
    ledger: Ledger,
    run_id: str | None = None,
    *,
    by: str,
    why: str,
    on_progress: OnProgress | None = None,
) -> int:
    """Seal a run, or the whole ledger, as it is now. ``by`` vouches for it.

    Returns how many runs were sealed. Durable: run by run, each with an entry in the audit trail.
    """
    _, runs = _runs(ledger, run_id)
    for number, name in enumerate(runs, 1):
        entry = AuditEntry(name, ledger.clock.now(), by, ADOPT, "seals", why)
        ledger.store.adopt(name, entry=entry)
        if on_progress is not None:
            on_progress(number, len(runs))
    return sum(name != LEDGER for name in runs)


def _runs(ledger: Ledger, run_id: str | None) -> tuple[str, list[str]]:
    """Return the id of the key, and what to check: the runs, and the rows that belong to none."""
    keyring = ledger.keyring
    if keyring is None:
        raise KeyMissing(
            "No key was given, so nothing was sealed and nothing can be checked. Nothing was done. "
            "Set NOTTWICE_KEY_FILE or NOTTWICE_KEY; to make a key: nottwice key"
        )
    if run_id is not None:
        return keyring.current.id, [run_id]
    names = {run.workflow_id for run in ledger.store.runs()}
    if isinstance(ledger.store, ManyFiles):
        names.update(ledger.store.untrusted_runs())
    return keyring.current.id, [LEDGER, *sorted(names)]
