"""Does the page say the same as JSON, for programs?"""

from __future__ import annotations

import json

from nottwice.guard.ledger import Ledger
from tests.cli.workplace import Workplace
from tests.web.visiting import Visit

JSON = {"content-type": "application/json"}


def test_a_program_reads_what_the_commands_print(visit: Visit, workplace: Workplace) -> None:
    run = visit.get("/api/run?id=ticket-8").json()
    assert run == workplace.json("show", "ticket-8")
    runs = visit.get("/api/runs?prefix=ticket-").json()
    listed = workplace.json("runs", "ticket-")["runs"]
    assert [row["run"] for row in runs["rows"]] == listed
    assert visit.get("/api/runs?state=waiting").json()["next"] is None
    reviews = visit.get("/api/reviews").json()
    assert [row["review"]["run_id"] for row in reviews["rows"]][:2] == ["ticket-8", "ticket-9"]
    assert visit.get("/api/ledger").json()["overview"]["reviews"]["open"] == 3
    assert visit.get("/api/report?since=1d").json()["costs"][0]["doubts"] > 0


def test_a_program_decides_with_data_and_not_with_fields(
    visit: Visit, ledger: Ledger, doubt: str
) -> None:
    shown = visit.get(f"/api/reviews/{doubt}").json()
    assert [one["verb"] for one in shown["consequences"]][1] == "did-not-happen"
    assert "WILL BE CALLED" in shown["consequences"][1]["effect"]
    csrf = {"x-nottwice-csrf": _csrf(visit)}
    sent = {"verb": "happened", "why": "seen", "result": {"id": "m-1"}, "shown_version": 1}
    bad = visit.client.post(
        f"/api/reviews/{doubt}", json=sent | {"result": {"id": 7}}, headers=csrf
    )
    assert bad.status_code == 400
    assert bad.json()["error"]["type"] == "UsageError"
    for _ in range(2):
        answer = visit.client.post(f"/api/reviews/{doubt}", json=sent, headers=csrf)
        assert answer.status_code == 200, answer.text
    decision = answer.json()["case"]["review"]["decision"]
    assert (decision["verb"], decision["result"]["value"]) == ("happened", {"id": "m-1"})
    late = visit.client.post(f"/api/reviews/{doubt}", json=sent | {"verb": "abort"}, headers=csrf)
    assert late.status_code == 409
    assert late.json()["error"]["type"] == "DecisionConflict"


def test_a_program_filters_the_reviews_as_the_page_does(visit: Visit) -> None:
    rows = visit.get("/api/reviews?tool=refund&run=ticket-").json()["rows"]
    assert [row["review"]["run_id"] for row in rows] == ["ticket-9"]
    assert visit.get("/api/reviews?kind=questions").json()["rows"] == []
    assert visit.get("/api/reviews?kind=odd").status_code == 400


def test_text_that_no_ledger_can_keep_is_refused_by_its_name(
    visit: Visit, ledger: Ledger, doubt: str
) -> None:
    csrf = {"x-nottwice-csrf": _csrf(visit)}
    sent = {"verb": "abort", "why": "half \ud800", "shown_version": 1}
    wish = {"id": "ticket-9", "why": "half \ud800", "sure": "yes"}
    for path, form in ((f"/api/reviews/{doubt}", sent), ("/api/run/cancel", wish)):
        answer = visit.client.post(path, content=json.dumps(form), headers=csrf | JSON)
        assert answer.status_code == 400, answer.text
        assert "why is text with a lone surrogate" in answer.json()["error"]["message"]
    review = ledger.store.load_review(doubt)
    assert review is not None
    assert review.decision is None


def test_what_does_not_exist_is_an_error_in_json(visit: Visit) -> None:
    for path in ("/api/reviews/nope", "/api/run?id=nope"):
        answer = visit.get(path)
        assert answer.status_code == 404
        assert answer.json()["error"]["type"].startswith("Unknown")
    plain = visit.client.post("/api/run/send", json={"id": "ticket-8", "name": "x"})
    assert plain.status_code == 403
    assert plain.json()["error"]["type"] == "Refused"


def test_a_program_sends_an_event_and_cancels(visit: Visit, ledger: Ledger) -> None:
    csrf = {"x-nottwice-csrf": _csrf(visit)}
    event = {"id": "ticket-8", "name": "news", "data": "[7]", "event_id": "one"}
    for _ in range(2):
        told = visit.client.post("/api/run/send", json=event, headers=csrf).json()
    assert [(one["event_id"], one["data"]) for one in told["events"]] == [("one", [7])]
    wish = {"id": "ticket-9", "why": "off", "sure": "yes"}
    assert visit.client.post("/api/run/cancel", json=wish, headers=csrf).status_code == 200


def _csrf(visit: Visit) -> str:
    from tests.web.visiting import hidden

    return hidden(visit.get("/run?id=ticket-8").text)["csrf"]
