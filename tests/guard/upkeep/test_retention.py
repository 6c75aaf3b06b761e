"""Does ``nt.remove_expired`` look at the right ledger, and check what it is told?"""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from tests.fakes import FakeClock, Host


@nt.tool("pure", name="expiring_look")
def look(what: str) -> str:
    return what


def test_progress_is_told_and_who_removes_is_kept() -> None:
    host = Host()
    with host.process() as ledger:
        with ledger.run("run"):
            look("it")
        host.clock.advance(100 * 86_400)
        seen: list[int] = []
        removed = nt.remove_expired(
            ledger, by="ann", on_progress=lambda so_far: seen.append(so_far.families)
        )
        assert (removed.runs, removed.calls, seen) == (1, 1, [1])
        (entry,) = ledger.store.audit("run")
        assert entry.who == "ann"


def test_a_ledger_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(nt.errors.NoLedger):
        nt.remove_expired(tmp_path / "agent.db")
    assert list(tmp_path.iterdir()) == []


def test_who_removes_must_be_named() -> None:
    with nt.Ledger(":memory:", clock=FakeClock()) as ledger:
        with pytest.raises(nt.errors.InvalidId):
            nt.remove_expired(ledger, by="")


def test_old_notices_are_removed_also_of_runs_that_are_open() -> None:
    """Nothing is decided by them, so they need not outlive a month (P332)."""
    clock = FakeClock()
    ledger = nt.Ledger(":memory:", clock=clock)
    ledger.send("open", "paid")
    clock.advance(29 * 86_400.0)
    ledger.send("open", "shipped")
    clock.advance(2 * 86_400.0)
    assert nt.remove_expired(ledger, dry_run=True).notices == 1
    assert len(list(ledger.notices())) == 2
    assert nt.remove_expired(ledger).notices == 1
    assert nt.remove_expired(ledger, dry_run=True).notices == 0
    (left,) = ledger.notices()
    assert left.about["event"] == "shipped"
    assert len(ledger.store.events("open")) == 2


def test_a_dry_run_counts_the_notices_that_the_removal_counts() -> None:
    """Those of a run that is removed, too."""
    clock = FakeClock()
    ledger = nt.Ledger(":memory:", clock=clock)
    for name in ("a", "b"):
        with ledger.run(name):
            pass
    ledger.send("open", "paid")
    clock.advance(400 * 86_400.0)
    would = nt.remove_expired(ledger, dry_run=True)
    assert (would.runs, would.notices) == (2, 3)
    done = nt.remove_expired(ledger)
    assert (done.runs, done.notices) == (2, 3)
    assert list(ledger.notices()) == []
