"""Is a worker alive, silent or dead, and which runs does it take? (P380)"""

from __future__ import annotations

import pytest

from nottwice.model.run import Life
from nottwice.model.runs.workers import (
    FORGOTTEN_SECONDS,
    HEARTBEAT_SECONDS,
    SILENT_SECONDS,
    WorkerRecord,
    WorkerState,
)

NOW = 1_700_000_000.0
WORKER = WorkerRecord("w", "holder", ("refund@1.2.3", "mail@10.0.0"), 8, NOW, NOW)


@pytest.mark.parametrize(
    ("life", "later", "state"),
    [
        (Life.ALIVE, HEARTBEAT_SECONDS, WorkerState.ALIVE),
        (Life.NOT_PROVEN, SILENT_SECONDS, WorkerState.ALIVE),
        (Life.ALIVE, SILENT_SECONDS + 1, WorkerState.SILENT),
        (Life.NOT_PROVEN, SILENT_SECONDS + 1, WorkerState.SILENT),
        (Life.ALIVE, -SILENT_SECONDS - 1, WorkerState.SILENT),
        (Life.DEAD, 0.0, WorkerState.DEAD),
        (Life.DEAD, SILENT_SECONDS + 1, WorkerState.DEAD),
    ],
)
def test_a_worker_is_silent_after_some_heartbeats_unless_it_is_proven_dead(
    life: Life, later: float, state: WorkerState
) -> None:
    assert WORKER.state(life, now=NOW + later) is state


@pytest.mark.parametrize(
    ("life", "later", "is_over"),
    [
        (Life.DEAD, 0.0, True),
        (Life.ALIVE, 0.0, False),
        (Life.NOT_PROVEN, FORGOTTEN_SECONDS, False),
        (Life.NOT_PROVEN, FORGOTTEN_SECONDS + 1, True),
        (Life.NOT_PROVEN, -FORGOTTEN_SECONDS - 1, True),
    ],
)
def test_a_record_is_removed_if_its_worker_is_dead_or_silent_for_a_day(
    life: Life, later: float, is_over: bool
) -> None:
    assert WORKER.is_over(life, now=NOW + later) is is_over


@pytest.mark.parametrize(
    ("graph_id", "has_code"),
    [
        ("refund@1.2.3", True),
        ("refund@1.2.0", True),
        ("refund@1.20.3", False),
        ("refund@1.1.3", False),
        ("refund@2.2.3", False),
        ("fund@1.2.3", False),
        ("mail@10.0.7", True),
        ("mail@1.0.0", False),
    ],
)
def test_a_worker_has_the_code_of_its_versions_and_of_their_other_patches(
    graph_id: str, has_code: bool
) -> None:
    assert WORKER.has_code_for(graph_id) is has_code
