"""Are several approvals recorded one by one, and doubts never together?"""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from click.testing import CliRunner

import nottwice as nt
from nottwice.cli.main import main
from nottwice.errors import NottwiceError, ReplayUnsafeError
from nottwice.guard.ledger import Ledger
from nottwice.reviews.inbox import Reviews
from nottwice.worker.presence import Presence
from tests.cli.workplace import Workplace
from tests.web.visiting import Visit, hidden, words


@nt.tool("unsafe_on_replay", name="inbox_pay", approve=True, title="Pay {cents} cents")
def pay(cents: int) -> str:
    return f"paid {cents}"


@nt.tool("unsafe_on_replay", name="inbox_lost")
def lose(number: int) -> str:
    raise TimeoutError("no answer")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """Three approvals and two doubts."""
    with Ledger(tmp_path / "a.db") as opened:
        for number in range(3):
            with pytest.raises(NottwiceError), opened.run(f"pay-{number}"):
                pay(cents=number)
        for number in range(2):
            with pytest.raises(ReplayUnsafeError), opened.run(f"lost-{number}"):
                lose(number)
        yield opened


def ids(ledger: Ledger, prefix: str) -> list[str]:
    reviews = [one for one in ledger.store.reviews() if one.identity.workflow_id.startswith(prefix)]
    return [f"{one.review_id}:{one.version}" for one in reviews]


def decided(ledger: Ledger, prefix: str) -> list[str]:
    return [
        one.decision.verb.value
        for one in ledger.store.reviews()
        if one.decision is not None and one.identity.workflow_id.startswith(prefix)
    ]


def send(visit: Visit, chosen: list[str], verb: str, why: str = "") -> tuple[int, str]:
    csrf = hidden(visit.get("/").text)["csrf"]
    form = {"csrf": csrf, "chosen[]": chosen, "verb": verb, "why": why}
    answer = visit.client.post("/approve", data=form)
    return answer.status_code, words(answer.text)


def test_several_approvals_are_recorded_each_by_itself(ledger: Ledger, visit: Visit) -> None:
    assert "Pay 2 cents" in visit.text("/")
    chosen = ids(ledger, "pay-")[:2]
    assert send(visit, chosen, "approve")[0] == 303
    assert send(visit, chosen, "approve")[0] == 303
    assert decided(ledger, "pay-") == ["approve", "approve"]
    audit = [one for one in ledger.store.audit() if one.action == "decide approve"]
    assert sorted(one.workflow_id for one in audit) == ["pay-0", "pay-1"]
    assert "Decided, not used yet: 2" in visit.text("/")


def test_a_doubt_among_them_is_refused_and_the_others_are_recorded(
    ledger: Ledger, visit: Visit
) -> None:
    chosen = [*ids(ledger, "pay-")[:1], *ids(ledger, "lost-")]
    status, text = send(visit, chosen, "approve")
    assert status == 409
    assert "1 recorded, 2 not" in text
    assert "is not an approval: decide it by itself" in text
    assert decided(ledger, "lost-") == []
    assert decided(ledger, "pay-") == ["approve"]


@pytest.mark.parametrize("verb", ["happened", "did-not-happen", "abort", "undo", ""])
def test_no_other_verb_decides_several(verb: str, ledger: Ledger, visit: Visit) -> None:
    for chosen in (ids(ledger, "pay-"), ids(ledger, "lost-"), []):
        status, _ = send(visit, chosen, verb, "because")
        assert status == 400
    assert decided(ledger, "") == []


@pytest.mark.parametrize("chosen", [None, True, 7, "x:1", {"x:1": 1}])
def test_a_program_that_chooses_no_list_is_told_so(chosen: object, visit: Visit) -> None:
    form = {"csrf": hidden(visit.get("/").text)["csrf"], "chosen[]": chosen, "verb": "approve"}
    answer = visit.client.post("/approve", json=form)
    assert (answer.status_code, "Choose 1 to 200 approvals" in words(answer.text)) == (400, True)


def test_several_are_rejected_only_with_a_reason(ledger: Ledger, visit: Visit) -> None:
    chosen = ids(ledger, "pay-")
    status, text = send(visit, chosen, "reject")
    assert (status, "needs why" in text) == (409, True)
    assert send(visit, chosen, "reject", "not today")[0] == 303
    assert decided(ledger, "pay-") == ["reject"] * 3


