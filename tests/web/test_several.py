"""Do several ledgers share one page, with the same checks, and without mixing them up?"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import nottwice as nt
from nottwice.errors import NottwiceError, StoreError, UsageError
from nottwice.guard.ledger import Ledger
from nottwice.web.app import page
from nottwice.web.live import _beats
from nottwice.web.several import _AllPulses
from nottwice.web.visitors import LinkTokens
from tests.cli.workplace import Workplace
from tests.web.test_live import Hands
from tests.web.visiting import HOST, Visit, hidden, words

TOKEN = "a-token-that-is-long-enough-to-be-one"


@pytest.fixture
def ledgers(workplace: Workplace, tmp_path: Path) -> Iterator[list[Ledger]]:
    """The ledger that killed processes left, and a folder of JSON files with one question."""
    with (
        Ledger(workplace.store, create=False) as first,
        Ledger(f"file:{tmp_path / 'files'}") as second,
    ):
        with pytest.raises(NottwiceError), second.run("ask-1"):
            nt.ask("Refund 7 cents?", options=["yes", "no"])
        yield [first, second]


@pytest.fixture
def visit(ledgers: list[Ledger]) -> Visit:
    return Visit(ledgers)


def test_the_inbox_of_all_ledgers_is_ordered_by_danger_and_names_each(visit: Visit) -> None:
    markup = visit.get("/").text
    items = [words(f"<p {one}") for one in markup.split("<article")[1:]]
    assert len(items) == 4
    assert all("agent.db" in one for one in items[:3])
    assert "Refund 7 cents?" in items[3]
    assert "files" in items[3]
    text = words(markup)
    assert "Inbox of 2 ledgers" in text
    assert "4 open" in text
    found = re.findall(r'<a href="/in/([\w.]+)/">(\d+)</a>', markup)
    assert found == [("agent.db", "3"), ("files", "1")]


def test_every_address_names_its_ledger(visit: Visit) -> None:
    markup = visit.get("/in/agent.db/").text
    links = set(re.findall(r'(?:href|action|data-live)="([^"#]+)"', markup))
    own = {one for one in links if not one.startswith(("/static/", "/in/files/"))} - {"/"}
    assert own
    assert all(one.startswith("/in/agent.db/") for one in own), own
    for path in ("runs", "ledger", "report", "run?id=ask-1", "api/reviews"):
        assert visit.get(f"/in/files/{path}").status_code == 200, path
    assert "ask-1" in visit.text("/in/files/runs")
    assert "ask-1" not in visit.text("/in/agent.db/runs")
    # A review of one ledger is not known in another.
    review = re.search(r"/in/files/review/(\w+)", visit.get("/").text)
    assert review is not None
    assert visit.get(f"/in/agent.db/review/{review[1]}").status_code == 404
    assert visit.get("/in/nothing/").status_code == 404


def test_a_decision_goes_into_the_ledger_that_its_address_names(
    visit: Visit, ledgers: list[Ledger]
) -> None:
    (review,) = ledgers[1].store.open_reviews()
    path = f"/in/files/review/{review.review_id}"
    sent = visit.post(path, verb="yes", why="go on")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{path}?recorded=2")
    decided = ledgers[1].store.load_review(review.review_id)
    assert decided is not None
    assert decided.decision is not None
    assert len([one for one in ledgers[0].store.open_reviews() if one.decision is None]) == 3
    assert "--store" in visit.text(path)


def test_all_ledgers_have_the_same_checks(ledgers: list[Ledger]) -> None:
    tokens = LinkTokens(TOKEN, name="ann")
    app = page(ledgers, user=tokens.visitor, tokens=tokens, hosts=["testserver"])
    client = TestClient(app, base_url=HOST, follow_redirects=False)
    for path in ("/", "/in/agent.db/", "/in/files/runs", "/in/files/api/reviews", "/api/reviews"):
        stranger = client.get(path)
        assert stranger.status_code == 401, path
        assert "ticket" not in stranger.text
        assert client.get(path, headers={"host": "evil.example.com"}).status_code == 421
    assert client.get("/static/page.css").status_code == 200
    (review,) = ledgers[1].store.open_reviews()
    path = f"/in/files/review/{review.review_id}"
    looker = LinkTokens(TOKEN, name="ann").look_token
    assert client.get(f"/?token={looker}").headers["location"] == "/"
    assert "<button" not in client.get(path).text
    form = hidden(Visit(ledgers).get(path).text) | {"verb": "yes", "why": "x"}
    assert client.post(path, data=form).status_code == 403
    assert client.get(f"/in/files/?token={tokens.decide_token}").headers["location"] == "/in/files/"
    assert client.post(path, data=form | {"csrf": "0" * 64}).status_code == 403
    assert ledgers[1].store.open_reviews()[0].version == 1
    form |= hidden(client.get(path).text)
    assert client.post(path, data=form).status_code == 303


def test_a_ledger_that_cannot_be_read_hides_none_of_the_others(
    ledgers: list[Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    visit, pulses = Visit(ledgers), _AllPulses(dict(zip(["a", "b"], ledgers, strict=True)))
    before = pulses.feel(None)

    def broken(*_: Any, **__: Any) -> Any:
        raise StoreError("The disk of <b>files</b> is gone.")

    monkeypatch.setattr(ledgers[1].store, "open_reviews", broken)
    monkeypatch.setattr(ledgers[1].store, "tally", broken)
    markup = visit.get("/").text
    assert "files cannot be read" in words(markup)
    assert "<b>files" not in markup
    assert markup.count("<article") == 3
    plain = visit.get("/api/reviews").json()
    assert [(one["name"], one["open"]) for one in plain["ledgers"]] == [
        ("agent.db", 3),
        ("files", 0),
    ]
    assert "is gone" in plain["ledgers"][1]["error"]

    async def hear() -> str:
        watched = _AllPulses(dict(zip(["a", "b"], ledgers, strict=True)))
        return await anext(_beats(Hands(), watched, None))

    beat = json.loads(asyncio.run(hear()).partition("data: ")[2])
    assert (before.open, beat["open"]) == (4, 3)
    assert beat["mark"] != before.mark
    monkeypatch.setattr(ledgers[0].store, "tally", broken)
    assert asyncio.run(hear()).startswith("event: trouble")


def test_a_filter_holds_in_all_ledgers_and_an_odd_one_is_refused(visit: Visit) -> None:
    assert visit.get("/?kind=questions").text.count("<article") == 1
    assert visit.get("/?kind=in+doubt").text.count("<article") == 3
    assert "not a kind of review" in visit.text("/?kind=odd", status=400)


def test_a_ledger_is_named_once_and_one_alone_keeps_its_addresses(
    workplace: Workplace, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="more than once"):
        page([workplace.store, workplace.store], user=lambda request: "ann")
    with pytest.raises(UsageError, match="needs a ledger"):
        page([], user=lambda request: "ann")
    with Ledger(workplace.store, create=False) as alone:
        markup = Visit([alone]).get("/").text
    assert "All ledgers" not in markup
    assert 'href="/runs"' in markup
    other = tmp_path / "other" / "agent.db"
    other.parent.mkdir()
    shutil.copy(workplace.store, other)
    text = Visit([workplace.store, str(other)]).text("/")
    assert "other-agent.db" in text


def test_a_mounted_page_of_several_ledgers_stays_below_its_address(ledgers: list[Ledger]) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    app = Starlette(routes=[Mount("/nottwice", page(ledgers, user=lambda request: "bob"))])
    client = TestClient(app, base_url=HOST)
    for path in ("/nottwice/", "/nottwice/in/files/runs"):
        markup = client.get(path).text
        links = set(re.findall(r'(?:href|src|action|data-live)="([^"#]+)"', markup))
        assert all(one.startswith("/nottwice/") for one in links), links


def test_a_probe_hears_of_each_ledger_that_cannot_be_read(
    ledgers: list[Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = TestClient(page(ledgers, user=lambda request: None), base_url=HOST)
    assert (client.get("/healthz").status_code, client.get("/healthz").text) == (200, "ok\n")
    assert client.get("/in/files/metrics").status_code == 401

    def away(run_id: str) -> Any:
        raise StoreError("it is away")

    monkeypatch.setattr(ledgers[1].store, "load_run", away)
    assert client.get("/healthz").status_code == 503
