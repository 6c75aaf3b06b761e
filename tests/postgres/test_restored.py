"""A database restored with PostgreSQL's own tools can be held like any other copy (P91)."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.guard.upkeep.backup import account_for, hold_restored
from nottwice.store.postgres.store import PostgresStore
from tests.fakes import FakeClock
from tests.store.samples import NOW

sent: list[str] = []


@nt.tool("unsafe_on_replay", name="mail_before_restoring")
def mail(to: str) -> str:
    sent.append(to)
    return to


def test_a_restored_database_asks_before_a_run_of_it_continues(ledger: PostgresStore) -> None:
    clock = FakeClock(NOW)
    opened = nt.Ledger(ledger, clock=clock)
    with opened.run("run"):
        mail("ann")
    with pytest.raises(nt.errors.UsageError, match="pg_dump"):
        nt.backup("copy", store=opened)
    clock.advance(60)
    hold_restored(opened, by="ann", why="pg_dump of Monday")
    clock.advance(60)
    with pytest.raises(nt.RunBlocked, match="is a copy"):
        with opened.run("run"):
            mail("bob")
    with opened.run("new"):
        mail("cy")
    (review,) = ledger.open_reviews("run")
    nt.Reviews(opened).decide(review.review_id, "accept", by="ann", why="nothing ran since")
    account_for(opened, by="ann", why="nothing ran since")
    with opened.run("run"):
        mail("bob")
    assert sent == ["ann", "cy", "bob"]
