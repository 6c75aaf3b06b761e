"""How is a run saved version by version, rebuilt at any of them, and how are some removed? (L10)

A version is stored whole (a snapshot) or as a change: ``[7, 4321, delta]`` is based on version 7
and would take about 4321 characters whole. The base is named, so that a deleted version is noticed.
A snapshot is made when the chain behind a version costs more than twice what the version itself
would cost whole. Both bounds follow from this one rule:

- Every version loads in time proportional to its own size, however long the run has been.
- A snapshot is at most half as large as the chain it ends. So all snapshots together are at most
  as large as all deltas and the first version: storage grows with what changed, not with its
  square. A state that only grows needs no second snapshot at all.

But such a state has as many deltas in its chain as it has versions, and a run is resumed from the
newest. So from time to time a stretch of deltas is packed: they become one delta, and the versions
in between are turned. A turned version is stored as the delta that leads back to it from the
version after it. What was added is still stored once, and the newest version is rebuilt from a few
large texts and not from thousands of small ones. A stretch that would take more space packed is
left as it is.

No version ever changes its contents. Only its stored form may change: when it is packed, or when a
version that it is based on is removed. Promise kept here: P21.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import Final

from nottwice.errors import LedgerCorrupt, NotPlainData
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import UNREADABLE
from nottwice.model.run import CheckpointRecord
from nottwice.model.saving.delta import (
    Delta,
    Misfit,
    Plain,
    apply,
    apply_in_place,
    combine,
    diff,
    growth,
    inverse,
)

# The cost of finding, reading and applying one more delta, in characters that could be read
# instead.
DELTA_COST: Final = 256
# What a stretch of deltas may cost before it is packed.
MOST_UNPACKED: Final = 256 * DELTA_COST

# What a delta can raise that nottwice did not write.
_UNREADABLE = (Misfit, *UNREADABLE)


@frozen_record(frozen=True, slots=True)
class Saved:
    """What a holder knows of the version it saved last, enough to save the next one.

    Sizes are in characters of JSON.
    """

    version: int
    snapshot: int
    snapshot_size: int
    delta_size: int
    """The total cost of the deltas since the snapshot, including this version."""
    state_size: int
    """About the size of this version as a snapshot."""
    stretch: tuple[CheckpointRecord, ...] = field(default=(), compare=False)
    """The version that the deltas are based on, then the deltas to pack, including this version."""
    turned: tuple[CheckpointRecord, ...] = field(default=(), compare=False)
    """All these versions except the last, each based on the one after it."""
    stretch_size: int = field(default=0, compare=False)
    """The total cost of these deltas."""


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
    """Return the next version after ``saved``, or version 0.

    ``old`` is what was saved last. It must not have been changed in place since. If the caller
    knows what turned ``old`` into ``new``, it passes ``changed`` and saves the comparison.
    """
    version = 0 if saved is None else saved.version + 1
    record = CheckpointRecord(workflow_id, version, version, node_id, "", now)
    if saved is not None:
        delta = diff(old, new) if changed is None else changed
        following = _following(saved, record, old, delta)
        if following is not None:
            return following
    record = replace(record, json=values.encode(new))
    return record, _saved_last(record, len(record.json), 0, len(record.json))


def pack(saved: Saved) -> tuple[tuple[CheckpointRecord, ...], Saved] | None:
    """Return what replaces the last stretch of deltas once it is long, and what is known then.

    The records are written in one commit, all or none. They are empty if packing would take more
    space, or if small versions would come to depend on a large one.
    """
    if saved.stretch_size <= MOST_UNPACKED:
        return None
    last = saved.stretch[-1]
    begun_anew = _saved_last(last, saved.snapshot_size, saved.delta_size, saved.state_size)
    steps = list(_deltas(saved.stretch))
    text = _together(saved.stretch)
    before = sum(len(record.json) for record in saved.stretch[1:])
    after = sum(len(record.json) for record in saved.turned) + len(text or "")
    is_far = saved.state_size > 2 * min(size for _, size, _ in steps) + MOST_UNPACKED
    if text is None or is_far or after > before + before // 4:
        return (), begun_anew
    packed = replace(last, json=text)
    turned = (replace(record, snapshot=last.version) for record in saved.turned)
    size = saved.delta_size - saved.stretch_size + len(text) + DELTA_COST
    return (packed, *turned), replace(begun_anew, delta_size=size)


def restore(chain: Sequence[CheckpointRecord]) -> Plain:
    """Return the contents of the version that the chain was loaded for."""
    path = path_of(chain)
    value = _read(path[0])
    for record, _, delta in _deltas(path):
        try:
            value = apply_in_place(value, delta)
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
    if not values.is_plain(value) and not values.is_too_large(value):
        # Checked once for the whole, and not for every text that it was built from.
        raise _corrupt(path[-1], "it holds what is not plain data")
    return value


def path_of(chain: Sequence[CheckpointRecord]) -> Sequence[CheckpointRecord]:
    """Return a chain in the order in which its versions are based on each other."""
    if not chain:
        raise LedgerCorrupt(
            "A version was to be rebuilt from no checkpoints at all. Nothing was loaded. "
            "Restore the ledger from a backup."
        )
    path = [record for record in chain if not record.is_turned]
    path += [record for record in reversed(chain) if record.is_turned]
    if not path[0].is_snapshot:
        raise _corrupt(path[0], f"version {path[0].snapshot}, on which it is based, is missing")
    return path


def resume(chain: Sequence[CheckpointRecord]) -> tuple[Plain, Saved]:
    """Return everything needed to continue from the newest version, whose chain this is."""
    return restore(chain), saved_as(chain)


def saved_as(chain: Sequence[CheckpointRecord]) -> Saved:
    """Return what the holder knew that saved the newest version: enough to save the next one."""
    path = path_of(chain)
    whole, last = len(path[0].json), path[-1]
    deltas = sum(len(record.json) + DELTA_COST for record in path[1:])
    state = whole if last.is_snapshot else _read_delta(last, _read(last))[1]
    return _saved_last(last, whole, deltas, state)


def without(
    chain: Sequence[CheckpointRecord], drop: Collection[int]
) -> tuple[CheckpointRecord, ...]:
    """Return what to rewrite so that some versions can be removed and all others load as before.

    The chain is a snapshot and *everything* that is based on it, in order, as far as a kept version
    is rebuilt from it. The first kept version after removed ones takes over their changes. If the
    snapshot is removed, that version becomes the snapshot for all that follow. Packed stretches are
    unpacked.
    """
    path_of(chain)
    is_packed = any(record.is_turned for record in chain)
    return tuple((_unpacked if is_packed else _thinned)(chain, drop))


def _thinned(
    chain: Sequence[CheckpointRecord], drop: Collection[int]
) -> Iterator[CheckpointRecord]:
    """Yield what to rewrite of a chain in which every version is based on the one before it."""
    snapshot = chain[0].version
    last = -1
    """The index in the chain of the last version that is kept."""
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
            yield kept
        last = place


def _unpacked(
    chain: Sequence[CheckpointRecord], drop: Collection[int]
) -> Iterator[CheckpointRecord]:
    """Yield the kept versions, each based on the one before it, as if saved one by one."""
    saved: Saved | None = None
    old: Plain = None
    for record, value in _values(chain):
        if record.version in drop:
            continue
        following = None
        if saved is not None:
            following = _following(saved, record, old, diff(old, value))
        if following is None:
            kept = replace(record, snapshot=record.version, json=values.encode(value))
            following = kept, _saved_last(kept, len(kept.json), 0, len(kept.json))
        kept, saved = following
        old = value
        if kept != record:
            yield kept


def _values(chain: Sequence[CheckpointRecord]) -> Iterator[tuple[CheckpointRecord, Plain]]:
    """Yield all versions of a chain with their contents, in order. They share equal parts."""
    waiting: list[CheckpointRecord] = []
    before: CheckpointRecord | None = None
    value: Plain = None
    for record in chain:
        if record.is_turned:
            waiting.append(record)
            continue
        value = _read(record) if before is None else _next([before, record], value)
        earlier: list[tuple[CheckpointRecord, Plain]] = []
        upon, held = record, value
        for one in reversed(waiting):
            held = _next([upon, one], held)
            earlier.append((one, held))
            upon = one
        yield from reversed(earlier)
        yield record, value
        waiting, before = [], record


def _next(step: Sequence[CheckpointRecord], value: Plain) -> Plain:
    """Return the contents of the second of two versions, given those of the first."""
    for record, _, delta in _deltas(step):
        try:
            value = apply(value, delta)
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
    return value


def _following(
    saved: Saved, record: CheckpointRecord, old: Plain, delta: Delta
) -> tuple[CheckpointRecord, Saved] | None:
    """Return a version as a delta, and what is known after it. None if a snapshot is better."""
    if "set" in delta:
        return None
    state = saved.state_size + growth(old, delta)
    text = _text_of(delta, after=saved.version, state_size=state)
    if text is None:
        return None
    cost = len(text) + DELTA_COST
    deltas = saved.delta_size + cost
    if saved.snapshot_size + deltas > 2 * state:
        return None
    kept = replace(record, snapshot=saved.snapshot, json=text)
    known = replace(saved, version=record.version, delta_size=deltas, state_size=state)
    before, turned = saved.stretch[-1], saved.turned
    if saved.stretch_size > 2 * MOST_UNPACKED:
        # The caller does not pack, so a new stretch begins.
        return kept, _saved_last(kept, saved.snapshot_size, deltas, state)
    if len(saved.stretch) > 1:
        undone = inverse(old, delta)
        text = (
            None
            if undone is None
            else _text_of(undone, after=record.version, state_size=saved.state_size)
        )
        if text is None:
            return kept, _saved_last(kept, saved.snapshot_size, deltas, state)
        turned = (*turned, replace(before, json=text))
    stretch, size = (*saved.stretch, kept), saved.stretch_size + cost
    return kept, replace(known, stretch=stretch, turned=turned, stretch_size=size)


def _saved_last(
    record: CheckpointRecord, snapshot_size: int, delta_size: int, state_size: int
) -> Saved:
    """Return what is known after a version, if the next stretch begins after it."""
    # The text of the version that a stretch is based on is never read, and may be large.
    base = replace(record, json="")
    return Saved(
        record.version, record.snapshot, snapshot_size, delta_size, state_size, stretch=(base,)
    )


def _text_of(delta: Delta, *, after: int, state_size: int) -> str | None:
    """Encode a delta. None: it is nested deeper than its values, too deep to be written."""
    try:
        return values.encode([after, state_size, delta])
    except NotPlainData:
        # If the values themselves are not plain, the snapshot reports that with the path to them.
        return None


def _together(path: Sequence[CheckpointRecord]) -> str | None:
    """Return the last of these versions as a delta on the first."""
    combined: Delta = {}
    state_size = 0
    for record, size, delta in _deltas(path):
        state_size = size
        try:
            combined = combine(combined, delta)
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
    return _text_of(combined, after=path[0].version, state_size=state_size)


# A delta as it is stored: its base version, the size of the state after it, and what changed.
_Step = tuple[int, int, Delta]


def _deltas(path: Sequence[CheckpointRecord]) -> Iterator[tuple[CheckpointRecord, int, Delta]]:
    """Yield all versions after the first, each based on the one before it.

    Each comes with the size of the state and what changed.
    """
    before = path[0]
    for record in islice(path, 1, None):
        try:
            plain = values.parse(record.json)
        except LedgerCorrupt as error:
            raise _corrupt(record, "its text cannot be read") from error
        after, size, delta = _read_delta(record, plain)
        if after != before.version:
            raise _corrupt(record, f"version {after}, on which it is based, is missing")
        first_turned = record.is_turned and not before.is_turned
        foundation = before.version if first_turned else before.snapshot
        if record.snapshot != foundation or record.workflow_id != before.workflow_id:
            raise _corrupt(record, f"it is not based on version {before.version}")
        yield record, size, delta
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


def _misfit(record: CheckpointRecord, error: Exception) -> LedgerCorrupt:
    return _corrupt(record, f"it does not fit the version before it ({error})")


def _corrupt(record: CheckpointRecord, reason: str) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"Version {record.version} of run {record.workflow_id!r} cannot be rebuilt: {reason}. "
        "It was not loaded, and nothing was changed. Restore the ledger from a backup, or load "
        "an earlier version."
    )
