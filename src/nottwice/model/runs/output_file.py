"""Which file did a step write? The one that it returned as ``output_file`` (S1).

A step names it itself: ``return {"output_file": "report.md"}``. Or it returns the result of a tool
that names it, as the recipes that write a file do: ``return {"report": write_file(...)}``.
Promise kept here: P176.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NAME = "output_file"
_MOST_CHARACTERS = 4096


def named_in(value: object) -> str | None:
    """Return the file that a value names as its ``output_file``, or None."""
    found = value.get(NAME) if isinstance(value, Mapping) else None
    return found if isinstance(found, str) and _can_be_written(found) else None


def named_by_step(
    changes: Mapping[str, Any], additions: Mapping[str, Sequence[Any]], state: Mapping[str, Any]
) -> str | None:
    """Return the file that a step named in its return value: directly, or in its last result.

    A step that returns the whole state, ``{**state, ...}``, does not name the files already in it.
    """
    returned = _names(changes)
    if returned and state and state.keys() <= changes.keys() | additions.keys():
        found = _names(state)
        returned = {key: name for key, name in returned.items() if found.get(key) != name}
    own = returned.pop(NAME, None)
    added = [name for items in additions.values() if items and (name := named_in(items[-1]))]
    return own or next(reversed([*returned.values(), *added]), None)


def _names(parts: Mapping[str, Any]) -> dict[str, str]:
    """Return the file that each part names. Under ``output_file`` it is the value itself."""
    named = {key: name for key, part in parts.items() if (name := named_in(part))}
    own = named_in(parts)
    return {**named, NAME: own} if own else named


def _can_be_written(name: str) -> bool:
    """Whether every store can keep this text. File names may be bytes that are not text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(name) <= _MOST_CHARACTERS and "\0" not in name
