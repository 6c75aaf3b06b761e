"""A run has one driver in a process; one that was claimed and not begun is given back (P308)."""

from __future__ import annotations

import gc

import nottwice as nt
from nottwice.engine.driven import (
    drive_claimed,
    drive_here,
    driven_here,
    give_back,
    is_driven_here,
    stop_driving_here,
)
from nottwice.engine.drivers import drive
from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunStatus, Standing
from nottwice.store.claiming import ClaimedRun, claimed
from nottwice.store.interface import commit_of
from tests.fakes import Host
from tests.graphs.effects import graph


def test_a_run_is_driven_once_for_as_long_as_its_driver_can_be_reached() -> None:
    with Host().process() as ledger:
        holder = ledger.store.holder()
        driving = drive_here(holder, "r")
        assert driving is not None
        assert drive_here(holder, "r") is None
        assert driven_here(holder) == ["r"]
        del driving
        gc.collect()
        assert not is_driven_here(holder, "r")
        kept = drive_here(holder, "r")
        stop_driving_here(holder, "r")
        assert kept is not None
        assert not is_driven_here(holder, "r")


def claim_one(ledger: Ledger) -> ClaimedRun:
    flow = graph("flow")
    flow.node(name="a")(lambda state: None)
    nt.App(graphs=[flow], store=ledger).enqueue("flow", "r")
    found = ledger.store.load_run("r")
    assert found is not None
    run = claimed(found, ledger.store.holder().holder_id, ledger.clock.now())
    one = ClaimedRun(found, run, Standing())
    ledger.store.commit(commit_of(one))
    return one


def test_a_claim_that_no_driver_uses_is_given_back_as_it_was() -> None:
    with Host().process() as ledger:
        one = claim_one(ledger)
        mark = drive_claimed(one, ledger.store.holder(), words=0)
        assert mark is not None
        assert drive_claimed(one, ledger.store.holder(), words=0) is None
        assert one.run is not None
        drive(give_back(ledger.host, one.found, one.run), ledger.host)
        run = ledger.store.load_run("r")
        assert run is not None
        assert (run.status, run.holder_id, run.epoch) == (RunStatus.RUNNING, None, 1)
        assert ledger.store.ready_runs(begun=True, now=ledger.clock.now(), limit=9) == [run]


def test_a_claim_that_another_process_has_overtaken_is_left_to_it() -> None:
    with Host().process() as ledger:
        one = claim_one(ledger)
        assert one.run is not None
        later = claimed(one.run, "another", ledger.clock.now())
        ledger.store.commit(commit_of(ClaimedRun(one.run, later, Standing())))
        drive(give_back(ledger.host, one.found, one.run), ledger.host)
        assert ledger.store.load_run("r") == later
