"""The saved versions of a run: list, load, compare and remove them (L10).

Reading needs no claim. Removing writes, so it is done as the run's holder, and is refused while
another process holds or may hold the run: a holder knows what it saved last and builds on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from nottwice.errors import (
    LedgerCorrupt,
    OwnershipLost,
    RunBusy,
    StoreError,
    UnknownRun,
    UsageError,
)
from nottwice.model.data.records import frozen_record
from nottwice.model.run import CheckpointRecord, Fence, Life, RunRecord
from nottwice.model.saving import checkpoint
from nottwice.model.saving.changes import Change, changes
from nottwice.model.saving.delta import Plain
from nottwice.model.saving.image import load_image
from nottwice.store.interface import Claim, Commit, Outdated, RunUpdate, Store


@frozen_record(frozen=True, slots=True)
class SavedVersion:
    """One saved version of a run."""

    version: int
    node_id: str
    """The node that had just ended; ``/`` for the input. Where branches met, it is the node they
    lead to, which had not begun yet."""
    at: float


def history(store: Store, run_id: str) -> list[SavedVersion]:
    """Return all versions of a run, oldest first. Empty if it never saved one."""
    _find_run(store, run_id)
    return [
        SavedVersion(record.version, record.node_id, record.created_at)
        for record in store.checkpoints(run_id)
    ]


def load(store: Store, run_id: str, version: int | None = None) -> Plain:
    """Return the contents of a version as plain data. By default it is the newest version."""
    return checkpoint.restore(_chain(store, run_id, version))


def load_whole(store: Store, run_id: str, version: int | None = None) -> dict[str, Any]:
    """Return the state and position of a run of a graph. Raises LedgerCorrupt if it has none."""
    return load_image(_chain(store, run_id, version))


def compare(store: Store, run_id: str, one: int, other: int) -> list[Change]:
    """Return what is different in the state of ``other``, compared with ``one``."""
    before, after = (load(store, run_id, version) for version in (one, other))
    try:
        return changes(before["state"], after["state"])
    except (KeyError, TypeError) as error:
        raise LedgerCorrupt(
            f"Version {one} or {other} of run {run_id!r} holds no state. They were not compared, "
            "and nothing was changed. Restore the ledger from a backup."
        ) from error


def prune(store: Store, run_id: str, *, versions: Collection[int]) -> None:
    """Remove versions of a run. All others load as before. The newest one stays.

    Durable: when this returns. Raises RunBusy while a process drives the run.
    """
    run = _find_run(store, run_id)
    if not versions:
        return
    _check_idle(store, run)
    records = store.checkpoints(run_id)
    _check_versions(store, run_id, records, versions)
    # Read before the claim, which fails if another process changed the run since. So no error here
    # can leave the run claimed.
    rewritten = [
        record
        for chain in _chains(records)
        for record in _rewritten(store, run_id, chain, versions)
    ]
    _write(store, run, tuple(rewritten), tuple(sorted(versions)))


def _write(
    store: Store,
    run: RunRecord,
    rewritten: tuple[CheckpointRecord, ...],
    dropped: tuple[int, ...],
) -> None:
    """Claim the run as it is, write, and release it as it was.

    Its status stays the same through both commits. If this process is killed between them, the run
    has a dead holder, which blocks no other process.
    """
    holder_id = store.holder().holder_id
    claimed = replace(run, epoch=run.epoch + 1, holder_id=holder_id)
    back = RunUpdate(run.status, run.updated_at, run.failure, release=True, waits=run.waits)
    fence = Fence(holder_id, claimed.epoch)
    name = run.workflow_id
    try:
        store.commit(Commit(workflow_id=name, claim=Claim(claimed, run.epoch)))
        try:
            store.commit(
                Commit(
                    workflow_id=name, fence=fence, checkpoints=rewritten, dropped=dropped, run=back
                )
            )
        except BaseException:
            # This process stays alive, so it would block the run for all others.
            with suppress(StoreError):
                store.commit(Commit(workflow_id=name, fence=fence, run=back))
            raise
    except (Outdated, OwnershipLost) as error:
        raise _busy(run, "another process that claimed it just now") from error


def _chain(store: Store, run_id: str, version: int | None) -> list[CheckpointRecord]:
    chain = store.checkpoint_chain(run_id, version)
    if not chain:
        _find_run(store, run_id)
        raise _no_such_version(store, run_id, version)
    return chain


def _find_run(store: Store, run_id: str) -> RunRecord:
    run = store.load_run(run_id)
    if run is None:
        raise UnknownRun(
            f"There is no run {run_id!r} in {store.location}. Nothing was done. List the runs: "
            "nottwice runs"
        )
    return run


def _check_idle(store: Store, run: RunRecord) -> None:
    # This also applies if this process is the holder: another thread or block drives the run.
    if run.holder_id is not None and store.life_of(run.holder_id) is not Life.DEAD:
        holder = store.load_holder(run.holder_id)
        raise _busy(
            run, "a process that cannot be identified" if holder is None else holder.describe()
        )


def _busy(run: RunRecord, who: str) -> RunBusy:
    return RunBusy(
        f"Run {run.workflow_id!r} is driven by {who}. No version was removed. Wait until the run "
        "has ended or waits, or stop that process.",
        run_id=run.workflow_id,
        holder=None,
        since=run.claimed_at,
    )


def _check_versions(
    store: Store, run_id: str, records: list[CheckpointRecord], versions: Collection[int]
) -> None:
    known = {record.version for record in records}
    for version in sorted(versions):
        if version not in known:
            raise _no_such_version(store, run_id, version)
    if max(known) in versions:
        raise UsageError(
            f"Version {max(known)} of run {run_id!r} is the newest one, from which the run "
            "resumes. No version was removed. Leave it out."
        )


def _chains(records: list[CheckpointRecord]) -> Iterator[list[CheckpointRecord]]:
    """Yield every snapshot with all listed versions that depend on it."""
    chain: list[CheckpointRecord] = []
    for record in records:
        if record.is_snapshot and chain:
            yield chain
            chain = []
        chain.append(record)
    yield chain


def _rewritten(
    store: Store, run_id: str, chain: list[CheckpointRecord], versions: Collection[int]
) -> tuple[CheckpointRecord, ...]:
    """Return the remaining versions of one chain as they are kept."""
    kept = [record for record in chain if record.version not in versions]
    if not kept or kept == chain:
        return ()
    # These lead to all others: the last one, and the first one of every turned stretch.
    leading = {record.snapshot: record.version for record in reversed(kept) if record.is_turned}
    found = {
        record.version: record
        for version in (kept[-1].version, *leading.values())
        for record in store.checkpoint_chain(run_id, version)
    }
    return checkpoint.without([found[version] for version in sorted(found)], versions)


def _no_such_version(store: Store, run_id: str, version: int | None) -> UsageError:
    known = [record.version for record in store.checkpoints(run_id)]
    if not known:
        return UsageError(
            f"Run {run_id!r} has saved no versions. Nothing was loaded or removed. Only runs of a "
            "graph save versions."
        )
    return UsageError(
        f"Run {run_id!r} has no version {version}. Nothing was loaded or removed. It has "
        f"{len(known)}, from {known[0]} to {known[-1]}; some may have been removed."
    )
