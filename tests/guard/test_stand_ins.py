"""A stand-in replaces the store of every ledger, and in one context only if it is told so."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.engine.host import Host
from nottwice.guard.stand_ins import stand_in_everywhere, stand_in_here
from nottwice.store.interface import Store
from nottwice.store.memory import MemoryStore


class Instead:
    """Another store, and nothing else."""

    def __init__(self) -> None:
        self.other = MemoryStore()

    def opened(self, given: str | Path | None) -> Store | None:
        return None

    def host(self, named: Host) -> Host:
        return replace(named, store=self.other)


@pytest.fixture
def ledger() -> Iterator[nt.Ledger]:
    yield nt.Ledger(MemoryStore())
    stand_in_everywhere(None)


def test_it_replaces_the_store_of_a_ledger_that_is_open_until_it_is_removed(
    ledger: nt.Ledger,
) -> None:
    named, instead = ledger.store, Instead()
    stand_in_everywhere(instead)
    with ledger.run("r"):
        pass
    assert ledger.store is instead.other
    stand_in_everywhere(None)
    assert ledger.store is named
    assert named.load_run("r") is None
    assert instead.other.load_run("r") is not None


def test_in_one_context_it_comes_before_the_one_for_all(ledger: nt.Ledger) -> None:
    everywhere, here = Instead(), Instead()
    stand_in_everywhere(everywhere)

    def inside() -> Store:
        stand_in_here(here)
        return ledger.store

    assert contextvars.Context().run(inside) is here.other
    assert ledger.store is everywhere.other


def test_a_block_and_a_handle_that_were_made_before_use_it_too(ledger: nt.Ledger) -> None:
    named, instead = ledger.store, Instead()
    block, handle = ledger.run("block"), ledger.attach("handle")
    stand_in_everywhere(instead)
    with block:
        pass
    with handle:
        pass
    for run_id in ("block", "handle"):
        assert named.load_run(run_id) is None
        assert instead.other.load_run(run_id) is not None
