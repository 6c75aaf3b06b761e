"""Are events and cancellations recorded like those of the commands, and only once?"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from nottwice.guard.ledger import Ledger
from nottwice.model.run import RunStatus
from tests.cli.workplace import Workplace
from tests.web.visiting import Visit, hidden, words


@pytest.fixture
def ledger(graph_place: Workplace) -> Iterator[Ledger]:
    with Ledger(graph_place.store, create=False) as opened:
        yield opened


def test_an_event_is_sent_once_and_the_run_takes_it(
    ledger: Ledger, visit: Visit, graph_place: Workplace
) -> None:
    form = hidden(visit.get("/run?id=listen-1").text)
    form |= {"name": "news", "data": '{"cents": 4000}'}
    assert [visit.client.post("/run/send", data=form).status_code for _ in range(2)] == [303, 303]
    (event,) = ledger.store.events("listen-1")
    assert (event.name, event.json, event.sent_by) == ("news", '{"cents":4000}', "ann")
    assert "4000" in visit.text("/run?id=listen-1&part=events")
    assert graph_place.run("--id listen-1").exit_code == 3
    (event,) = ledger.store.events("listen-1")
    assert event.received_by is not None


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"name": " "}, 400, "needs a name"),
        ({"name": "nottwice.cancel"}, 400, "needs a name"),
        ({"data": "{"}, 400, "is not JSON"),
        ({"id": "nope"}, 404, "There is no run"),
    ],
)
def test_an_odd_event_is_not_sent(
    change: dict[str, str], status: int, said: str, ledger: Ledger, visit: Visit
) -> None:
    form = hidden(visit.get("/run?id=listen-1").text) | {"name": "news"} | change
    answer = visit.client.post("/run/send", data=form)
    assert answer.status_code == status
    assert said in words(answer.text)
    assert ledger.store.events("listen-1") == []


def test_a_run_is_cancelled_permanently_with_who_and_why(ledger: Ledger, visit: Visit) -> None:
    form = hidden(visit.get("/run?id=parent-1").text) | {"why": "called off"}
    unsure = visit.client.post("/run/cancel", data=form)
    assert (unsure.status_code, "did not confirm" in words(unsure.text)) == (400, True)
    form["sure"] = "yes"
    assert visit.client.post("/run/cancel", data=form | {"why": ""}).status_code == 400
    assert [visit.client.post("/run/cancel", data=form).status_code for _ in range(2)] == [303, 303]
    runs = [ledger.store.load_run("parent-1"), *ledger.store.children("parent-1")]
    assert {run.status for run in runs if run is not None} == {RunStatus.ABORTED}
    entries = [one for one in ledger.store.audit("parent-1") if one.action == "cancel"]
    assert [(one.who, one.why) for one in entries] == [("ann", "called off")]
    assert "called off" in visit.text("/run?id=parent-1&part=audit")
    assert "Cancel this run" not in visit.text("/run?id=parent-1")


def test_a_visitor_who_may_only_look_has_no_forms(ledger: Ledger) -> None:
    text = Visit(ledger, may_decide=False).text("/run?id=listen-1")
    assert "Send an event" not in text
    assert "Cancel this run" not in text
