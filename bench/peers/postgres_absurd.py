"""The same loop as the other files of this kind, as an Absurd task.

Its tables and functions come as one SQL file, which is not in its package: it is read from
``absurd.sql`` in the folder of the environments.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
from absurd_sdk import Absurd

BODY = "x" * 500


def open_task(folder: Path) -> tuple[str, Callable[..., float]]:
    """A task whose steps each return 500 bytes, worked on by this process at once."""
    url = (folder / "url").read_text()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((folder / "absurd.sql").read_text())
    app = Absurd(url, queue_name="bench")
    app.create_queue("bench")

    @app.register_task(name="loop")
    def loop(params: dict, context) -> int:
        texts = [context.step(f"{number}", lambda: BODY) for number in range(params["steps"])]
        return len(texts)

    def run(run_id: str, steps: int, *, dies: int = -1) -> float:
        began = time.perf_counter()
        task = app.spawn("loop", {"steps": steps}, idempotency_key=run_id)
        app.work_batch(worker_id="bench", claim_timeout=600, batch_size=1)
        found = app.fetch_task_result(task["task_id"])
        assert found.result == steps
        return time.perf_counter() - began

    return "one record a step", run


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import graph_worker

    graph_worker.serve({"task": open_task})
