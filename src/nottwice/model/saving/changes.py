"""What changed between two states, for a person: where, what was there, what is there now."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, assert_never

from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.data.refusals import spell_path
from nottwice.model.saving.delta import Delta, Plain, diff, places

_Steps = tuple[str | int, ...]
_MOST_SHOWN = 60


class ChangeKind(enum.Enum):
    """What happened to one place of a state."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@frozen_record(frozen=True, slots=True)
class Change:
    """One place where two states differ."""

    path: str
    """Such as ``state.order.lines[3]``. For a removal, where it was."""
    kind: ChangeKind
    before: Any = None
    """The old value. None if it was added, or if it was None."""
    after: Any = None
    """The new value. None if it was removed, or if it is None."""

    def __str__(self) -> str:
        match self.kind:
            case ChangeKind.ADDED:
                return f"+ {self.path}: {_shown(self.after)}"
            case ChangeKind.REMOVED:
                return f"- {self.path}: {_shown(self.before)}"
            case ChangeKind.CHANGED:
                return f"~ {self.path}: {_shown(self.before)} → {_shown(self.after)}"
            case _:
                assert_never(self.kind)


def changes(old: Plain, new: Plain, *, root: str = "state") -> list[Change]:
    """Return every place where two plain values differ, in reading order. Paths begin with root."""
    delta = diff(old, new, shortest=False)
    return [
        Change(spell_path(root, steps), kind, before, after)
        for steps, kind, before, after in _walk(old, new, delta, ())
    ]


_Found = tuple[_Steps, ChangeKind, Plain, Plain]


def _walk(old: Plain, new: Plain, delta: Delta, steps: _Steps) -> Iterator[_Found]:
    if not delta:
        return
    if "set" in delta:
        yield steps, ChangeKind.CHANGED, old, new
    elif "parts" in delta:
        yield from _walk_list(old, new, delta["parts"], steps)
    else:
        put, keys = delta.get("put", {}), delta.get("keys", {})
        for key, value in new.items():
            if key in keys:
                yield from _walk(old[key], value, keys[key], (*steps, key))
            elif key in put and key in old:
                yield (*steps, key), ChangeKind.CHANGED, old[key], value
            elif key in put:
                yield (*steps, key), ChangeKind.ADDED, None, value
        for key in delta.get("gone", ()):
            yield (*steps, key), ChangeKind.REMOVED, old[key], None


def _walk_list(old: Plain, new: Plain, parts: list[Any], steps: _Steps) -> Iterator[_Found]:
    """Between two items that stayed, pair removed items with added ones as changes."""
    taken = made = 0
    """How far the old and the new list have been processed."""
    at = 0
    for start, stop, part in [*places(parts, len(old)), (len(old), len(old), None)]:
        if type(part) is dict and "new" in part:
            at += len(part["new"])
            continue
        yield from _between(old[taken:start], new[made:at], (*steps,), taken, made)
        if type(part) is dict:
            yield from _walk(old[start], new[at], part["change"], (*steps, at))
        at += stop - start
        taken, made = stop, at


def _between(
    left: list[Plain], came: list[Plain], steps: _Steps, taken: int, made: int
) -> Iterator[_Found]:
    for number, (before, after) in enumerate(zip(left, came, strict=False)):
        yield (*steps, made + number), ChangeKind.CHANGED, before, after
    for number in range(len(came), len(left)):
        yield (*steps, taken + number), ChangeKind.REMOVED, left[number], None
    for number in range(len(left), len(came)):
        yield (*steps, made + number), ChangeKind.ADDED, None, came[number]


def _shown(value: Plain) -> str:
    text = values.encode_known(value)
    # Unprintable characters must not reach a terminal. The JSON text still has them.
    text = "".join(letter if letter.isprintable() else "�" for letter in text)
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[: _MOST_SHOWN - 1]}… ({len(text):,} characters)"
