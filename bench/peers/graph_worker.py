"""One process of a graph benchmark: runs loops as it is told and prints how long they took."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Openers = dict[str, Callable[[Path], tuple[str, Callable[..., float]]]]


def serve(openers: Openers) -> None:
    """Arguments: opener, folder. Then a line of JSON for every answer that is wanted."""
    opener, folder = sys.argv[1], Path(sys.argv[2])
    note, run = openers[opener](folder)
    answer({"note": note})
    for line in sys.stdin:
        wanted: dict[str, Any] = json.loads(line)
        answer({"seconds": run(wanted["id"], wanted["steps"], dies=wanted.get("dies", -1))})


def answer(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)
