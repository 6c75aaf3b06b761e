"""Do the gauges tell how the ledger is: what waits, since when, and what could continue? (P342)"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.metrics import declared
from nottwice.metrics.gauges import FRESH_SECONDS, Gauges, read_gauges
from nottwice.model.review import Verb
from nottwice.model.runs.workers import SILENT_SECONDS
from nottwice.worker.presence import Presence
from tests.fakes import Host

flow = nt.Graph("gauged", version="1.0.0")


@flow.node
def first(state: dict[str, Any]) -> dict[str, Any]:
    return {"answer": nt.ask("Go on?")}


timed = nt.Graph("gauged_timer", version="1.0.0")


@timed.node
def rest(state: dict[str, Any]) -> None:
    nt.sleep("100s")


def values(ledger: nt.Ledger) -> dict[tuple[str, str], float]:
    return {
        (one.instrument.name, str(next(iter(one.labels.values()), ""))): one.value
        for one in read_gauges(ledger)
    }


def test_an_empty_ledger_has_every_series_and_nothing_in_it(host: Host) -> None:
    with host.process() as ledger:
        found = values(ledger)
    assert set(found.values()) == {0}
    assert {name for name, _ in found} == {one.name for one in declared.OF_LEDGER}
    assert ("nottwice.reviews.open", "corrupt") in found
    assert ("nottwice.runs", "interrupted") in found


def test_open_reviews_and_their_age_are_told_by_kind(host: Host) -> None:
    with host.process() as ledger:
        flow.run("r", {}, store=ledger)
        host.clock.advance(30)
        flow.run("q", {}, store=ledger)
        host.clock.advance(12)
        found = values(ledger)
        assert found["nottwice.reviews.open", "question"] == 2
        assert found["nottwice.reviews.oldest", "question"] == pytest.approx(42)
        assert found["nottwice.runs", "waiting"] == 2
        assert found["nottwice.runs.oldest_ready", ""] == 0


def test_a_ready_run_is_as_old_as_what_made_it_ready(host: Host) -> None:
    with host.process() as ledger:
        flow.run("r", {}, store=ledger)
        host.clock.advance(1000)
        host.decide(Verb.ANSWER, result="yes")
        host.clock.advance(7)
        found = values(ledger)
        assert found["nottwice.runs.oldest_ready", ""] == pytest.approx(7)
        assert found["nottwice.reviews.open", "question"] == 0


def test_a_timer_makes_a_run_ready_when_it_is_due(host: Host) -> None:
    with host.process() as ledger:
        timed.run("r", {}, store=ledger)
        host.clock.advance(90)
        assert values(ledger)["nottwice.runs.oldest_ready", ""] == 0
        host.clock.advance(25)
        assert values(ledger)["nottwice.runs.oldest_ready", ""] == pytest.approx(15)


def test_an_enqueued_run_waits_for_a_worker_from_then_on(host: Host) -> None:
    with host.process() as ledger:
        nt.App(graphs=[flow], store=ledger).enqueue("gauged", "r", {})
        host.clock.advance(61)
        found = values(ledger)
    assert found["nottwice.runs.oldest_ready", ""] == pytest.approx(61)
    assert found["nottwice.runs", "queued"] == 1


def test_an_eager_reader_gets_what_was_read_a_moment_ago(host: Host) -> None:
    with host.process() as ledger:
        gauges = Gauges(ledger)
        before = gauges.read()
        flow.run("r", {}, store=ledger)
        assert gauges.read() is before
        host.clock.advance(FRESH_SECONDS)
        assert gauges.read() != before


def test_workers_are_counted_by_their_state_also_if_they_are_idle(host: Host) -> None:
    with host.process() as killed:
        Presence(killed, [], concurrency=1).renew()
    with host.process() as ledger, host.process() as reader:
        assert values(reader)["nottwice.workers", "dead"] == 1
        Presence(ledger, [], concurrency=1).renew()
        found = values(reader)
        assert found["nottwice.workers", "alive"] == 1
        assert found["nottwice.workers", "dead"] == 0
        host.clock.advance(SILENT_SECONDS + 1)
        assert values(reader)["nottwice.workers", "silent"] == 1
