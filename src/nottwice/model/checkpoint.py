"""How is a run saved version by version, rebuilt at any of them, and freed of some? (L10)

A version is kept whole (a snapshot) or as what changed: ``[7, 4321, delta]`` is written on top of
version 7, named so that a version that somebody deleted is missed, and would take about 4321
characters whole. A snapshot is made when the chain behind a version costs more than twice what the
version itself would cost whole. From this one rule follow both bounds:

- Every version loads in time with its own size, however long the run has been.
- A snapshot is at most half as large as the chain it ends. So all snapshots together are at most
  as large as all deltas and the first version: storage grows with what changed, not with its
  square. A state that only grows needs no second snapshot at all.

No version ever changes its content. Only how it is written down may change, when one that it was
written on top of is removed. Promise kept here: P21.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from nottwice.errors import LedgerCorrupt, NotPlainData
from nottwice.model import values
from nottwice.model.delta import Delta, Misfit, Plain, apply_in_place, combine, diff, growth
from nottwice.model.records import frozen_record
from nottwice.model.run import CheckpointRecord
from nottwice.model.shapes import UNREADABLE

# What finding, reading and applying one more delta costs, in characters that could be read instead.
DELTA_COST: Final = 256

# What a delta can raise that was made of other text than ours.
_UNREADABLE = (Misfit, *UNREADABLE)


@frozen_record(frozen=True, slots=True)
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


@frozen_record(frozen=True, slots=True)
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
    _check_beginning(chain)
    value = _read(chain[0])
    for record, delta in _deltas(chain):
        try:
            value = apply_in_place(value, delta)
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
    if not values.is_plain(value) and not values.is_too_large(value):
        # Once for the whole, and not for every text that it was made of.
        raise _corrupt(chain[-1], "it holds what is not plain data")
    return value


def resume(chain: Sequence[CheckpointRecord]) -> tuple[Plain, Saved]:
    """All that is needed to go on from the last version of a chain."""
    return restore(chain), saved_as(chain)


def saved_as(chain: Sequence[CheckpointRecord]) -> Saved:
    """What whoever saved the last version of a chain knew of it: enough to save the next one."""
    _check_beginning(chain)
    whole, last = len(chain[0].json), chain[-1]
    deltas = sum(len(record.json) + DELTA_COST for record in chain[1:])
    state = whole if last.is_snapshot else _read_delta(last, _read(last))[1]
    return Saved(last.version, chain[0].version, whole, deltas, state)


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
    state = saved.state_size + growth(old, delta)
    text = _text_of(delta, after=saved.version, state_size=state)
    if text is None:
        return None
    deltas = saved.delta_size + len(text) + DELTA_COST
    if saved.snapshot_size + deltas > 2 * state:
        return None
    return text, replace(saved, version=saved.version + 1, delta_size=deltas, state_size=state)


def _text_of(delta: Delta, *, after: int, state_size: int) -> str | None:
    """A delta is nested deeper than the values in it, and may be too deep to be written."""
    try:
        return values.encode([after, state_size, delta])
    except NotPlainData:
        # If the values themselves are not plain, the snapshot says so, with the path to them.
        return None


def _together(chain: Sequence[CheckpointRecord]) -> str | None:
    """The last of these versions, written on top of the first."""
    combined: Delta = {}
    for record, delta in _deltas(chain):
        try:
            combined = combine(combined, delta)
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
    last = chain[-1]
    state_size = _read_delta(last, _read(last))[1]
    return _text_of(combined, after=chain[0].version, state_size=state_size)


# A delta as it is kept: the version it rests on, the size of the state after it, and what changed.
_Step = tuple[int, int, Delta]


def _deltas(chain: Sequence[CheckpointRecord]) -> Iterator[tuple[CheckpointRecord, Delta]]:
    """Everything after the first version, each written on top of the one before it."""
    before = chain[0]
    for record in islice(chain, 1, None):
        try:
            plain = values.parse(record.json)
        except LedgerCorrupt as error:
            raise _corrupt(record, "its text cannot be read") from error
        after, _, delta = _read_delta(record, plain)
        if after != before.version:
            raise _corrupt(record, f"version {after}, on which it rests, is not there")
        if record.snapshot != before.snapshot or record.workflow_id != before.workflow_id:
            raise _corrupt(record, f"it does not rest on version {before.version}")
        yield record, delta
        before = record


def _read(record: CheckpointRecord) -> Plain:
    try:
        return values.decode(record.json)
    except LedgerCorrupt as error:
        raise _corrupt(record, "its text cannot be read") from error


def _read_delta(record: CheckpointRecord, plain: Plain) -> _Step:
    if type(plain) is list and len(plain) == 3:
        after, state_size, delta = plain
        if type(after) is int and type(state_size) is int and type(delta) is dict:
            return after, state_size, delta
    raise _corrupt(record, "its text is not a change of another version")


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
