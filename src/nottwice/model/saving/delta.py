"""What changed between two plain values, as plain data, and how to apply it.

A delta has one of five shapes. Keys of a user's data occur only *inside* the words below, never
beside them, so no key can be mistaken for one of them:

    {}                                         nothing changed
    {"set": value}                             replaced by another value
    {"keys": {…}, "gone": […], "put": {…}}     a dict: deltas of values, removed keys, new values
    {"parts": […]}                             a list: what it consists of now, in order, each
        [3, 9]                                   items 3 to 8 of the old list
        {"new": […]}                             items that were not in it
        {"at": 9, "change": {…}}                 item 9 of the old list, with its delta
    {"kept": 9, "more": "…"}                   a text: its first 9 characters, then others

A list or text that only grew costs what was added. So does a window that slides over a list, and a
queue that is consumed. A delta is never longer than the new value and a few words.

Values that are the same object count as equal and are not examined. So the first of two states
must not have been changed in place to get the second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import compress, count, islice
from json.encoder import encode_basestring_ascii
from operator import is_not
from typing import Any, Final

from nottwice.model.saving.frozen import FROZEN, changed_keys, kind_of, shared_ends

Plain = Any
"""Plain data, as `values.py` has it."""
Delta = dict[str, Any]

_OF_ALL: Final = frozenset({"set"})
_OF_DICT: Final = frozenset({"put", "keys", "gone"})
_OF_TEXT: Final = frozenset({"kept", "more"})

# The most that the words around something cost, in characters. They only decide between two
# spellings of the same change, and never whether it is right.
_WORDS: Final = 32
_PLACE: Final = 48
_NO_LIMIT: Final = 1 << 62
# A longer integer is not converted to text just to count its digits.
_LONG: Final = 10**18
_ABSENT: Final = object()


class Misfit(Exception):
    """A delta does not fit the value it is applied to. Internal: callers report what is corrupt."""


def diff(old: Plain, new: Plain, *, shortest: bool = True) -> Delta:
    """Return what turns ``old`` into ``new``. 1, 1.0 and True are three values.

    Without ``shortest``, each change is named where it happened, even if that takes more words.
    """
    return _diff(old, new, shortest)[0]


def grown(length: int, items: list[Plain]) -> Delta:
    """Return the delta of a list that had ``length`` items and now has these after them."""
    if not length:
        return {"set": items}
    return {"parts": [[0, length], {"new": items}]} if items else {}


def of_keys(deltas: Mapping[str, Delta]) -> Delta:
    """Return the delta of a dict from the deltas of its values. A new key has ``{"set": value}``.

    For callers that know what changed: with this and ``grown``, finding a delta costs nothing.
    """
    put = {key: delta["set"] for key, delta in deltas.items() if "set" in delta}
    keys = {key: delta for key, delta in deltas.items() if delta and "set" not in delta}
    return {word: found for word, found in (("put", put), ("keys", keys)) if found}


def same(one: Plain, other: Plain) -> bool:
    """Whether two plain values are equal in value and in type, at every level."""
    if one is other:
        return True
    kind = kind_of(one)
    if kind is not kind_of(other):
        return False
    if kind is dict:
        return len(one) == len(other) and all(
            same(value, other.get(key, _ABSENT)) for key, value in one.items()
        )
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    if kind is float:
        # 0.0 equals -0.0, but their stored texts differ.
        return repr(one) == repr(other)
    return bool(one == other)


def apply(old: Plain, delta: Delta) -> Plain:
    """Return the new value. It shares what did not change with ``old``, which is not modified."""
    return _apply(old, delta, False)


def apply_in_place(old: Plain, delta: Delta) -> Plain:
    """Return the new value, built from an old one that has no other owner. Both are consumed.

    A list that grew ten thousand times is extended in place, and not copied each time.
    """
    return _apply(old, delta, True)


def combine(first: Delta, second: Delta) -> Delta:
    """Combine two consecutive deltas into one, without the values themselves."""
    if not first or "set" in second:
        return second
    if not second:
        return first
    if "set" in first:
        return {"set": apply(first["set"], second)}
    if "parts" in first and "parts" in second:
        return {"parts": _combined_parts(_parts(first), _parts(second))}
    if "parts" in first or "parts" in second:
        raise Misfit("one change is of a list, the next one of another value")
    if "kept" in first and "kept" in second:
        return _combined_text(first, second)
    return _combined_keys(first, second)


def inverse(old: Plain, delta: Delta) -> Delta | None:
    """Return what turns the new value back into ``old``, with its keys in their order.

    The cost depends only on what changed. None: a key removed from the middle of an object could
    only be restored at its end.
    """
    if not delta:
        return {}
    if "set" in delta:
        return {"set": old}
    if "parts" in delta:
        parts = _inverse_parts(old, _parts(delta))
        return None if parts is None else {"parts": parts}
    if "kept" in delta:
        return {"kept": delta["kept"], "more": old[delta["kept"] :]}
    went = [key for key in delta.get("gone", ()) if key in old]
    if went and set(islice(reversed(old), len(went))) != set(went):
        return None
    put = {key: old[key] for key in delta.get("put", ()) if key in old and key not in went}
    if went:
        put.update((key, value) for key, value in old.items() if key in went)
    keys = {key: inverse(old[key], change) for key, change in delta.get("keys", {}).items()}
    if None in keys.values():
        return None
    gone = [key for key in delta.get("put", ()) if key not in old or key in went]
    words = (("put", put), ("keys", keys), ("gone", gone))
    return {word: found for word, found in words if found}


def growth(old: Plain, delta: Delta) -> int:
    """Return by about how many characters ``old`` grows. The cost depends only on what changed."""
    if not delta:
        return 0
    if "set" in delta:
        return weight(delta["set"]) - weight(old)
    if "parts" in delta:
        return _growth_of_list(old, _parts(delta))
    if "kept" in delta:
        kept, more = _text(delta)
        return kept + len(more) - len(old)
    grown = 0
    for key, value in delta.get("put", {}).items():
        before = old.get(key, _ABSENT)
        entry = len(key) + 4 if before is _ABSENT else -weight(before)
        grown += entry + weight(value)
    for key, change in delta.get("keys", {}).items():
        grown += growth(old[key], change)
    for key in delta.get("gone", ()):
        if key in old:
            grown -= len(key) + 4 + weight(old[key])
    return grown


def weight(value: Plain, *, limit: int = _NO_LIMIT) -> int:
    """Return about how many characters of JSON a value takes, and never more than it does.

    It stops counting soon after the limit, for callers that only ask whether it is exceeded.
    """
    # The list that is put around the value here is not part of it.
    total = -1
    pending: list[Any] = [[value]]
    while pending and total <= limit:
        items = pending.pop()
        # Before looking at each item: the number of items alone may exceed the limit.
        total += 2 * len(items)
        if total > limit:
            break
        if isinstance(items, dict):
            total += sum(map(len, items)) + 3 * len(items)
            items = items.values()
        for item in items:
            kind = type(item)
            if kind is str:
                total += len(item) + 1
            elif kind is dict or kind is list or kind in FROZEN:
                if item:
                    pending.append(item)
                else:
                    total += 1
            elif kind is bool or item is None:
                total += 4 if item is False else 3
            elif kind is float or (kind is int and -_LONG < item < _LONG):
                total += len(repr(item)) - 1
    return total


# Finding what changed


def _diff(old: Plain, new: Plain, shortest: bool) -> tuple[Delta, int]:
    """Return a delta, and about how many characters it takes."""
    kind = kind_of(new)
    if old is new:
        return {}, 2
    if kind_of(old) is not kind or (kind is not dict and kind is not list):
        if same(old, new):
            return {}, 2
        if shortest and isinstance(old, str) and isinstance(new, str):
            return _diff_texts(old, new)
        return {"set": new}, weight(new) + _WORDS
    found, size = (_diff_dicts if kind is dict else _diff_lists)(old, new, shortest)
    if found and shortest and size > weight(new, limit=size):
        return {"set": new}, weight(new) + _WORDS
    return found, size


def _diff_texts(old: str, new: str) -> tuple[Delta, int]:
    """Name only what was added at the end, or how much is left from the beginning."""
    kept = min(len(old), len(new))
    if kept > _WORDS and old[:kept] == new[:kept]:
        more = new[kept:]
        return {"kept": kept, "more": more}, weight(more) + _WORDS
    return {"set": new}, weight(new) + _WORDS


def _diff_dicts(old: Plain, new: Plain, shortest: bool) -> tuple[Delta, int]:
    put, keys, size, added = {}, {}, _WORDS, 0
    for key in changed_keys(old, new):
        before, value = old.get(key, _ABSENT), new[key]
        if before is _ABSENT:
            added += 1
            put[key] = value
            size += len(key) + 4 + weight(value)
            continue
        change, length = _diff(before, value, shortest)
        if "set" in change:
            put[key] = value
            size += len(key) + 4 + length - _WORDS
        elif change:
            keys[key] = change
            size += len(key) + 4 + length
    # Only a key of the old dict can be longer when stored than its number of characters.
    gone = [key for key in old if key not in new] if len(old) + added > len(new) else []
    size += sum(len(encode_basestring_ascii(key)) + 1 for key in gone)
    words = (("put", put), ("keys", keys), ("gone", gone))
    return {word: found for word, found in words if found}, size


def _diff_lists(old: Plain, new: Plain, shortest: bool) -> tuple[Delta, int]:
    head, rest = shared_ends(old, new)
    # Other objects with the same contents extend the common beginning, and then the common end.
    head += _run(old[head : len(old) - rest], new[head : len(new) - rest])
    if head + rest == len(old) == len(new):
        return {}, 2
    rest += _run(old[head : len(old) - rest][::-1], new[head : len(new) - rest][::-1])
    parts = _Parts()
    parts.copy(0, head)
    size = _middle(old, new, parts, head, rest, shortest)
    parts.copy(len(old) - rest, len(old))
    return {"parts": parts.parts}, size + _WORDS + _PLACE * len(parts.parts)


def _middle(old: Plain, new: Plain, parts: _Parts, head: int, rest: int, shortest: bool) -> int:
    """Add what is between a common beginning and a common end. Return about how long it is."""
    before, after = len(old) - rest, len(new) - rest
    taken, made, size = head, head, 0
    if head < before and head < after:
        # The first new item may be a later item of the old list: a queue, or a window.
        first = new[head]
        found = (at for at in range(head + 1, before) if same(old[at], first))
        start = next(found, None)
        if start is not None:
            length = _run(old[start:before], new[head:after])
            parts.copy(start, start + length)
            taken, made = start + length, head + length
    for at in range(made, min(after, made + before - taken)):
        item, was = new[at], old[taken + at - made]
        change, length = _diff(was, item, shortest)
        if not change:
            parts.copy(taken + at - made, taken + at - made + 1)
        elif "set" in change:
            parts.add([item])
            size += weight(item) + 1
        else:
            parts.change(taken + at - made, change)
            size += length
    tail = new[min(after, made + before - taken) : after]
    parts.add(tail)
    return size + weight(tail)


def _run(old: list[Plain], new: list[Plain]) -> int:
    """Return how many items at the beginning of both are the same."""
    for at in compress(count(), map(is_not, old, new)):
        if not same(old[at], new[at]):
            return at
    return min(len(old), len(new))


class _Parts:
    """The parts of a list while it is built. Adjacent parts of one kind are merged."""

    def __init__(self) -> None:
        self.parts: list[Any] = []

    def copy(self, start: int, stop: int) -> None:
        if start >= stop:
            return
        last = self.parts[-1] if self.parts else None
        if type(last) is list and last[1] == start:
            self.parts[-1] = [last[0], stop]
        else:
            self.parts.append([start, stop])

    def add(self, items: list[Plain]) -> None:
        if not items:
            return
        last = self.parts[-1] if self.parts else None
        if type(last) is dict and "new" in last:
            # This list was made two lines below, and nothing else refers to it yet.
            last["new"].extend(items)
        else:
            self.parts.append({"new": list(items)})

    def change(self, at: int, change: Delta) -> None:
        self.parts.append({"at": at, "change": change})


# Applying it


def _apply(old: Plain, delta: Delta, owned: bool) -> Plain:
    # A resumed run comes here a few times for each of its steps.
    if not delta:
        return old
    if type(delta) is not dict or not _OF_DICT.issuperset(delta):
        if "set" in delta:
            _expect(delta, _OF_ALL)
            return delta["set"]
        if "kept" in delta:
            return _apply_text(old, delta)
        return _apply_parts(old, _parts(delta), owned)
    if kind_of(old) is not dict:
        raise Misfit(f"a change of an object meets {type(old).__name__}")
    made = old if owned else dict(old)
    if "keys" in delta:
        for key, change in delta["keys"].items():
            if key not in made:
                raise Misfit(f"a change of {key!r} meets an object without it")
            made[key] = _apply(made[key], change, owned)
    if "gone" in delta:
        for key in delta["gone"]:
            # In a combined delta, the first part may have added what the second removed.
            made.pop(key, None)
    if "put" in delta:
        # A key that is both removed and added moves to the end.
        made.update(delta["put"])
    return made


def _apply_text(old: Plain, delta: Delta) -> str:
    kept, more = _text(delta)
    if type(old) is not str or not 0 <= kept <= len(old):
        raise Misfit(f"a change after {kept} characters of a text meets {type(old).__name__}")
    return old[:kept] + more


def _text(delta: Delta) -> tuple[int, str]:
    _expect(delta, _OF_TEXT)
    kept, more = delta.get("kept"), delta.get("more")
    if type(kept) is not int or type(more) is not str:
        raise Misfit("a change of a text does not say what it keeps and what follows")
    return kept, more


def _apply_parts(old: Plain, parts: list[Any], owned: bool) -> Plain:
    if kind_of(old) is not list:
        raise Misfit(f"a change of a list meets {type(old).__name__}")
    if owned and parts and parts[0] == [0, len(old)]:
        for place in range(1, len(parts)):
            old += _new_items(parts[place])
        return old
    if owned and len(parts) == 1 and type(parts[0]) is list:
        for start, stop, _ in places(parts, len(old)):
            del old[stop:], old[:start]
        return old
    made: list[Plain] = []
    for start, stop, part in places(parts, len(old)):
        if type(part) is list:
            made += old[start:stop]
        elif start < stop:
            made.append(_apply(old[start], part["change"], owned))
        else:
            made += _new_items(part)
    return made


def _parts(delta: Delta) -> list[Any]:
    parts = delta.get("parts") if type(delta) is dict and len(delta) == 1 else None
    if type(parts) is not list:
        raise Misfit("a change holds words that are not known")
    return parts


def places(parts: list[Any], length: int) -> Iterator[tuple[int, int, Any]]:
    """Yield each part with the range of old items it uses. No two parts may share an item."""
    stop = 0
    for part in parts:
        if type(part) is dict and "new" in part:
            yield stop, stop, part
            continue
        start, end = (part["at"], part["at"] + 1) if type(part) is dict else part
        if not stop <= start < end <= length:
            raise Misfit(f"items {start} to {end - 1} are not there")
        stop = end
        yield start, end, part


def _new_items(part: Any) -> list[Plain]:
    items = part.get("new") if type(part) is dict and len(part) == 1 else None
    if type(items) is not list:
        raise Misfit("the new items of a list are not a list")
    return items


def _expect(delta: Any, words: frozenset[str]) -> None:
    if type(delta) is not dict or not words.issuperset(delta):
        raise Misfit("a change holds words that are not known")


def _growth_of_list(old: Plain, parts: list[Any]) -> int:
    # The weight of a list includes two brackets but not the last comma.
    grown, seen = 0, 0
    for start, stop, part in places(parts, len(old)):
        if type(part) is dict and start < stop:
            grown += growth(old[start], part["change"])
        elif type(part) is dict:
            grown += weight(part["new"]) - 1
        if start > seen:
            grown -= weight(old[seen:start]) - 1
        seen = stop
    return grown - (weight(old[seen:]) - 1 if seen < len(old) else 0)


def _inverse_parts(old: list[Plain], parts: list[Any]) -> list[Any] | None:
    undone, seen, made = _Parts(), 0, 0
    for start, stop, part in places(parts, len(old)):
        undone.add(old[seen:start])
        if start == stop:
            made += len(_new_items(part))
            continue
        if type(part) is list:
            undone.copy(made, made + stop - start)
        else:
            change = inverse(old[start], part["change"])
            if change is None:
                return None
            undone.change(made, change)
        made += stop - start
        seen = stop
    undone.add(old[seen:])
    return undone.parts


# Making two into one


def _combined_text(first: Delta, second: Delta) -> Delta:
    (before, between), (kept, more) = _text(first), _text(second)
    if kept > before + len(between):
        raise Misfit(f"a change keeps {kept} characters of a shorter text")
    return {"kept": min(before, kept), "more": between[: max(0, kept - before)] + more}


def _combined_keys(first: Delta, second: Delta) -> Delta:
    _expect(first, _OF_DICT)
    _expect(second, _OF_DICT)
    put, keys = dict(first.get("put", {})), dict(first.get("keys", {}))
    gone = dict.fromkeys(first.get("gone", ()))
    for key, change in second.get("keys", {}).items():
        if key in put:
            put[key] = apply(put[key], change)
        elif key in gone:
            raise Misfit(f"a change of {key!r} meets an object without it")
        else:
            keys[key] = combine(keys.get(key, {}), change)
    for key in second.get("gone", ()):
        put.pop(key, None)
        keys.pop(key, None)
        gone[key] = None
    for key, value in second.get("put", {}).items():
        # If the key was removed before, it stays removed: it does not return to its old place.
        put[key] = value
        keys.pop(key, None)
    words = (("put", put), ("keys", keys), ("gone", list(gone)))
    return {word: found for word, found in words if found}


def _combined_parts(first: list[Any], second: list[Any]) -> list[Any]:
    """Combine two lists of parts. Items that the second uses are traced through the first."""
    between = list(_spans(first))
    length = between[-1][1] if between else 0
    combined, passed = _Parts(), 0
    for start, stop, part in places(second, length):
        if start == stop:
            combined.add(_new_items(part))
            continue
        change = part["change"] if type(part) is dict else {}
        while between[passed][1] <= start:
            passed += 1
        for begin, end, source in islice(between, passed, None):
            if begin >= stop:
                break
            _take(combined, source, max(begin, start) - begin, min(end, stop) - begin, change)
    return combined.parts


def _spans(parts: list[Any]) -> Iterator[tuple[int, int, Any]]:
    """Yield each part with the range of its items in the new list."""
    begin = 0
    for _, _, part in places(parts, _NO_LIMIT):
        if type(part) is list:
            length = part[1] - part[0]
        else:
            length = len(part["new"]) if "new" in part else 1
        yield begin, begin + length, part
        begin += length


def _take(combined: _Parts, source: Any, low: int, high: int, change: Delta) -> None:
    """Take items ``low`` to ``high`` of one part. A change, if any, applies to a single item."""
    if type(source) is list:
        if change:
            combined.change(source[0] + low, change)
        else:
            combined.copy(source[0] + low, source[0] + high)
    elif "new" in source:
        items = source["new"][low:high]
        combined.add([apply(item, change) for item in items] if change else items)
    else:
        combined.change(source["at"], combine(source["change"], change))
