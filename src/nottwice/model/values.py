"""What is plain data, and what are its canonical bytes, its hash and its stored text?

Plain data is exactly dict with str keys, list (both may be frozen, see `frozen.py`), str, int,
float, bool and None, nested at most MAX_DEPTH deep. Equal values have equal canonical bytes (RFC
8785, JCS), however they were spelled. Unequal values have unequal bytes, 64-bit ids included.
Anything that is not plain is refused with the path to it, and never rounded, repaired or rendered
by chance.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import sha256
from itertools import accumulate
from json.encoder import encode_basestring
from math import isfinite
from typing import Any, Final, NoReturn

from nottwice.errors import LedgerCorrupt, NotPlainData
from nottwice.model.data.refusals import MAX_DEPTH as MAX_DEPTH
from nottwice.model.data.refusals import MAX_INTEGER_BITS as MAX_INTEGER_BITS
from nottwice.model.data.refusals import MAX_ITEMS, Refusal, find_refusal, is_too_long
from nottwice.model.saving.frozen import FROZEN, kind_of


def canonical(value: object) -> bytes:
    """Return the RFC 8785 bytes of plain data: equal values have one spelling.

    10 and 10.0 are one value. An integer that no double can hold is written as its digits followed
    by ``n``, a token that no JSON can spell, so it is never rounded and never equals a float.
    """
    return _canonical(value, _survey(value))


def _canonical(value: object, spelling: int) -> bytes:
    if spelling & ~HOLDS_FROZEN == _AS_JSON:
        return _dump_sorted(value).encode()
    if spelling < 0:
        _refuse(value, "$")
    pieces: list[str] = []
    _write(value, pieces, order=_utf16_units if spelling & _WIDE_KEYS else None)
    return "".join(pieces).encode()


def hash_of(value: object) -> str:
    """Return the SHA-256 of the canonical bytes, in hexadecimal digits."""
    return sha256(canonical(value)).hexdigest()


def survey(value: object) -> int | None:
    """Return what hash_surveyed needs to know of the value. None unless it is exactly plain."""
    found = _survey(value)
    return found if found >= 0 else None


def hash_surveyed(value: object, found: int) -> str:
    """Return the same hash without a second pass, for a surveyed value or a part of one."""
    if found == _AS_JSON:
        return sha256(_dump_sorted(value).encode()).hexdigest()
    # The survey may claim too much for a part. That only takes the slower way to the same bytes.
    return sha256(_canonical(value, found)).hexdigest()


def check_plain(value: object, *, root: str = "$") -> None:
    """Raise NotPlainData unless the value is exactly plain. Its path begins with root."""
    if _survey(value) < 0:
        _refuse(value, root)


def is_plain(value: object) -> bool:
    """Whether check_plain would accept the value."""
    return _survey(value) >= 0


def is_too_large(value: object) -> bool:
    """Whether the value is refused for its number of items alone, before they are walked."""
    return _survey(value) == _TOO_MANY


def holds_frozen(value: object) -> bool:
    """Whether a value is plain data with a frozen part."""
    found = _survey(value)
    return found >= 0 and bool(found & HOLDS_FROZEN)


def same_types(one: Any, other: Any) -> bool:
    """Whether two values have equal types all the way down; the scalars in them may differ."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same_types(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_types, one, other))
    return True


def encode(value: object) -> str:
    """Return the stored JSON text. Unlike canonical, it keeps key order and 10 and 10.0 apart."""
    if _survey(value) < 0:
        _refuse(value, "$")
    return _dump(value)


def encode_known(plain: object) -> str:
    """Return the same for a value known to be plain, on paths where a second check costs."""
    return _dump(plain)


def decode(text: str) -> Any:
    """Return what encode was given, with equal types at every level. LedgerCorrupt otherwise."""
    if type(text) is not str:
        _distrust(f"it is {type(text).__name__}, not text")
    try:
        value = _parse(text)
    except ValueError as error:
        _distrust(str(error), cause=error)
    except RecursionError as error:
        # If the text is shallow enough, it is not at fault: the caller's own stack is used up.
        # Calling a sound ledger corrupt would stop the run permanently.
        if nesting(text) <= MAX_DEPTH:
            raise
        _distrust(f"it is nested deeper than {MAX_DEPTH} levels", cause=error)
    if _survey(value) < 0:
        refusal = find_refusal(value)
        _distrust(f"{refusal.path} {refusal.what}")
    return value


