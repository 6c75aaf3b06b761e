"""Does each turn of an agent have its words and its cost?"""

from __future__ import annotations

from pathlib import Path

import pytest

from nottwice.guard.ledger import Ledger
from nottwice.views.run.conversation import TurnView, turns_of
from nottwice.views.run.details import look_into
from nottwice.views.shape import to_plain
from tests.agent.workshop import Workshop
from tests.cli.render.test_agent import SCRIPT
from tests.web.visiting import Visit, words


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "agent.db")
    agent = Workshop(SCRIPT).agent
    agent.run("ticket-7", goal="close it", done_when=["paid [receipt: refund]"], store=path)
    agent.run("ticket-7", message="Thanks.", store=path)
    return path


def turns(ledger: Ledger) -> tuple[TurnView, ...]:
    agent = look_into(ledger, "ticket-7").agent
    assert agent is not None
    return turns_of(ledger, "ticket-7", agent)


def test_the_costs_of_the_turns_are_what_the_run_has_spent(store: str) -> None:
    """P358."""
    with Ledger(store, create=False) as ledger:
        agent = look_into(ledger, "ticket-7").agent
        found = [one for one in turns(ledger) if one.number]
    assert agent is not None
    spent = agent.state.spent.own
    assert len(found) == agent.turns == spent.requests == 6
    assert sum(one.tokens for one in found) == spent.tokens > 0
    assert sum(one.usd or 0.0 for one in found) == pytest.approx(spent.usd)
    assert all(one.attempts == 1 and one.seconds is not None for one in found)
    assert to_plain(found[0])["number"] == 1


def test_each_turn_has_what_was_said_in_it(store: str) -> None:
    """P358."""
    with Ledger(store, create=False) as ledger:
        found = turns(ledger)
    by_number = {one.number: [(said.kind, said.text) for said in one.said] for one in found}
    assert by_number[1][0] == ("reason", "Let me plan.")
    assert ("call", "get_order(order_id=7)") in by_number[1]
    assert ("call", "refund(order_id=7, cents=40)") in by_number[2]
    assert ("hear", "Thanks.") in by_number[5]
    assert by_number[6] == [("reason", "You are welcome.")]


def test_the_page_of_an_agent_shows_both(store: str) -> None:
    """P358."""
    with Ledger(store, create=False) as ledger:
        visit = Visit(ledger)
        markup = visit.get("/run?id=ticket-7&part=conversation").text
        plain = visit.get("/api/run/turns?id=ticket-7").json()["turns"]
    text = words(markup)
    assert "Spent in 6 turns" in text
    assert "Turn 2" in text
    assert markup.count('id="turn-') == 6
    assert "refund(order_id=7, cents=40)" in text
    assert [one["number"] for one in plain if one["number"]] == [1, 2, 3, 4, 5, 6]
