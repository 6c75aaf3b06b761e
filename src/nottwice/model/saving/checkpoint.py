"""How is a run saved version by version, rebuilt at any of them, and freed of some? (L10)

A version is kept whole (a snapshot) or as what changed: ``[7, 4321, delta]`` is written on top of
version 7, named so that a version that somebody deleted is missed, and would take about 4321
characters whole. A snapshot is made when the chain behind a version costs more than twice what the
version itself would cost whole. From this one rule follow both bounds:

- Every version loads in time with its own size, however long the run has been.
- A snapshot is at most half as large as the chain it ends. So all snapshots together are at most
  as large as all deltas and the first version: storage grows with what changed, not with its
  square. A state that only grows needs no second snapshot at all.

But then it has a chain of as many deltas as it has versions, and a run is resumed from the newest.
So now and then a stretch of deltas is packed: what they said together becomes one delta, and the
versions in between are turned around, to what has to go again from the version after them. What was
added is still kept once, and the newest version is rebuilt from a few large texts and not from
thousands of small ones. Where that would take more room than before, it is left.

No version ever changes its content. Only how it is written down may change: when it is packed, or
when one that it was written on top of is removed. Promise kept here: P21.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import field, replace
from itertools import islice
from typing import Final

from nottwice.errors import LedgerCorrupt, NotPlainData
from nottwice.model import values
from nottwice.model.records import frozen_record
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
from nottwice.model.shapes import UNREADABLE

# What finding, reading and applying one more delta costs, in characters that could be read instead.
DELTA_COST: Final = 256
# What a stretch of deltas may cost before it is packed.
MOST_UNPACKED: Final = 256 * DELTA_COST

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
    stretch: tuple[CheckpointRecord, ...] = field(default=(), compare=False)
    """The deltas that can be packed, up to and with this version, behind the one they rest on."""
    turned: tuple[CheckpointRecord, ...] = field(default=(), compare=False)
    """All of these versions but the last one, each written on top of the one after it."""
    stretch_size: int = field(default=0, compare=False)
    """What these deltas cost together."""


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
        following = _following(saved, record, old, delta)
        if following is not None:
            return following
    record = replace(record, json=values.encode(new))
    return record, _saved_last(record, len(record.json), 0, len(record.json))


def pack(saved: Saved) -> tuple[tuple[CheckpointRecord, ...], Saved] | None:
    """What to write instead of the last stretch of deltas, once it is long, and what is known then.

    All of it or nothing, in one commit. Nothing to write: it would take more room than now, or
    small versions would come to rest on a large one.
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
    """What the version holds that a chain was asked for."""
    path = path_of(chain)
    value = _read(path[0])
    for record, _, delta in _deltas(path):
        try:
            value = apply_in_place(value, delta)
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
    if not values.is_plain(value) and not values.is_too_large(value):
        # Once for the whole, and not for every text that it was made of.
        raise _corrupt(path[-1], "it holds what is not plain data")
    return value


def path_of(chain: Sequence[CheckpointRecord]) -> Sequence[CheckpointRecord]:
    """A chain in the order in which its versions rest on each other, from the snapshot on."""
    if not chain:
        raise LedgerCorrupt(
            "A version was to be rebuilt from no checkpoints at all. Nothing was loaded. "
            "Restore the ledger from a backup."
        )
    path = [record for record in chain if not record.is_turned]
    path += [record for record in reversed(chain) if record.is_turned]
    if not path[0].is_snapshot:
        raise _corrupt(path[0], f"version {path[0].snapshot}, on which it rests, is not there")
    return path


def resume(chain: Sequence[CheckpointRecord]) -> tuple[Plain, Saved]:
    """All that is needed to go on from the newest version, whose chain this is."""
    return restore(chain), saved_as(chain)


def saved_as(chain: Sequence[CheckpointRecord]) -> Saved:
    """What whoever saved the newest version knew of it: enough to save the next one."""
    path = path_of(chain)
    whole, last = len(path[0].json), path[-1]
    deltas = sum(len(record.json) + DELTA_COST for record in path[1:])
    state = whole if last.is_snapshot else _read_delta(last, _read(last))[1]
    return _saved_last(last, whole, deltas, state)


def without(
    chain: Sequence[CheckpointRecord], drop: Collection[int]
) -> tuple[CheckpointRecord, ...]:
    """What to rewrite so that some versions can be removed and all others load as they did.

    The chain is a snapshot and *everything* that rests on it, in order, as far as a version that
    is kept is rebuilt from it. The first version that is kept after some that are not takes over
    what they said. If the snapshot goes, that version becomes the snapshot of all that follow. What
    was packed is unpacked.
    """
    path_of(chain)
    is_packed = any(record.is_turned for record in chain)
    return tuple((_unpacked if is_packed else _thinned)(chain, drop))


def _thinned(
    chain: Sequence[CheckpointRecord], drop: Collection[int]
) -> Iterator[CheckpointRecord]:
    """What to rewrite of a chain in which every version rests on the one before it."""
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
            yield kept
        last = place


def _unpacked(
    chain: Sequence[CheckpointRecord], drop: Collection[int]
) -> Iterator[CheckpointRecord]:
    """The versions that are kept, each on top of the one before it, as if saved one by one."""
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
    """All versions of a chain and what they hold, in order. They share what is the same in them."""
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
    """What the second of two versions holds, from what the first one does."""
    for record, _, delta in _deltas(step):
        try:
            value = apply(value, delta)
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
    return value


def _following(
    saved: Saved, record: CheckpointRecord, old: Plain, delta: Delta
) -> tuple[CheckpointRecord, Saved] | None:
    """A version as a delta, and what is known after it; None if a snapshot is better."""
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
        # Nobody packs it.
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
    """What is known after a version, if the next stretch begins behind it."""
    # Of the version that a stretch rests on nobody reads the text, which may be large.
    base = replace(record, json="")
    return Saved(
        record.version, record.snapshot, snapshot_size, delta_size, state_size, stretch=(base,)
    )


def _text_of(delta: Delta, *, after: int, state_size: int) -> str | None:
    """A delta is nested deeper than the values in it, and may be too deep to be written."""
    try:
        return values.encode([after, state_size, delta])
    except NotPlainData:
        # If the values themselves are not plain, the snapshot says so, with the path to them.
        return None


def _together(path: Sequence[CheckpointRecord]) -> str | None:
    """The last of these versions, written on top of the first."""
    combined: Delta = {}
    state_size = 0
    for record, size, delta in _deltas(path):
        state_size = size
        try:
            combined = combine(combined, delta)
        except _UNREADABLE as error:
            raise _misfit(record, error) from error
    return _text_of(combined, after=path[0].version, state_size=state_size)


# A delta as it is kept: the version it rests on, the size of the state after it, and what changed.
_Step = tuple[int, int, Delta]


def _deltas(path: Sequence[CheckpointRecord]) -> Iterator[tuple[CheckpointRecord, int, Delta]]:
    """Everything after the first version, each written on top of the one before it.

    With every version comes the size of the state, and what changed.
    """
    before = path[0]
    for record in islice(path, 1, None):
        try:
            plain = values.parse(record.json)
        except LedgerCorrupt as error:
            raise _corrupt(record, "its text cannot be read") from error
        after, size, delta = _read_delta(record, plain)
        if after != before.version:
            raise _corrupt(record, f"version {after}, on which it rests, is not there")
        first_turned = record.is_turned and not before.is_turned
        foundation = before.version if first_turned else before.snapshot
        if record.snapshot != foundation or record.workflow_id != before.workflow_id:
            raise _corrupt(record, f"it does not rest on version {before.version}")
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
