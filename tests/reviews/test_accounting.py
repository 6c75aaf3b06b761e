"""Does a copy that is accounted for continue, also where only workers open its runs? (P286)"""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.guard.ledger import ledger_of
from nottwice.guard.upkeep.backup import account_for as account_for_the_ledger
from nottwice.model.review import ReviewStatus
from nottwice.reviews.accounting import account_for

sent: list[int] = []


@nt.tool("unsafe_on_replay", name="send_from_a_copy")
def send(order: int) -> int:
    sent.append(order)
    return order


flow = nt.Graph("accounting", version="1.0.0")


@flow.node
def ask(state: dict[str, int]) -> None:
    nt.ask("Send it?", options=["yes"])


@flow.node
def post(state: dict[str, int]) -> None:
    send(state["order"])


def asked() -> int:
    """How many reviews of the copy no person has decided yet."""
    found = ledger_of("copy.db").store.open_reviews()
    return sum(review.status is ReviewStatus.OPEN for review in found)


@pytest.fixture
def held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nt.App:
    """A copy in which a worker has found two runs that are held."""
    monkeypatch.chdir(tmp_path)
    sent.clear()
    app = nt.App(graphs=[flow], store="agent.db")
    app.enqueue_all("accounting", {f"order-{n}": {"order": n} for n in (1, 2)})
    assert nt.Worker(app).run(until_idle=True).waiting == 2
    with nt.Reviews("agent.db") as reviews:
        for case in reviews.open():
            reviews.decide(case.review.review_id, "yes", by="ann")
    nt.backup("copy.db", store="agent.db")
    copy = nt.App(graphs=[flow], store="copy.db")
    assert nt.Worker(copy).run(until_idle=True).waiting == 2
    assert asked() == 2
    return copy


def test_a_worker_continues_runs_that_it_found_held_before_the_copy_was_accounted_for(
    held: nt.App,
) -> None:
    account_for(ledger_of("copy.db"), by="ann", why="nothing ran since")
    assert asked() == 0
    assert nt.Worker(held).run(until_idle=True).completed == 2
    assert sorted(sent) == [1, 2]
    assert ledger_of("copy.db").store.open_reviews() == []


def test_an_account_that_was_interrupted_is_completed_by_the_next(held: nt.App) -> None:
    ledger = ledger_of("copy.db")
    account_for_the_ledger(ledger, by="ann", why="nothing ran since")
    assert asked() == 2
    account_for(ledger, by="ann", why="nothing ran since")
    assert nt.Worker(held).run(until_idle=True).completed == 2
    with pytest.raises(nt.errors.UsageError, match="already accounted for"):
        account_for(ledger, by="ann", why="nothing ran since")
