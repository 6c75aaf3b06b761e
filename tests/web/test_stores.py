"""Does the page show and decide the reviews of every kind of ledger?"""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from tests.postgres import server
from tests.web.visiting import Visit

sent: list[str] = []


@nt.tool("unsafe_on_replay", name="stores_mail")
def mail(to: str) -> str:
    sent.append(to)
    raise nt.Ambiguous("the answer was lost")


def send(place: str) -> str:
    with nt.run("ticket-7", store=place):
        return mail(to="ann")


@pytest.mark.parametrize("kind", ["sqlite", "files", "postgres"])
def test_a_doubt_is_shown_decided_and_used(tmp_path: Path, kind: str) -> None:
    places = {
        "sqlite": lambda: str(tmp_path / "agent.db"),
        "files": lambda: f"file:{tmp_path / 'runs'}",
        "postgres": lambda: server.ledger_url(tmp_path),
    }
    place = places[kind]()
    sent.clear()
    with pytest.raises(nt.RunBlocked):
        send(place)
    with nt.Ledger(place, create=False) as ledger:
        visit = Visit(ledger)
        (review,) = ledger.store.open_reviews("ticket-7")
        assert "stores_mail" in visit.text("/")
        for path in ("/runs", "/run?id=ticket-7", "/ledger", "/report"):
            assert visit.get(path).status_code == 200, path
        path = f"/review/{review.review_id}"
        decided = visit.post(path, verb="happened", result__0="m-1", why="it is in the outbox")
        assert decided.status_code == 303
        assert "Recorded: happened" in visit.text(decided.headers["location"])
    assert send(place) == "m-1"
    assert sent == ["ann"]
