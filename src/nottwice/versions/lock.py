"""The lock file: fingerprints of all deployed graphs as text, reviewed together with the code (V5).

A change to a graph changes this file, so a code review shows what the change means for open runs. A
build fails if code and file differ, and names the version that is needed. The file contains the
structure itself, one item per line where it fits, so that a diff can be read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nottwice.errors import InvalidGraph, UsageError
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import UNREADABLE
from nottwice.model.graphs import schemas
from nottwice.model.graphs.bump import Bump, is_draft, next_version, says_enough, what_bump
from nottwice.model.graphs.fingerprint import Fingerprint
from nottwice.model.graphs.graph import split_graph_id

FORMAT = 1
MOST_LINE_CHARACTERS = 96
_MARK = "nottwice_lock"
# Each node and each tool has its own line, so that a diff names what changed.
_BY_LINE = ("nodes", "tools")
_LOCK_ANEW = "Write it again: nottwice lock"

Locked = Mapping[str, Fingerprint]
"""The contents of a lock file, by graph id."""


@frozen_record(frozen=True, slots=True)
class Difference:
    """A difference between the code and the lock file."""

    text: str
    fix: str
    says_too_little: bool = False
    """The version understates the change of the graph. A new lock file would not fix that."""
    is_harmless: bool = False


def write_lock(fingerprints: Iterable[Fingerprint]) -> str:
    """Return the text of a lock file. The same graphs give the same text. Drafts are left out."""
    kept = [each for each in fingerprints if not is_draft(each.version)]
    kept.sort(key=lambda each: (each.graph.name, each.version))
    graphs = {each.graph.graph_id: _shown(each) for each in kept}
    return _layout({_MARK: FORMAT, "graphs": graphs}, depth=0, expanded=3) + "\n"


def read_lock(text: str, *, path: str) -> dict[str, Fingerprint]:
    """Return the contents of a lock file. UsageError if it cannot be read."""
    try:
        document = json.loads(text)
        number = document[_MARK]
        if isinstance(number, int) and number > FORMAT:
            raise UsageError(
                f"{path} was written by a newer nottwice (format {number}). Nothing was compared. "
                "Install that version."
            )
        return {
            graph_id: Fingerprint.from_plain(_named(graph_id, plain))
            for graph_id, plain in document["graphs"].items()
        }
    except (*UNREADABLE, InvalidGraph, RecursionError) as error:
        raise UsageError(
            f"{path} is not a readable lock file ({type(error).__name__}: {error}). Nothing "
            f"was compared. {_LOCK_ANEW}"
        ) from error


def compare(locked: Locked, fingerprints: Iterable[Fingerprint]) -> list[Difference]:
    """Return how the code differs from its lock file. Understated changes come first."""
    found = {each.graph.graph_id: each for each in fingerprints if not is_draft(each.version)}
    differences = [*_differences(locked, found)]
    return sorted(differences, key=lambda each: (not each.says_too_little, each.is_harmless))


def _differences(locked: Locked, found: Locked) -> Iterator[Difference]:
    for graph_id, new in sorted(found.items()):
        old = _basis(locked, new)
        if old is not None:
            bump = what_bump(old, new)
            if _is_said_by_another(old, new, bump, found):
                bump = bump.of_bound()
            if not says_enough(old.version, new.version, bump.part):
                needed = next_version(old.version, bump.part)
                yield Difference(
                    f"{new.graph.name} changed: {bump.text} → needs {needed}, found {new.version}",
                    f'write version="{needed}", keep the old code beside it while runs of it are '
                    "open, then: nottwice lock",
                    says_too_little=True,
                )
                continue
        if graph_id not in locked:
            yield Difference(f"{graph_id} is not in the lock file", "add it: nottwice lock")
    for graph_id in sorted(locked.keys() - found.keys()):
        yield Difference(
            f"{graph_id} is in the lock file but not in the code",
            "if no run needs it any more (nottwice runs --by-version): nottwice lock",
            is_harmless=True,
        )


def _is_said_by_another(old: Fingerprint, new: Fingerprint, bump: Bump, found: Locked) -> bool:
    """Whether a later version declares the change of one that is kept for its runs (P155)."""
    return old.version[:2] == new.version[:2] and any(
        other.graph.name == new.graph.name
        and other.version[:2] > new.version[:2]
        and says_enough(old.version, other.version, bump.part)
        for other in found.values()
    )


def _basis(locked: Locked, new: Fingerprint) -> Fingerprint | None:
    """Return the fingerprint to compare a graph with: its own, or the last version before it."""
    earlier = [
        old
        for graph_id, old in locked.items()
        if split_graph_id(graph_id)[0] == new.graph.name and old.version <= new.version
    ]
    return max(earlier, key=lambda old: old.version, default=None)


def _shown(fingerprint: Fingerprint) -> dict[str, Any]:
    """Return a fingerprint as it is written: nodes by name, each with its body."""
    plain = fingerprint.to_plain()
    bodies = plain.get("bodies", {})
    return {
        "nodes": {
            node["name"]: {
                **{key: value for key, value in node.items() if key != "name"},
                "body": bodies.get(node["name"]),
            }
            for node in plain["nodes"]
        },
        "append": plain["append"],
        "state": schemas.normal(plain["state"]),
        "tools": dict(sorted(plain.get("tools", {}).items())),
    }


def _named(graph_id: str, shown: Mapping[str, Any]) -> dict[str, Any]:
    """Reverse ``_shown``."""
    name, version = split_graph_id(graph_id)
    nodes = shown["nodes"]
    return {
        "name": name,
        "version": str(version),
        "nodes": [{"name": each, **nodes[each]} for each in nodes],
        "append": shown["append"],
        "state": shown["state"],
        "tools": shown["tools"],
        "bodies": {each: nodes[each]["body"] for each in nodes},
    }


def _layout(value: Any, *, depth: int, expanded: int) -> str:
    """Return JSON where whatever fits is on one line, below the outermost ``expanded`` levels."""
    line = json.dumps(value, ensure_ascii=False)
    short = depth >= expanded and 2 * depth + len(line) <= MOST_LINE_CHARACTERS
    if not isinstance(value, dict | list) or not value or short:
        return line
    inner, outer = "  " * (depth + 1), "  " * depth
    if isinstance(value, list):
        items = [_layout(each, depth=depth + 1, expanded=expanded) for each in value]
        opening, closing = "[", "]"
    else:
        items = [
            f"{json.dumps(key, ensure_ascii=False)}: "
            + _layout(each, depth=depth + 1, expanded=depth + 2 if key in _BY_LINE else expanded)
            for key, each in value.items()
        ]
        opening, closing = "{", "}"
    return opening + "\n" + ",\n".join(inner + item for item in items) + f"\n{outer}{closing}"
