"""Does a run get what it is told, once, and does a mistyped line tell it nothing?"""

from __future__ import annotations

import json

import pytest

from nottwice.guard.ledger import Ledger
from tests.cli.workplace import Workplace


def events(place: Workplace, run_id: str) -> list[tuple[str, str, str]]:
    with Ledger(place.store, create=False) as ledger:
        found = ledger.store.events(run_id)
    return [(event.name, event.json, event.sent_by) for event in found]


def test_an_event_is_kept_for_a_run_that_is_not_there_yet(workplace: Workplace) -> None:
    result = workplace.cli("send", "later-1", "paid", "--data", '{"cents": 4000}', "--by", "bank")
    assert result.exit_code == 0
    assert result.stdout.startswith("Sent paid to run 'later-1', as event ")
    assert "There is no run 'later-1' yet" in result.stderr
    assert events(workplace, "later-1") == [("paid", '{"cents":4000}', "bank")]


def test_the_same_id_is_the_same_event(workplace: Workplace) -> None:
    for _ in range(2):
        assert workplace.cli("send", "r", "paid", "--id", "payment-81", "--by", "x").exit_code == 0
    assert events(workplace, "r") == [("paid", "null", "x")]
    other = workplace.cli("send", "r", "paid", "--id", "payment-81", "--data", "7")
    assert other.exit_code == 1
    assert "'paid', sent by x. Nothing was changed." in other.stderr
    assert events(workplace, "r") == [("paid", "null", "x")]


def test_the_data_can_come_from_stdin(workplace: Workplace) -> None:
    assert workplace.cli("send", "r", "paid", "--data", "-", stdin="[1, 2]").exit_code == 0
    assert events(workplace, "r")[0][1] == "[1,2]"


@pytest.mark.parametrize("data", ["NaN", "{", '{"a": 1, "a": 2}', "text"])
def test_what_is_not_json_is_refused_before_anything_is_sent(
    workplace: Workplace, data: str
) -> None:
    result = workplace.cli("send", "r", "paid", "--data", data)
    assert result.exit_code == 2
    assert "Nothing was sent." in result.stderr
    assert events(workplace, "r") == []


@pytest.mark.parametrize("words", [("", "paid"), ("r", ""), ("r", "a\nb"), ("r\x1b", "paid")])
def test_an_id_that_cannot_be_kept_is_refused(workplace: Workplace, words: tuple[str, str]) -> None:
    result = workplace.cli("send", *words)
    assert result.exit_code == 1
    assert "Nothing happened." in result.stderr


def test_an_event_that_was_taken_is_not_sent_again(workplace: Workplace) -> None:
    """A whole desk, from the first question to the event, each decided by what is typed."""
    place = workplace
    asked = place.agent("desk", "desk-1")
    assert "QuestionOpen" in asked.stderr
    place.cli("decide", place.review_of("desk-1"), "approve")
    place.agent("desk", "desk-1")
    place.cli("decide", place.review_of("desk-1"), "answer", "--text", "Hello.")
    assert "ApprovalNeeded" in place.agent("desk", "desk-1").stderr
    place.cli("decide", place.review_of("desk-1"), "approve")
    assert "RunWaits" in place.agent("desk", "desk-1").stderr
    shown = place.cli("show", "desk-1").stdout
    assert "seen" in shown
    place.cli("send", "desk-1", "seen", "--id", "e1", "--data", "7")
    done = place.agent("desk", "desk-1")
    assert json.loads(done.stdout) == {"text": "Hello.", "paid": "paid out 4000", "seen": 7}
    again = place.cli("send", "desk-1", "seen", "--id", "e1", "--data", "7")
    assert "has already received event e1" in again.stdout
    assert place.json("send", "desk-1", "seen", "--id", "e1", "--data", "7")["event"]["received"]


def test_a_run_that_is_over_takes_nothing_and_is_not_to_be_resumed(graph_place: Workplace) -> None:
    told = graph_place.cli("send", "done-1", "news")
    assert told.exit_code == 0
    assert "Run 'done-1' is completed: it will not receive the event." in told.stderr
    assert "again" not in told.stdout


def test_a_run_of_a_known_graph_is_told_with_what_resumes_it(graph_place: Workplace) -> None:
    told = graph_place.cli("send", "listen-1", "news", "--app", "flows:app")
    assert "Resume with: nottwice run --id listen-1 --app flows:app" in told.stdout


def test_a_run_that_waits_for_a_person_is_told_with_what_decides_it(workplace: Workplace) -> None:
    """To run the program again would only raise the same question."""
    told = workplace.cli("send", "ticket-9", "news")
    assert told.exit_code == 0
    review_id = workplace.review_of("ticket-9")
    assert f"waits for a person too. Decide with: nottwice decide {review_id}" in told.stdout
    assert "again" not in told.stdout
    workplace.cli("decide", review_id, "did-not-happen", "--why", "looked")
    assert "Run your program again" in workplace.cli("send", "ticket-9", "news").stdout