def test_no_doubt_has_a_button_in_the_list(ledger: Ledger, visit: Visit) -> None:
    items = visit.get("/").text.split("<article")[1:]
    doubts = [item for item in items if "item in-doubt" in item]
    assert len(doubts) == 2
    assert not any("<button" in item or "checkbox" in item for item in doubts)
    assert all(
        'value="approve"' in item for item in items if "item approvals" in item.split(">")[0]
    )


def test_an_empty_inbox_says_what_was_looked_at(tmp_path: Path) -> None:
    with Ledger(tmp_path / "quiet.db") as quiet:
        text = Visit(quiet).text("/")
        Presence(quiet, ["order@1.0.0"], concurrency=8).renew()
        with quiet.run("held"):
            busy = Visit(quiet).text("/")
    assert "Nothing waits for a person." in text
    assert "quiet.db was read just now" in text
    assert "No living process holds a run. No workers are alive." in text
    assert "1 living process holds runs. 1 worker is alive." in busy


@nt.tool("unsafe_on_replay", name="inbox_other", approve=True)
def other() -> None: ...


def test_every_tab_keeps_the_other_filters(visit: Visit) -> None:
    markup = visit.get("/?tool=inbox_pay&run=pay-&older=1h").text
    tabs = re.findall(r'<li><a href="([^"]*)"', markup.partition('<ul class="tabs"')[2])
    kinds = [parse_qs(html.unescape(one).partition("?")[2]) for one in tabs[:3]]
    rest = {"tool": ["inbox_pay"], "run": ["pay-"], "older": ["1h"]}
    assert kinds == [rest, {"kind": ["in doubt"], **rest}, {"kind": ["approvals"], **rest}]


def test_the_command_of_the_list_prints_what_is_shown(ledger: Ledger, visit: Visit) -> None:
    with pytest.raises(NottwiceError), ledger.run("other"):
        other()
    path = "kind=approvals&tool=inbox_pay"
    markup = visit.get(f"/?{path}").text
    (command,) = re.findall(r"The same in a terminal:</span> <code>(.*)</code>", markup)
    _, *words = shlex.split(html.unescape(re.sub("<[^>]*>", "", command)))
    printed = json.loads(CliRunner().invoke(main, [*words, "--json"]).output)["reviews"]
    shown = visit.get(f"/api/reviews?{path}").json()["rows"]
    assert [one["review_id"] for one in printed] == [one["review"]["review_id"] for one in shown]
    assert len(shown) == 3
    assert "In a terminal, without the filter by run and older:" in visit.text("/?run=p&older=1h")


def test_only_what_was_decided_is_said_to_be_recorded(ledger: Ledger, visit: Visit) -> None:
    said = "What you decided is recorded"
    undecided = ids(ledger, "lost-")[0].partition(":")[0]
    for forged in ("1", "x", "%00", undecided, ""):
        assert said not in visit.text(f"/?recorded={forged}")
    csrf = hidden(visit.get("/").text)["csrf"]
    chosen = ids(ledger, "pay-")[:2]
    form = {"csrf": csrf, "chosen[]": chosen, "verb": "approve"}
    place = visit.client.post("/approve", data=form).headers["location"]
    assert f"{said}: approve for Pay 0 cents , approve for Pay 1 cents ." in visit.text(place)
    # It was Ann, and no one else.
    assert said not in Visit(ledger, "eve").text(place)
    one = ids(ledger, "pay-")[2].partition(":")[0]
    sent = visit.post(f"/review/{one}", seen_at=f"/review/{one}", verb="approve", then="inbox")
    assert f"{said}: approve for Pay 2 cents ." in visit.text(sent.headers["location"])


def test_an_inbox_without_reviews_names_what_a_dead_process_left(workplace: Workplace) -> None:
    """P411."""
    with Ledger(workplace.store, create=False) as ledger:
        for review in ledger.store.open_reviews():
            Reviews(ledger).decide(review.review_id, "abort", by="ann", why="stop")
        shown = Visit(ledger).text("/")
        assert "Nothing waits for a person" not in shown
        assert "No review is open, but a process is gone" in shown
        assert "1 interrupted" in shown
        assert "ticket-7 : 1 call in doubt . Only your program can continue it" in shown
