"""The same loop as the other files of this kind, as an Absurd task.

Its tables and functions come as one SQL file, which is not in its package. It is read from
``absurd.sql`` in the folder of the environments.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from absurd_sdk import Absurd

BODY = "x" * 500


def open_task(folder: Path, *, twice: bool = False) -> tuple[str, Callable[..., float]]:
    """Open a task whose steps each return 500 bytes. This process works on it immediately.

    ``twice``: add another step before each step, which records what is about to be done. Every
    thread has its own connection, which is more than Absurd's own worker would give it.
    """
    url = (folder / "url").read_text()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((folder / "absurd.sql").read_text())
    Absurd(url, queue_name="bench").create_queue("bench")
    mine = threading.local()

    def loop(params: dict, context) -> int:
        for number in range(params["steps"]):
            if twice:
                context.step(f"before {number}", lambda number=number: {"number": number})
            context.step(f"{number}", lambda: BODY)
        return params["steps"]

    def run(run_id: str, steps: int, *, dies: int = -1) -> float:
        if not hasattr(mine, "app"):
            mine.app = Absurd(url, queue_name="bench")
            mine.app.register_task(name="loop")(loop)
        began = time.perf_counter()
        task = mine.app.spawn("loop", {"steps": steps}, idempotency_key=run_id)
        while True:
            # Each thread works on whatever task it gets, which need not be its own.
            mine.app.work_batch(worker_id="bench", claim_timeout=600, batch_size=1)
            found = mine.app.fetch_task_result(task["task_id"])
            if found.state not in ("pending", "running"):
                break
        assert found.result == steps
        return time.perf_counter() - began

    return "a record before and after" if twice else "one record after a step", run


def open_task_twice(folder: Path) -> tuple[str, Callable[..., float]]:
    return open_task(folder, twice=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import graph_worker

    graph_worker.serve({"task": open_task, "twice": open_task_twice})
