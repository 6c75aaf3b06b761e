"""How long do canonical bytes, hashes, the plain check and text at rest take for 2 KB of input?

``python bench/values.py`` prints microseconds per call, ours beside the rfc8785 library (the same
bytes, in Python) and orjson (not the same bytes, in Rust: the floor). The subjects take turns, and
the best turn of each counts, so that a busy moment of the machine affects all of them.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from importlib.util import find_spec
from timeit import timeit
from typing import Any

from nottwice.model.values import canonical, check_plain, decode, encode, hash_of

TURNS = 100
CALLS_PER_TURN = 50

Subject = Callable[[], object]


def main() -> None:
    """Print one table, with a line for each subject and a column for each input."""
    inputs = {
        "flat": flat_input(),
        "structured": structured_input(price=19.99),
        "whole floats": structured_input(price=20.0),
    }
    print(f"Python {platform.python_version()}, microseconds per call, best of {TURNS} turns")
    print_line("", *inputs)
    print_line("bytes at rest", *(len(encode(value).encode()) for value in inputs.values()))
    print_line("containers", *(count(value, containers=True) for value in inputs.values()))
    print_line("leaves", *(count(value, containers=False) for value in inputs.values()))
    columns = [measure(value) for value in inputs.values()]
    for subject in columns[0]:
        print_line(subject, *(f"{column[subject]:.1f}" for column in columns))


def flat_input() -> dict[str, Any]:
    """The arguments of an ordinary tool: some twenty fields, most of them text."""
    text = "A sentence of the length that people and models put into a field, give or take a few."
    fields: dict[str, Any] = {f"field_{number:02}": text for number in range(20)}
    return {**fields, "order_id": 9007199254740991, "amount": 12.5, "urgent": False, "note": None}


def structured_input(*, price: float) -> dict[str, Any]:
    """An order as a model would pass it: objects in lists in objects, text of usual length."""
    lines = [
        {
            "article": f"SKU-2026-{number:05}",
            "title": "Merino pullover, round neck, long sleeves",
            "quantity": number + 1,
            "price": price + number,
            "options": {"colour": "dark blue", "size": "M", "gift": False},
            "remarks": ["wrap separately", "no price tag, please"],
        }
        for number in range(8)
    ]
    customer = {
        "name": "Zoë Müller-Ørsted",
        "email": "zoe.mueller@example.org",
        "address": {"street": "Lange Straße 12", "city": "Köln", "country": "DE"},
    }
    note = "The customer asked on the phone to have everything sent in one parcel before Friday."
    return {"order_id": "ord_7f3a9c", "customer": customer, "lines": lines, "note": note}


def subjects(value: Any) -> dict[str, Subject]:
    """Return what is measured, by name. A library that is not installed is left out."""
    text = encode(value)
    found: dict[str, Subject] = {
        "canonical": lambda: canonical(value),
        "hash_of": lambda: hash_of(value),
        "check_plain": lambda: check_plain(value),
        "encode": lambda: encode(value),
        "decode": lambda: decode(text),
    }
    if find_spec("rfc8785"):
        import rfc8785

        found["rfc8785.dumps"] = lambda: rfc8785.dumps(value)
    if find_spec("orjson"):
        import orjson

        found["orjson.dumps, sorted"] = lambda: orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return found


def measure(value: Any) -> dict[str, float]:
    """Return the best microseconds per call of every subject."""
    measured = subjects(value)
    best = dict.fromkeys(measured, float("inf"))
    for _ in range(TURNS):
        for name, subject in measured.items():
            microseconds = timeit(subject, number=CALLS_PER_TURN) / CALLS_PER_TURN * 1e6
            best[name] = min(best[name], microseconds)
    return best


def count(value: Any, *, containers: bool) -> int:
    """Return how many containers, or how many leaves, the value has."""
    if isinstance(value, dict):
        return containers + sum(count(each, containers=containers) for each in value.values())
    if isinstance(value, list):
        return containers + sum(count(each, containers=containers) for each in value)
    return not containers


def print_line(name: str, *cells: object) -> None:
    print(f"{name:<22}" + "".join(f"{cell!s:>14}" for cell in cells))


if __name__ == "__main__":
    main()
