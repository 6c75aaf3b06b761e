"""Does the map in CONTRIBUTING.md show every room of the package, and no other?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.tidy.source import PACKAGE, Finding, Tree, room_of

MAP = "CONTRIBUTING.md"
# The front door and `python -m nottwice` are no rooms.
DOORS = {"", "__main__"}


def rooms_off_the_map(page: str, source: Tree) -> Iterator[Finding]:
    """Every room has a row in the map, and every row a room."""
    rooms = {room_of(path) for path in source if path.startswith(PACKAGE)} - DOORS
    shown: dict[str, int] = {}
    for number, line in enumerate(page.splitlines(), start=1):
        if line.startswith("| `"):
            for name in re.findall(r"`(\w+)(?:/|\.py)`", line.split("|")[1]):
                shown[name] = number
    for room in sorted(rooms - shown.keys()):
        yield Finding(MAP, 1, f"the map does not show {room}", "Add a row with its question")
    for room in sorted(shown.keys() - rooms):
        yield Finding(MAP, shown[room], f"there is no room {room}", "Remove it from the map")