def decode_object(text: str) -> dict[str, Any]:
    """Return the same for what must be an object: arguments, a state. LedgerCorrupt otherwise."""
    value = decode(text)
    if type(value) is not dict:
        _distrust("it is not an object")
    return value


def parse(text: str) -> Any:
    """Read a short text that encode wrote, in a third of the time that decode takes.

    The contents are not checked. A caller that builds one value from many texts checks that value
    instead.
    """
    try:
        value, end = _read_unseen(text, 0)
        if end == len(text):
            return value
    except (ValueError, RecursionError, TypeError, StopIteration):
        pass
    return decode(text)


# What a survey finds. The C encoder of the standard library writes what RFC 8785 asks for, except
# for some numbers and for the order of keys beyond U+FFFF. Only values with one of these two take
# the slower way through _write.
_TOO_MANY: Final = -2
_NOT_PLAIN: Final = -1
_AS_JSON: Final = 0
_ODD_NUMBERS: Final = 1
_WIDE_KEYS: Final = 2
HOLDS_FROZEN: Final = 4
"""What `survey` adds for a value with a frozen part."""

# Between these, every integer is a double, and its digits are the double's RFC 8785 spelling.
_FIRST_SAFE: Final = -(2**53)
_LAST_SAFE: Final = 2**53


def _survey(value: object) -> int:
    """Decide in one pass whether the value is plain and which encoder may write it.

    This runs for every call, so it is one flat loop over an explicit stack, without paths. The
    stack also keeps deep data from ending in a RecursionError. find_refusal looks for a path when
    one is needed. The walk is depth first, so that data that contains itself soon reaches the
    limit.
    """
    visited = 1
    kind = type(value)
    found = HOLDS_FROZEN if kind in FROZEN else _AS_JSON
    is_container = kind is dict or kind is list or found
    pending: list[tuple[Any, int]] = [(value, 1) if is_container else ((value,), 0)]
    try:
        while pending:
            items, depth = pending.pop()
            # A list that holds another list twice, which holds another twice, is small in memory
            # but endless as JSON.
            visited += len(items)
            if visited > MAX_ITEMS:
                return _TOO_MANY
            if isinstance(items, dict):
                for key in items:
                    if type(key) is not str:
                        return _NOT_PLAIN
                    if not key.isascii():
                        key.encode()
                        if max(key) > "\uffff":
                            found |= _WIDE_KEYS
                items = items.values()
            for item in items:
                kind = type(item)
                if kind is str:
                    if not item.isascii():
                        item.encode()
                elif kind is dict or kind is list:
                    if depth >= MAX_DEPTH:
                        return _NOT_PLAIN
                    pending.append((item, depth + 1))
                elif kind is int:
                    if not _FIRST_SAFE <= item <= _LAST_SAFE:
                        if is_too_long(item):
                            return _NOT_PLAIN
                        found |= _ODD_NUMBERS
                elif kind is float:
                    # In this range Python never uses an exponent, and only whole numbers get the
                    # ".0" that RFC 8785 leaves out.
                    if not 1e-4 <= abs(item) < 1e16 or item.is_integer():
                        if not isfinite(item):
                            return _NOT_PLAIN
                        found |= _ODD_NUMBERS
                elif kind in FROZEN:
                    if depth >= MAX_DEPTH:
                        return _NOT_PLAIN
                    found |= HOLDS_FROZEN
                    pending.append((item, depth + 1))
                elif kind is not bool and item is not None:
                    return _NOT_PLAIN
    except UnicodeEncodeError:
        return _NOT_PLAIN
    return found


