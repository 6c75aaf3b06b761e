"""One measured process: opens one library on one fresh file and makes calls on request.

``bench/peers.py`` starts it as ``python -I worker.py FILE OPENER DATABASE`` in the library's own
environment. ``-I`` keeps this folder off the import path: ``call4agents.py`` here must not hide the
library of the same name. It answers each line on stdin with one line of JSON on stdout. A number
requests that many timed calls, and the end of input requests the closing check.
"""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import TextIO

Call = Callable[[str, str], object]
Opener = Callable[[Path, Callable[..., dict[str, str]]], AbstractContextManager[Call]]

# With their JSON around them, the arguments and the result are about 500 bytes each.
BODY = "y" * 480
RESULT = {"receipt": "x" * 480}

effects: list[str] = []


def send(to: str, body: str) -> dict[str, str]:
    """The protected tool. It does next to nothing, so that the guard is measured."""
    effects.append(to)
    return {"receipt": "x" * 480}


def main() -> None:
    peer = load(Path(sys.argv[1]))
    opener: Opener = getattr(peer, sys.argv[2])
    database = Path(sys.argv[3])
    # A library may print. The answers go to the real stdout, everything else to stderr.
    answers, sys.stdout = sys.stdout, sys.stderr

    with opener(database, send) as call:
        answer(answers, {"version": version_of(peer), "note": peer.NOTE})
        made = 0
        for line in sys.stdin:
            calls = int(line)
            answer(answers, {"seconds": timed_calls(call, first=made, calls=calls)})
            made += calls

    answer(answers, {"keeps_results": keeps_results(peer, opener, database, made)})


def load(file: Path) -> ModuleType:
    """Load a peer's file under a name that no library has."""
    spec = importlib.util.spec_from_file_location(f"bench_peer_{file.stem}", file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def version_of(peer: ModuleType) -> str:
    if peer.DISTRIBUTION is None:
        return f"SQLite {sqlite3.sqlite_version}"
    return version(peer.DISTRIBUTION)


def timed_calls(call: Call, *, first: int, calls: int) -> float:
    """Time sequential new calls. The loop is the same for every library."""
    start = perf_counter()
    for number in range(first, first + calls):
        call(f"user{number}", BODY)
    return perf_counter() - start


def keeps_results(peer: ModuleType, opener: Opener, database: Path, made: int) -> bool | None:
    """Open the file again, repeat the first call, and check what the library returns.

    A guard that fires the effect again, or that lost a call, has not done the measured work. Its
    figures are rejected.
    """
    if peer.DISTRIBUTION is None:
        return None
    if len(effects) != made:
        raise SystemExit(f"{made} new calls fired {len(effects)} effects")
    with opener(database, send) as call:
        repeated = call("user0", BODY)
    if len(effects) != made:
        raise SystemExit("a repeated call fired its effect again")
    return repeated == RESULT


def answer(answers: TextIO, facts: dict[str, object]) -> None:
    print(json.dumps(facts), file=answers, flush=True)


if __name__ == "__main__":
    main()
