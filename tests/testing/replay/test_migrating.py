"""Does the gate migrate a recorded checkpoint as `nottwice migrate` would?"""

from __future__ import annotations

from pathlib import Path

from nottwice.testing.replay.gate import Terms
from nottwice.versions.migrate_plan import MigrationOrder
from tests.testing.replay.deployment import Deployment, approvals, causes


def order(place: Deployment, *, restart_steps: bool) -> MigrationOrder:
    (graph,) = place.app.graphs
    nodes = [node.name for node in graph.definition().nodes]
    return MigrationOrder(
        to=graph,
        mapping={name: name for name in nodes},
        by="ann",
        why="a test",
        restart_steps=restart_steps,
    )


def test_a_run_that_waits_is_refused_as_migrate_would_unless_its_step_may_begin_again(
    tmp_path: Path,
) -> None:
    place = approvals(tmp_path)
    place.record()
    (old,) = place.app.graphs
    place.deploy((f'version="{old.id.partition("@")[2]}"', 'version="9.0.0"'))
    refused = place.replay(Terms(migration=order(place, restart_steps=False)))
    assert causes(refused) == {"migration refused"}
    assert {one.fixture.run_id for one in refused if one.fixture and not one.passed} == {"ticket-3"}
    assert "--restart-steps" in next(one for one in refused if not one.passed).problems[0].text
    allowed = place.replay(Terms(migration=order(place, restart_steps=True)))
    assert causes(allowed) == set()
    assert all(one.skipped is None for one in allowed)