def _dumper(*, sort_keys: bool) -> Callable[[object], str]:
    """Return what ``json.dumps`` does with these settings, without a new encoder for every text.

    ``JSONEncoder.encode`` makes one each time, which takes as long as writing the arguments of an
    ordinary call. Without a C encoder, that is still what happens.
    """
    encoder = json.JSONEncoder(
        ensure_ascii=False,
        check_circular=False,
        allow_nan=False,
        separators=(",", ":"),
        sort_keys=sort_keys,
    )
    make_encoder = getattr(json.encoder, "c_make_encoder", None)
    if make_encoder is None:
        return encoder.encode
    write = make_encoder(
        None, encoder.default, encode_basestring, None, ":", ",", sort_keys, False, False
    )
    join = "".join
    return lambda value: join(write(value, 0))


_dump = _dumper(sort_keys=False)
_dump_sorted = _dumper(sort_keys=True)


_Order = Callable[[str], bytes] | None


def _write(value: Any, pieces: list[str], *, order: _Order) -> None:
    """Append the RFC 8785 spelling of plain data. ``order`` is the sort key for names."""
    kind = kind_of(value)
    if kind is str:
        pieces.append(encode_basestring(value))
    elif kind is dict:
        mark = "{"
        for name in sorted(value, key=order):
            pieces.append(f"{mark}{encode_basestring(name)}:")
            _write(value[name], pieces, order=order)
            mark = ","
        pieces.append("}" if value else "{}")
    elif kind is list:
        mark = "["
        for item in value:
            pieces.append(mark)
            _write(item, pieces, order=order)
            mark = ","
        pieces.append("]" if value else "[]")
    elif kind is float:
        pieces.append(_spell_float(value))
    elif kind is int:
        pieces.append(_spell_integer(value))
    else:
        pieces.append("null" if value is None else "true" if value else "false")


def _utf16_units(name: str) -> bytes:
    # RFC 8785 sorts by UTF-16 code units. Up to U+FFFF that is the order of code points. A wider
    # character begins with a surrogate and so comes before U+E000 to U+FFFF.
    return name.encode("utf-16-be")


def _spell_integer(number: int) -> str:
    if _FIRST_SAFE <= number <= _LAST_SAFE:
        return str(number)
    try:
        double = float(number)
    except OverflowError:
        return f"{number}n"
    return _spell_float(double) if double == number else f"{number}n"


def _spell_float(number: float) -> str:
    """Return the digits of ECMAScript's Number::toString. Python only places them differently."""
    text = repr(number)
    if "e" not in text:
        return "0" if number == 0 else text.removesuffix(".0")
    mantissa, _, exponent = text.partition("e")
    power = int(exponent)
    if not -7 < power < 21:
        return f"{mantissa}e{power:+d}"
    sign = "-" if number < 0 else ""
    digits = mantissa.removeprefix("-").replace(".", "")
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    return sign + digits.ljust(power + 1, "0")


def _refuse(value: object, root: str) -> NoReturn:
    if _survey(value) == _TOO_MANY:
        refusal = Refusal(
            root,
            f"has more than {MAX_ITEMS:,} items, counted as JSON would write them",
            "Store it elsewhere, and pass where it is.",
        )
    else:
        refusal = find_refusal(value, root=root)
    raise NotPlainData(
        f"Not plain data: {refusal.path} {refusal.what}. "
        f"The value was neither hashed nor stored. {refusal.remedy}",
        path=refusal.path,
    )


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("an object has the same name twice")
    return names


_parse = json.JSONDecoder(object_pairs_hook=_refuse_twins).decode
# Not raw_decode, which only adds a layer of Python around this.
_read_unseen: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]


def nesting(text: str) -> int:
    """Return how deep the brackets of a JSON text go. Brackets inside strings do not count."""
    marks = re.findall(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', text)
    return max(accumulate((mark in "[{") - (mark in "]}") for mark in marks), default=0)


def _distrust(reason: str, *, cause: Exception | None = None) -> NoReturn:
    raise LedgerCorrupt(
        f"A stored value cannot be read: {reason}. It was not used, and nothing was changed. "
        "Restore the ledger from a backup."
    ) from cause
