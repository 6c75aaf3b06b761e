"""Would the recorded runs survive a migration? Each is migrated in memory (P162).

The plan is the same as that of ``nottwice migrate``, with the same refusals. No receipt of the old
version answers a call of the new one. So a migrated checkpoint is resumed until it makes the first
call that the world would have to answer.
"""

from __future__ import annotations

import dataclasses

from nottwice.model import values
from nottwice.model.graphs.fingerprint import Fingerprint
from nottwice.model.graphs.graph import split_graph_id
from nottwice.model.graphs.mapping import open_visits
from nottwice.model.graphs.position import Position
from nottwice.model.run import GraphRecord, RunStatus
from nottwice.model.saving.image import load_image
from nottwice.testing.replay.fixture import Fixture
from nottwice.testing.replay.runner import ReplayStore
from nottwice.testing.replay.visits import Visits
from nottwice.versions.migrate_plan import OVER, MigrationOrder, draw_up


def concerns(order: MigrationOrder, fixture: Fixture) -> bool:
    """Return whether a run must be migrated before the new version can take it."""
    name, version = split_graph_id(fixture.graph_id)
    return name == order.to.name and version[:2] != order.to.version[:2]


def migrated(fixture: Fixture, order: MigrationOrder) -> Fixture:
    """Return the checkpoint after a migration. Raises MigrationRefused like a real migration."""
    if not _is_newest(fixture):
        # What followed had not happened yet when the run was here.
        fixture = dataclasses.replace(
            fixture, status=RunStatus.RUNNING, steps=(), calls=(), reviews=(), waits=()
        )
    store, run_id = ReplayStore(fixture, {}), fixture.run_id
    data = store.data
    data.graphs[fixture.graph_id] = GraphRecord(
        fixture.graph_id, values.encode(fixture.definition), fixture.at
    )
    data.calls.update((row.identity, row) for row in fixture.calls)
    data.steps.update(((run_id, step.node_id, step.checkpoint_id), step) for step in fixture.steps)
    plan = draw_up(store, data.runs[run_id], order, now=fixture.at)
    data.checkpoints[(run_id, plan.record.version)] = plan.record
    image = load_image(store.checkpoint_chain(run_id))
    return dataclasses.replace(
        fixture,
        graph_id=order.to.id,
        status=RunStatus.RUNNING,
        after=plan.record.node_id,
        version=plan.record.version,
        state=image["state"],
        position=image["position"],
        definition=values.decode_object(order.to.record_json),
        steps=(),
        calls=(),
        reviews=(),
        waits=(),
    )


def _is_newest(fixture: Fixture) -> bool:
    """Return whether the run is still at the checkpoint: only its open visits followed."""
    if fixture.status in OVER:
        return False
    graph = Fingerprint.from_plain(fixture.definition).graph
    under_way = {
        (visit.node_id, visit.checkpoint_id(fixture.graph_id))
        for visit in open_visits(graph, Position.from_plain(fixture.position))
    }
    places = [(step.node_id, step.checkpoint_id) for step in fixture.steps]
    return set(Visits(fixture.graph_id, graph).among(places)) <= under_way
