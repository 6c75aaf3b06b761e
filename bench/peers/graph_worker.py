"""One process of a graph benchmark: runs loops on request and prints how long they took."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

Openers = dict[str, Callable[[Path], tuple[str, Callable[..., Any]]]]


def serve(openers: Openers) -> None:
    """Serve requests. Arguments: opener, folder. Then one request per line of JSON."""
    opener, folder = sys.argv[1], Path(sys.argv[2])
    note, run = openers[opener](folder)
    answer({"note": note})
    pool: ThreadPoolExecutor | None = None
    for line in sys.stdin:
        wanted: dict[str, Any] = json.loads(line)
        if "at_once" in wanted:
            pool = pool or ThreadPoolExecutor(wanted["at_once"])
            answer({"seconds": together(pool, run, wanted)})
        else:
            how = {name: wanted[name] for name in ("dies", "resumes", "beside") if name in wanted}
            found = run(wanted["id"], wanted["steps"], **how)
            answer(found if isinstance(found, dict) else {"seconds": found})


def together(pool: ThreadPoolExecutor, run: Callable[..., float], wanted: dict[str, Any]) -> float:
    """Run that many runs concurrently, one thread each. Return seconds until all are done."""
    began = time.perf_counter()
    ids = [f"{wanted['id']}-{number}" for number in range(wanted["at_once"])]
    for started in [pool.submit(run, one, wanted["steps"]) for one in ids]:
        started.result()
    return time.perf_counter() - began


def answer(document: dict[str, Any]) -> None:
    print(json.dumps(document), flush=True)
