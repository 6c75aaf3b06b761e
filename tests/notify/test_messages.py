"""What is a person told, and what is left out? (P336, P337)"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import pytest

import nottwice as nt
from nottwice.errors import ApprovalNeeded
from nottwice.notify.messages import Notification, age_text, digest_of, look_up, message_of
from tests.fakes import FakeClock
from tests.notify.asking import TO, Asking

PLAIN = nt.Notify(command="true", page_url="https://ops.example.com/nottwice/")
OPEN = nt.Notify(command="true", arguments=True)


@nt.tool("unsafe_on_replay", approve=True, title="Charge {card}", name="notify_charge")
def charge(order: int, card: Annotated[str, nt.Secret]) -> str:
    raise AssertionError("no one approved it")


def _messages(asking: Asking, settings: nt.Notify) -> list[Notification]:
    store, now = asking.ledger.store, asking.clock.now()
    found = [one for one in store.notices() if one.kind in settings.on]
    return [message_of(store, look_up(store, one), settings, now=now) for one in found]


def test_a_review_is_told_with_title_age_run_and_what_to_type(asking: Asking) -> None:
    review_id = asking.open()
    asking.clock.advance(720.0)
    (message,) = _messages(asking, PLAIN)
    location = asking.ledger.location
    assert message.text.splitlines() == [
        "Approval: Refund {cents} cents to {to} in run ticket-7, since 12 min.",
        f"nottwice decide {review_id} --store {location}",
        f"https://ops.example.com/nottwice/review/{review_id}",
    ]
    assert message.data["age_seconds"] == 720.0
    assert message.data["tool"] == "notify_refund"
    assert message.data["run_id"] == "ticket-7"


def test_a_question_is_told_without_the_name_of_a_tool(asking: Asking) -> None:
    with pytest.raises(nt.RunBlocked), asking.ledger.run("ticket-8"):
        nt.ask("May I?")
    (plain,), (shown,) = _messages(asking, PLAIN), _messages(asking, OPEN)
    assert plain.headline == "Question in run ticket-8, since 0 s."
    assert shown.lines == ("May I?",)


def test_no_argument_question_or_error_is_sent_unless_asked_for(asking: Asking) -> None:
    asking.open()
    asking.fail()
    with pytest.raises(nt.RunBlocked), asking.ledger.run("ticket-8"):
        nt.ask("May bob@example.com have 4000 cents?")
    shown = [f"{one.text} {one.data}" for one in _messages(asking, PLAIN)]
    assert len(shown) == 3
    for text in shown:
        assert TO not in text
        assert "4000" not in text
        assert "4111" not in text
    opened = {one.kind: one for one in _messages(asking, OPEN) if one.data["run_id"] != "ticket-8"}
    review, failed = opened["review_opened"], opened["run_failed"]
    assert review.headline.startswith(f"Approval: Refund 4000 cents to {TO} in run")
    assert review.data["arguments"] == {"cents": 4000, "to": TO}
    assert failed.text.splitlines()[:2] == [
        "Failed: run ticket-9 with ZeroDivisionError.",
        "card 4111 is broken",
    ]
    (question,) = [one for one in _messages(asking, OPEN) if one.data["run_id"] == "ticket-8"]
    assert "May bob@example.com have 4000 cents?" in question.text


def test_a_secret_is_a_fingerprint_even_then(tmp_path: Path) -> None:
    clock = FakeClock()
    with nt.Ledger(tmp_path / "agent.db", clock=clock, key=bytes(range(32))) as ledger:
        with pytest.raises(ApprovalNeeded), ledger.run("ticket-7"):
            charge(7, "4111111111111111")
        (message,) = _messages(Asking(ledger, clock), OPEN)
    assert "4111111111111111" not in f"{message.text} {message.data}"
    assert "$secret" in str(message.data["arguments"]["card"])
    assert message.headline.startswith("Approval: Charge ••• in run")


def test_what_a_model_wrote_stays_on_its_line(asking: Asking) -> None:
    asking.open("it's <!channel>; rm -rf ~", to="a\nError: forged\x1b[31m" + "x" * 5_000)
    (message,) = _messages(asking, OPEN)
    headline, _why, command = message.text.splitlines()
    assert r"to a\nError: forged\x1b[31mxxx" in headline
    assert headline.endswith("in run it's <!channel>; rm -rf ~, since 0 s.")
    assert len(headline) < 700
    assert command.startswith("nottwice decide ")
    asking.fail("it's; rm -rf ~")
    (failed,) = [one for one in _messages(asking, PLAIN) if one.kind == "run_failed"]
    assert failed.command is not None
    # Quoted for a shell.
    assert shlex.split(failed.command)[2] == "it's; rm -rf ~"


def test_a_title_cannot_pass_for_the_run(asking: Asking) -> None:
    @nt.tool("unsafe_on_replay", approve=True, title="{run} {where}", name="notify_odd")
    def odd(run: str, where: str) -> str:
        raise AssertionError("no one approved it")

    with pytest.raises(ApprovalNeeded), asking.ledger.run("real"):
        odd("forged", "forged")
    (message,) = _messages(asking, PLAIN)
    assert message.headline.startswith("Approval: {run} {where} in run real,")


def test_a_decision_is_told_with_the_person(asking: Asking) -> None:
    asking.decide(asking.open())
    (message,) = [one for one in _messages(asking, PLAIN) if one.kind == "review_decided"]
    assert message.headline.startswith("Decided: reject by ann. Refund {cents} cents to {to} in")


def test_a_digest_counts_and_says_what_to_type(asking: Asking) -> None:
    asking.open_many(3)
    asking.fail()
    asking.clock.advance(90.0)
    store = asking.ledger.store
    notices = [one for one in store.notices() if one.kind in PLAIN.on]
    message = digest_of(store, notices, PLAIN, now=asking.clock.now())
    assert message.text.splitlines() == [
        "4 notices in one: 3 reviews opened, 1 runs failed, in 4 runs.",
        "The oldest is of 1 min ago.",
        f"nottwice reviews --store {asking.ledger.location}",
        "https://ops.example.com/nottwice/",
    ]
    assert message.data["counts"] == {"review_opened": 3, "run_failed": 1}
    assert digest_of(store, notices[::-1], PLAIN, now=0.0).id == message.id
    assert digest_of(store, notices[1:], PLAIN, now=0.0).id != message.id


def test_ages_are_said_in_one_unit() -> None:
    said = [age_text(seconds) for seconds in (-5.0, 59.9, 60.0, 3_599.0, 3_600.0, 200_000.0)]
    assert said == ["0 s", "59 s", "1 min", "59 min", "1 h", "2 d"]
