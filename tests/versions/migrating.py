"""Graphs in an old and a new version, and a short way to migrate a run between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nottwice as nt
from nottwice.model.run import RunRecord
from nottwice.store.memory import MemoryStore
from tests.fakes import Host
from tests.graphs.effects import Effects

OLD, NEW = "flow@1.0.0", "flow@2.0.0"
Body = Callable[[Any], Any]


def line(effects: Effects, version: str, *nodes: str, state: Any = dict) -> nt.Graph[Any]:
    """Nodes one after the other, each with one effect that is called like it and its version."""
    flow: nt.Graph[Any] = nt.Graph("flow", version=version, state=state)
    for name in nodes:
        flow.node(name=name)(_acting(effects, name, version))
    return flow


def _acting(effects: Effects, name: str, version: str) -> Body:
    def node(state: Any) -> Any:
        effects.visit(name)
        effects.act(f"{name} {version[0]}")

    return node


def of_bodies(version: str, state: Any = dict, **bodies: Body) -> nt.Graph[Any]:
    """Nodes one after the other that do what these functions do."""
    flow: nt.Graph[Any] = nt.Graph("flow", version=version, state=state)
    for name, body in bodies.items():
        flow.node(name=name)(body)
    return flow


def migrate(
    host: Host, new: nt.Graph[Any], mapping: dict[str, str], run_id: str = "r", **more: Any
) -> nt.versions.Migration:
    """In a process of its own, by an admin. All nodes here share one tool."""
    with host.process() as ledger:
        app = nt.App(graphs=[new], store=ledger, admins=["ann"])
        given = {"by": "ann", "why": "notify is broken", "repeats": ["act"], **more}
        return nt.versions.migrate(app, run_id, to=new.id, mapping=mapping, **given)


def load(host: Host, run_id: str = "r") -> RunRecord:
    found = MemoryStore(host.data).load_run(run_id)
    assert found is not None
    return found


def whole(host: Host) -> Any:
    """Everything that the ledger holds, to be compared, but for who held the run last."""
    data = host.data
    runs = {
        name: (run.status, run.graph_id, run.failure, run.waits, run.updated_at)
        for name, run in data.runs.items()
    }
    kept = (data.calls, data.steps, data.reviews, data.audit, data.checkpoints, data.events)
    return runs, [dict(each) for each in kept], dict(data.graphs)
