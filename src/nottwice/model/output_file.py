"""Which file did a step write? The one that it returned as ``output_file`` (S1).

A step says so itself: ``return {"output_file": "report.md"}``. Or it returns the result of a tool
that says so, as the recipes that write a file do: ``return {"report": write_file(...)}``.
Promise kept here: P176.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NAME = "output_file"
_MOST_CHARACTERS = 4096


def named_in(value: object) -> str | None:
    """The file that a value names as its ``output_file``; None: it names none."""
    found = value.get(NAME) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) and _can_be_written(found) else None


def named_by_step(
    changes: Mapping[str, Any], additions: Mapping[str, Sequence[Any]], state: Mapping[str, Any]
) -> str | None:
    """The file that a step named in what it returned: itself, or by the last result in it.

    A step that returns the whole state, ``{**state, ...}``, says nothing about what it found there.
    """
    returned = _names(changes)
    if returned and state and state.keys() <= changes.keys() | additions.keys():
        found = _names(state)
        returned = {key: name for key, name in returned.items() if found.get(key) != name}
    own = returned.pop(NAME, None)
    added = [name for items in additions.values() if items and (name := named_in(items[-1]))]
    return own or next(reversed([*returned.values(), *added]), None)


def _names(parts: Mapping[str, Any]) -> dict[str, str]:
    """The file that each part names, and under ``output_file`` the one that is named there."""
    named = {key: name for key, part in parts.items() if (name := named_in(part))}
    own = named_in(parts)
    return {**named, NAME: own} if own else named


def _can_be_written(name: str) -> bool:
    """Whether every store can keep this text; names of files may be bytes that are no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(name) <= _MOST_CHARACTERS and "\0" not in name
