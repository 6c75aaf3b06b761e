"""Does the page show and decide the reviews of every kind of ledger?"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.views.ledger.pulse import feel
from tests.postgres import server
from tests.web.visiting import Visit, hidden, words

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


CHANGES = {
    "call": "UPDATE tool_call_results SET args_json = '{}' WHERE workflow_id = 'a-1'",
    "review": "UPDATE nottwice_reviews SET summary = 'forged' WHERE workflow_id = 'a-1'",
}


@pytest.mark.parametrize("row", CHANGES)
@pytest.mark.parametrize("is_opened_again", [False, True], ids=["", "opened again"])
def test_a_changed_row_hides_no_other_review(
    tmp_path: Path, row: str, is_opened_again: bool
) -> None:
    """P410."""
    place = tmp_path / "agent.db"
    with nt.Ledger(place, key=bytes(range(32))) as ledger:
        for run_id in ("a-1", "b-1"):
            with pytest.raises(nt.RunBlocked), ledger.run(run_id):
                mail(to=run_id)
        with closing(sqlite3.connect(place)) as other:
            other.execute(CHANGES[row])
            other.commit()
        if is_opened_again:
            with pytest.raises(nt.errors.LedgerTampered), ledger.run("a-1"):
                pass
        visit = Visit(ledger)
        shown = visit.text("/")
        assert f"{3 if is_opened_again else 2} open" in shown
        assert ("tampered 1" in shown) == is_opened_again
        assert "to='b-1'" in shown
        assert ("stores_mail, whose row cannot be trusted" in shown) == (row == "call")
        for path in ("/runs", "/ledger", "/report", "/behind?figure=doubts", "/metrics"):
            assert visit.get(path).status_code == 200, path
        assert ("audit --verify" in visit.text("/ledger")) == (row == "call")
        # The row itself is still not acted on.
        review = next(one for one in ledger.store.open_reviews() if one.kind.value == "in doubt")
        answer = visit.client.get(f"/review/{review.review_id}")
        assert "cannot be trusted" in answer.text
        assert "<form" not in answer.text
        assert answer.status_code == (200 if row == "call" else 500)
        assert f"audit --verify {'a-1 ' * (row == 'call')}--store {place}" in words(answer.text)
        run = visit.text("/run?id=a-1", status=500)
        assert f"nottwice audit --verify --store {place}" in run


def test_a_command_in_an_error_is_completed_with_the_ledger(tmp_path: Path) -> None:
    place = tmp_path / "agent.db"
    with nt.Ledger(place) as ledger:
        shown = Visit(ledger).text("/review/none", status=404)
    assert f"List them with: nottwice reviews --store {place}" in shown
    assert "Add the ledger" not in shown


def test_a_review_of_changed_rows_says_what_helps_and_refuses_a_form(tmp_path: Path) -> None:
    """P410."""
    place = tmp_path / "agent.db"
    with nt.Ledger(place, key=bytes(range(32))) as ledger:
        with pytest.raises(nt.RunBlocked), ledger.run("a-1"):
            mail(to="ann")
        visit = Visit(ledger)
        (review,) = ledger.store.open_reviews()
        path = f"/review/{review.review_id}"
        form = hidden(visit.get(path).text)
        with closing(sqlite3.connect(place)) as other:
            other.execute(CHANGES["call"])
            other.commit()
        shown = visit.text(path)
        assert "a row of this call is not as nottwice wrote it, so nothing can be decided" in shown
        assert f"nottwice audit --adopt --why TEXT a-1 --store {place}" in shown
        plain = visit.get(f"/api{path.replace('review', 'reviews')}").json()
        assert (plain["case"]["call"], plain["consequences"]) == (None, [])
        answer = visit.client.post(path, data={**form, "verb": "did-not-happen", "why": "odd"})
        assert answer.status_code == 500
        assert ledger.store.open_reviews()[0].decision is None
        # The review that the next opening makes has a choice, and the same ways out.
        with pytest.raises(nt.errors.LedgerTampered), ledger.run("a-1"):
            pass
        (tampered,) = [one for one in ledger.store.open_reviews() if one.kind.value == "corrupt"]
        shown = visit.text(f"/review/{tampered.review_id}")
        assert "What helps" in shown
        assert "Stop this run" in shown
        assert f"nottwice audit --adopt --why TEXT a-1 --store {place}" in shown


def test_a_file_that_cannot_be_read_is_named_where_its_reviews_are_missing(
    tmp_path: Path,
) -> None:
    """P410."""
    place = tmp_path / "runs"
    with pytest.raises(nt.RunBlocked):
        send(f"file:{place}")
    with (
        nt.Ledger(f"file:{place}", create=False) as ledger,
        nt.Ledger(tmp_path / "other.db") as other,
    ):
        visit, several = Visit(ledger), Visit([ledger, other])
        assert "cannot be read" not in visit.text("/")
        mark = feel(ledger).mark
        (file,) = [one for one in place.glob("*.json") if "ticket-7" in one.name]
        file.write_text("{")
        shown = visit.text("/")
        assert "1 file cannot be read , and what waits there is not shown" in shown
        assert str(file) in shown
        assert "Nothing waits for a person in what could be read." in shown
        assert "1 file of runs cannot be read" in several.text("/")
        assert "Nothing waits for a person in what could be read." in several.text("/")
        (flaw,) = visit.get("/api/reviews").json()["unreadable"]
        assert str(file) in flaw
        # An open page hears of it.
        assert feel(ledger).mark != mark
