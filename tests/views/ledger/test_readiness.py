"""How much work waits for workers, by graph, and what a dead worker has left (P313)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nottwice as nt
from nottwice.model.run import RunStatus
from nottwice.views.ledger.readiness import ReadyGraph, count_ready
from tests.fakes import Host
from tests.graphs.effects import graph


def test_it_counts_what_is_ready_and_says_how_long_the_first_has_waited() -> None:
    host = Host()
    with host.process() as gone:
        dead = gone.store.holder().holder_id
    with host.process() as ledger:
        flows = [graph("mail"), graph("refund")]
        for flow in flows:
            flow.node(name="a")(lambda state: None)
        app: Any = nt.App(graphs=flows, store=ledger)
        assert count_ready(ledger).ready == 0
        assert count_ready(ledger).oldest_seconds == 0.0
        app.enqueue_all("mail", dict.fromkeys(["a", "b", "c"]))
        host.clock.advance(30)
        app.enqueue_all("refund", dict.fromkeys(["d", "e"]))
        host.clock.advance(10)
        host.data.runs["a"] = replace(host.data.runs["a"], status=RunStatus.COMPLETED, epoch=1)
        host.data.runs["e"] = replace(host.data.runs["e"], epoch=1, holder_id=dead)
        found = count_ready(ledger)
        assert (found.ready, found.oldest_seconds, found.abandoned) == (3, 40.0, 1)
        assert found.graphs == (
            ReadyGraph(graph="mail@1.0.0", ready=2, oldest_seconds=40.0),
            ReadyGraph(graph="refund@1.0.0", ready=1, oldest_seconds=10.0),
        )
        only = count_ready(ledger, graph="refund")
        assert (only.ready, only.oldest_seconds, only.abandoned) == (1, 10.0, 1)
