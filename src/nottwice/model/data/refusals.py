"""Where is a value not plain data, what is there, and what should be there instead?

This is the slow, explaining form of the rule that `values.py` applies to every call. It runs only
for a value that is not plain. It never calls the value's own code and never quotes its contents,
which may be secret. Only keys appear, shortened, in the path.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from nottwice.model.saving.frozen import kind_of

MAX_DEPTH: Final = 128
# The items of all lists and objects together, each counted as often as it would be written.
MAX_ITEMS: Final = 1_000_000
# About 2,470 digits: beyond any key or modulus in use, and below the 4,300 digits at which Python
# refuses to convert an integer to text.
MAX_INTEGER_BITS: Final = 8192

_Steps = tuple[str | int, ...]
_Fault = tuple[str, str]


@dataclass(frozen=True)
class Refusal:
    """The first part in reading order that is not plain. ``what`` continues the path."""

    path: str
    what: str
    remedy: str


def find_refusal(value: object, *, root: str = "$") -> Refusal:
    """Explain why a value is not plain. Paths read like ``$.items[3]["unit price"]``."""
    found = next(_faults(value, ()), None)
    if found is None:
        return Refusal(root, "was changed while it was read", "Keep other threads away from it.")
    steps, fault = found
    return Refusal(spell_path(root, steps), *fault)


def is_too_long(number: int) -> bool:
    """Whether nottwice or Python refuses to write this integer as digits."""
    # A program may have lowered Python's own limit. Then the lower limit counts.
    digits = sys.get_int_max_str_digits() or sys.maxsize
    bits = number.bit_length()
    return bits > MAX_INTEGER_BITS or bits * 0.30103 + 1 > digits


def _faults(item: Any, steps: _Steps) -> Iterator[tuple[_Steps, _Fault]]:
    fault = _fault_of(item, depth=len(steps))
    if fault is not None:
        yield steps, fault
    elif isinstance(item, dict):
        for key, each in item.items():
            yield from _faults(each, (*steps, key))
    elif isinstance(item, list):
        for index, each in enumerate(item):
            yield from _faults(each, (*steps, index))


def _fault_of(item: Any, *, depth: int) -> _Fault | None:
    """Return what is wrong with one item, apart from its contents, and what to do instead."""
    kind = kind_of(item)
    if item is None or kind is bool:
        return None
    if kind is str:
        return _fault_of_text(item, "is text with")
    if kind is int and is_too_long(item):
        what = f"is an integer of {item.bit_length()} bits; the limit is {MAX_INTEGER_BITS}"
        return f"{what}, or less if Python's own is lower", "Use text, for example hex(...)."
    if kind is float and not isfinite(item):
        return f"is {item!r}, a float that JSON cannot write", "Use None or a word, as text."
    if kind is int or kind is float:
        return None
    if kind is not dict and kind is not list:
        return f"is of type {_type_name(kind)}", _remedy_for(kind)
    if depth >= MAX_DEPTH:
        what = f"is deeper than {MAX_DEPTH} levels, or it contains itself"
        return what, "Flatten it, or refer to the inner part by an id."
    for key in item if kind is dict else ():
        if type(key) is not str:
            what = f"has a key of type {_type_name(type(key))}; a key must be exactly str"
            return what, "Use text as the key; of an Enum, its .value."
        fault = _fault_of_text(key, f"has the key {json.dumps(_shortened(key))} with")
        if fault is not None:
            return fault
    return None


def _fault_of_text(text: str, where: str) -> _Fault | None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        what = f"a lone surrogate (U+{ord(text[error.start]):04X}) at character {error.start}"
        remedy = "Decode its source again, or use text.encode('utf-8', 'replace').decode()."
        return f"{where} {what}", remedy
    return None


def spell_path(root: str, steps: Sequence[str | int]) -> str:
    """Return a path for a person. The middle of a very long path is left out."""
    if len(steps) > 16:
        return f"{spell_path(root, steps[:8])}…{spell_path('', steps[-7:])}"
    return root + "".join(map(_step, steps))


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    name = _shortened(step)
    if name.isidentifier():
        return f".{name}"
    # Unprintable characters, such as control characters, must not reach a terminal or a log.
    return f"[{json.dumps(name, ensure_ascii=not name.isprintable())}]"


def _shortened(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:39]}…"


def _type_name(kind: type) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


# By name, because importing a dozen modules for an error text would slow down every start. The
# first line that names one of the value's classes decides, so Enum comes before str and int.
_REMEDIES: Final = {
    "enum.Enum": "Use its .value.",
    "bytes bytearray memoryview": "Encode it as text, for example base64.",
    "set frozenset": "Use a sorted list.",
    "dict mappingproxy collections.Mapping": "Use dict(...).",
    "str uuid.UUID pathlib.PurePath BaseException": "Use str(...).",
    "int": "Use int(...).",
    "float": "Use float(...).",
    "complex": "Use a list of its real and its imaginary part.",
    "decimal.Decimal fractions.Fraction": "Use text, or whole numbers of the smallest unit.",
    "datetime.date datetime.time": "Use its .isoformat().",
    "datetime.timedelta": "Use its .total_seconds().",
    "numpy.ndarray numpy.generic": "Use its .tolist().",
    "pydantic.BaseModel": "Use its .model_dump(mode='json').",
    "list tuple range generator map filter zip collections.deque": "Use list(...).",
    "coroutine async_generator _asyncio.Future": "Await it first, and pass what it returns.",
    "function method builtin_function_or_method type module": "Pass its name, and look it up.",
    "_io._IOBase": "Pass its path, or its contents as text.",
}


def _remedy_for(kind: type) -> str:
    names = set()
    for each in kind.__mro__:
        # Only the outermost module counts: inner modules move between versions of a library.
        package = each.__module__.partition(".")[0]
        names.add(each.__name__ if package == "builtins" else f"{package}.{each.__name__}")
    for known, remedy in _REMEDIES.items():
        if not names.isdisjoint(known.split()):
            return remedy
    if "__dataclass_fields__" in vars(kind):
        return "Use dataclasses.asdict(...)."
    return "Turn it into a dict, list, str, int, float, bool or None first."
