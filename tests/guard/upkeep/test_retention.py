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
