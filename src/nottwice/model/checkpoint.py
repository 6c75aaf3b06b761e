"""How is a run saved version by version, rebuilt at any of them, and freed of some? (L10)

A version is kept whole (a snapshot) or as what changed: ``[7, delta]`` is written on top of version
7, and named so that a version that somebody deleted is missed. A snapshot is made when the chain
behind a version costs more than twice what the version itself would cost whole. From this one rule
follow both bounds:

- Every version loads in time with its own size, however long the run has been.
- A snapshot is at most half as large as the chain it ends. So all snapshots together are at most
  as large as all deltas and the first version: storage grows with what changed, not with its
  square. A state that only grows needs no second snapshot at all.

No version ever changes its content. Only how it is written down may change, when one that it was
written on top of is removed. Promise kept here: P21.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from nottwice.errors import LedgerCorrupt, NotPlainData
from nottwice.model import values
from nottwice.model.delta import Delta, Misfit, Plain, combine, diff, growth, replay
from nottwice.model.run import CheckpointRecord

# What finding, reading and applying one more delta costs, in characters that could be read instead.
DELTA_COST: Final = 128

# What a delta can raise that was made of other text than ours.
_UNREADABLE = (Misfit, AttributeError, IndexError, KeyError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Saved:
    """What a holder knows of the version it saved last; enough to save the next one.

    Sizes are in characters of JSON.
    """

    version: int
    snapshot: int
    snapshot_size: int
    delta_size: int
    """What the deltas since the snapshot cost together, up to and with this version."""
    state_size: int
    """About what this version would take as a snapshot."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What to write so that some versions are gone and all others still load as they did."""

    rewritten: tuple[CheckpointRecord, ...]
    dropped: tuple[int, ...]


def save(
    saved: Saved | None,
    *,
    workflow_id: str,
    node_id: str,
    old: Plain,
    new: Plain,
    changed: Delta | None = None,
    now: float,
) -> tuple[CheckpointRecord, Saved]:
    """The next version after ``saved``, or version 0.

    ``old`` is what was saved last and must not have been changed in place since. Who knows what
    turned it into ``new`` says so with ``changed`` and spares the comparison.
    """
    version = 0 if saved is None else saved.version + 1
    record = CheckpointRecord(workflow_id, version, version, node_id, "", now)
    if saved is not None:
        delta = diff(old, new) if changed is None else changed
        following = _following(saved, old, delta)
        if following is not None:
            text, known = following
            return replace(record, snapshot=saved.snapshot, json=text), known
    text = values.encode(new)
    return replace(record, json=text), Saved(version, version, len(text), 0, len(text))


def restore(chain: Sequence[CheckpointRecord]) -> Plain:
    """What the last version of a chain holds; the chain begins with its snapshot."""
    return resume(chain)[0]


def saved_as(chain: Sequence[CheckpointRecord]) -> Saved:
    """What whoever saved the last version of a chain knew of it."""
    return resume(chain)[1]


def resume(chain: Sequence[CheckpointRecord]) -> tuple[Plain, Saved]:
    """Both at once: all that is needed to go on from the last version of a chain."""
    _check_beginning(chain)
    value = _read(chain[0])
    whole = len(chain[0].json)
    state, deltas = whole, 0
    for before, record in pairwise(chain):
        delta = _read_delta(record, after=before)
        try:
            state += growth(value, delta)
            value = replay(value, (delta,))
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
        deltas += len(record.json) + DELTA_COST
    return value, Saved(chain[-1].version, chain[0].version, whole, deltas, state)


def without(chain: Sequence[CheckpointRecord], drop: Collection[int]) -> Removal:
    """Remove versions from a chain: a snapshot, and *everything* that rests on it, in order.

    The first version that is kept after some that are not takes over what they said. If the
    snapshot goes, that version becomes the snapshot of all that follow.
    """
    _check_beginning(chain)
    rewritten: list[CheckpointRecord] = []
    snapshot = chain[0].version
    last = -1
    """Where in the chain the last version stands that is kept."""
    for place, record in enumerate(chain):
        if record.version in drop:
            continue
        text: str | None = record.json
        if last < place - 1:
            text = None if last < 0 else _together(chain[last : place + 1])
        if text is None:
            snapshot, text = record.version, values.encode(restore(chain[: place + 1]))
        kept = replace(record, snapshot=snapshot, json=text)
        if kept != record:
            rewritten.append(kept)
        last = place
    dropped = tuple(record.version for record in chain if record.version in drop)
    return Removal(tuple(rewritten), dropped)


def _following(saved: Saved, old: Plain, delta: Delta) -> tuple[str, Saved] | None:
    """The text of a delta and what is known after it; None if a snapshot is better."""
    if "set" in delta:
        return None
    text = _text_of(delta, after=saved.version)
    if text is None:
        return None
    state = saved.state_size + growth(old, delta)
    deltas = saved.delta_size + len(text) + DELTA_COST
    if saved.snapshot_size + deltas > 2 * state:
        return None
    return text, replace(saved, version=saved.version + 1, delta_size=deltas, state_size=state)


def _text_of(delta: Delta, *, after: int) -> str | None:
    """A delta is nested deeper than the values in it, and may be too deep to be written."""
    try:
        return values.encode([after, delta])
    except NotPlainData:
        # If the values themselves are not plain, the snapshot says so, with the path to them.
        return None


def _together(chain: Sequence[CheckpointRecord]) -> str | None:
    """The last of these versions, written on top of the first."""
    combined: Delta = {}
    for before, record in pairwise(chain):
        delta = _read_delta(record, after=before)
        try:
            combined = combine(combined, delta)
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
    return _text_of(combined, after=chain[0].version)


def _read(record: CheckpointRecord) -> Plain:
    try:
        return values.decode(record.json)
    except LedgerCorrupt as error:
        raise _corrupt(record, "its text cannot be read") from error


def _read_delta(record: CheckpointRecord, *, after: CheckpointRecord) -> Delta:
    """A delta, if it was written on top of the version that stands before it."""
    match _read(record):
        case [int(version), dict(delta)] if version == after.version:
            if record.snapshot == after.snapshot and record.workflow_id == after.workflow_id:
                return delta
        case [int(version), dict()]:
            raise _corrupt(record, f"version {version}, on which it rests, is not there")
    raise _corrupt(record, f"it does not rest on version {after.version}, which is before it")


def _check_beginning(chain: Sequence[CheckpointRecord]) -> None:
    if not chain:
        raise LedgerCorrupt(
            "A version was to be rebuilt from no checkpoints at all. Nothing was loaded. "
            "Restore the ledger from a backup."
        )
    if not chain[0].is_snapshot:
        raise _corrupt(chain[0], f"version {chain[0].snapshot}, on which it rests, is not there")


def _misfit(record: CheckpointRecord, error: Exception) -> LedgerCorrupt:
    return _corrupt(record, f"it does not fit the version before it ({error})")


def _corrupt(record: CheckpointRecord, reason: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"Version {record.version} of run {record.workflow_id!r} cannot be rebuilt: {reason}. "
        "It was not loaded, and nothing was changed. Restore the ledger from a backup, or load "
        "an earlier version."
    )
