"""Is one request one effect, with its key, and is its secret nowhere but on the wire? (P77)"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import recipes
from nottwice.guard.declare import SyncTool
from tests.recipes.killing import AROUND_THE_EFFECT, kill_at, work_on
from tests.recipes.servers import Tracker

Send = SyncTool[..., recipes.HttpAnswer]
SECRET = "Bearer s3cret-t0ken"


@pytest.fixture
def send(tracker: Tracker) -> Send:
    return recipes.http_request(
        tracker.url,
        window="24h",
        headers={"Authorization": SECRET},
        time_limit="5s",
        retry=nt.RetryPolicy(3, first_seconds=0.01),
    )


def test_a_request_is_sent_with_its_key_and_answered(
    tracker: Tracker, send: Send, ledger: Path
) -> None:
    body = {"item": "tea", "count": 2, "for": "Zoë"}
    receipt = work_on(ledger, lambda: send.receipt(method="POST", path="/orders?fast=1", body=body))
    assert receipt.value["status"] == 201
    assert receipt.value["body"] == {"number": 1, "body": body}
    assert receipt.value["headers"] == {"content-type": "application/json", "etag": '"7"'}
    (seen,) = tracker.seen
    assert (seen["method"], seen["path"], seen["body"]) == ("POST", "/orders?fast=1", body)
    assert (seen["key"], seen["authorization"]) == (receipt.id, SECRET)


@pytest.mark.parametrize("place", AROUND_THE_EFFECT)
def test_a_request_whose_sender_was_killed_takes_effect_once(
    tracker: Tracker, send: Send, ledger: Path, place: str
) -> None:
    def work() -> Any:
        return send(method="POST", path="/new", body={"item": "tea"})

    kill_at(place, ledger, work)
    assert work_on(ledger, work)["body"]["number"] == 1
    assert len(tracker.orders) == 1
    assert len({each["key"] for each in tracker.seen}) == 1


def test_an_answer_that_got_lost_is_asked_for_again_with_the_same_key(
    tracker: Tracker, send: Send, ledger: Path
) -> None:
    tracker.next_answers({"drop": True})
    receipt = work_on(ledger, lambda: send.receipt(method="POST", path="/new"))
    assert (receipt.attempts, len(tracker.orders), len(tracker.seen)) == (2, 1, 2)


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_told_with_its_reason_and_sent_once(
    tracker: Tracker, send: Send, ledger: Path, status: int
) -> None:
    tracker.next_answers({"refuse": status, "body": {"error": "the item is sold out"}})
    with pytest.raises(nt.Permanent, match=f"{status}.*sold out"):
        work_on(ledger, lambda: send(method="POST", path="/new"))
    assert (len(tracker.seen), tracker.orders) == (1, [])


def test_a_busy_upstream_is_asked_again_when_it_says_so(
    tracker: Tracker, send: Send, ledger: Path
) -> None:
    tracker.next_answers({"refuse": 429, "headers": {"Retry_After": "0.02"}}, {"refuse": 503})
    receipt = work_on(ledger, lambda: send.receipt(method="POST", path="/new"))
    assert (receipt.attempts, len(tracker.orders)) == (3, 1)


@pytest.mark.parametrize("status", [301, 302, 307, 409, 500, 502])
def test_an_answer_that_proves_nothing_is_asked_about_with_the_same_key(
    tracker: Tracker, send: Send, ledger: Path, status: int
) -> None:
    """A redirect is not followed: the request that it answers may have taken effect."""
    tracker.next_answers({"refuse": status, "headers": {"Location": "/elsewhere"}})
    receipt = work_on(ledger, lambda: send.receipt(method="POST", path="/new"))
    assert (receipt.attempts, len(tracker.orders)) == (2, 1)
    assert [each["path"] for each in tracker.seen] == ["/new", "/new"]


def test_an_upstream_that_never_comes_to_an_end_is_not_waited_for(
    tracker: Tracker, ledger: Path
) -> None:
    send = recipes.http_request(tracker.url, window="24h", name="impatient", time_limit="200ms")
    tracker.next_answers({"drip": 40})
    with pytest.raises(nt.errors.ReplayUnsafeError, match="time limit"):
        work_on(ledger, lambda: send(method="POST", path="/new"))
    # What comes late is noted, and the run continues.
    assert work_on(ledger, lambda: send(method="POST", path="/new"))["status"] == 200
    assert len(tracker.orders) == 1


def test_an_upstream_that_is_not_there_is_not_in_doubt(ledger: Path) -> None:
    nowhere = recipes.http_request(
        "http://127.0.0.1:9", window="24h", name="nowhere", retry=nt.RetryPolicy(1)
    )
    with pytest.raises(nt.Retryable):
        work_on(ledger, lambda: nowhere(method="POST", path="/new"))


@pytest.mark.parametrize(
    ("raw", "kind", "body"),
    [
        ("fine", "text/plain", "fine"),
        ("{broken", "application/json", "{broken"),
        ('{"a": 1}', "application/problem+json", {"a": 1}),
        ("x" * 5_000_000, "text/plain", None),
        ("", "text/plain", None),
    ],
    ids=["text", "broken JSON", "a kind of JSON", "too much", "nothing"],
)
def test_whatever_the_answer_says_the_request_has_happened(
    tracker: Tracker, send: Send, ledger: Path, raw: str, kind: str, body: Any
) -> None:
    tracker.next_answers({"raw": raw, "type": kind})
    answer = work_on(ledger, lambda: send(method="PUT", path="/new"))
    assert answer["body"] == body
    assert len(tracker.orders) == 1


@pytest.mark.parametrize(
    "path",
    [
        "new",
        "//elsewhere.example/new",
        "http://elsewhere.example/new",
        "/a/../../admin",
        "/a/%2e%2e/admin",
        "/a b",
        "/new#part",
        "/a\r\nX-Evil: 1",
    ],
)
def test_a_path_cannot_lead_to_another_place(
    tracker: Tracker, send: Send, ledger: Path, path: str
) -> None:
    with pytest.raises(nt.errors.InvalidArguments, match="path"):
        work_on(ledger, lambda: send(method="POST", path=path))
    assert tracker.seen == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a.example", "a.example", "https://me:pw@a.example"]
)
def test_an_address_that_is_none_or_holds_a_password_is_refused(url: str) -> None:
    with pytest.raises(nt.errors.InvalidTool) as caught:
        recipes.http_request(url, window="24h", name="bad_address")
    assert "pw" not in str(caught.value)


def test_secrets_are_in_no_ledger_log_or_error(
    tracker: Tracker, send: Send, ledger: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tracker.next_answers({"refuse": 422})
    with pytest.raises(nt.Permanent) as caught:
        work_on(ledger, lambda: send(method="POST", path="/new"))
    left = b"".join(each.read_bytes() for each in ledger.parent.glob("agent.db*"))
    for text in (str(caught.value), caplog.text, left.decode("utf-8", "replace")):
        assert "s3cret" not in text
    assert tracker.seen[0]["authorization"] == SECRET


def _locked_vault() -> dict[str, str]:
    raise KeyError("s3cret")


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer s3cret\n"},
        {"Authorization": "Bearer s3crét"},
        {"Authorization": b"Bearer s3cret"},
        {"X-Evil\r\nHost": "s3cret"},
        _locked_vault,
        lambda: None,
    ],
)
def test_headers_that_cannot_be_sent_leave_no_doubt_and_are_not_told(
    tracker: Tracker, ledger: Path, headers: Any
) -> None:
    send = recipes.http_request(tracker.url, window="24h", name="odd_headers", headers=headers)
    with pytest.raises(nt.Permanent, match="Nothing was sent") as caught:
        work_on(ledger, lambda: send(method="POST", path="/new"))
    assert "s3cr" not in str(caught.value)
    left = b"".join(each.read_bytes() for each in ledger.parent.glob("agent.db*"))
    assert b"Nothing was sent" in left
    assert b"s3cr" not in left
    assert tracker.seen == []


def test_headers_may_be_asked_for_again_before_every_attempt(
    tracker: Tracker, ledger: Path
) -> None:
    tokens = iter(["first", "second"])
    send = recipes.http_request(
        tracker.url,
        window="24h",
        name="fresh_token",
        headers=lambda: {"Authorization": next(tokens)},
        retry=nt.RetryPolicy(2, first_seconds=0.01),
    )
    tracker.next_answers({"refuse": 503})
    work_on(ledger, lambda: send(method="POST", path="/new"))
    assert [each["authorization"] for each in tracker.seen] == ["first", "second"]
