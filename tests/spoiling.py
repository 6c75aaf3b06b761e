"""Plain data with an error in it, as another program may have written it."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

DEEP = json.loads("[" * 120 + "]" * 120)
GONE = object()
"""Means: it is not there any more."""
ODD: list[Any] = [
    GONE,
    None,
    True,
    -1,
    10**400,
    1.5,
    float("inf"),
    "",
    "x",
    "a\0b\x1b[2J\u202e",
    "\ud800",
    [],
    {},
    [1],
    {"a": 1},
    DEEP,
]
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["", "[" * 3_000 + "]" * 3_000, "9" * 5_000, '"\\ud800"', "NaN", "1e999"]),
    st.sampled_from(['{"a":', '{"a":1,"a":2}', "[[[1]]]", "null", "{}", "[]", "7", '"x"', "\0"]),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in plain data."""
    if path:
        yield path
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for name, each in inner:
            yield from places(each, (*path, name))


def spoiled(value: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """A copy with something else at one place."""
    changed = copy.deepcopy(value)
    inner = changed
    for name in path[:-1]:
        inner = inner[name]
    if odd is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = odd
    return changed


def spoiled_data(value: Any) -> st.SearchStrategy[Any]:
    """The data with something else at one of its places."""
    return st.builds(spoiled, st.just(value), st.sampled_from([*places(value)]), odd())


def odd() -> st.SearchStrategy[Any]:
    return st.sampled_from(ODD)


def spoiled_text(value: Any) -> st.SearchStrategy[str]:
    """JSON text that is nearly right, or not at all."""
    return st.one_of(spoiled_data(value).map(json.dumps), TEXTS)
