"""Does every notice become a message, at least once and with one id? (P333, P334, P339)"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.notify.sender import LEASE_SECONDS, RETRY_SECONDS, Sender, SendReport, given_up
from tests.fakes import FakeClock
from tests.notify.asking import Asking
from tests.notify.receiver import SECRET, Receiver, is_signed

SEND = """
import sys
import nottwice as nt
from nottwice.notify.sender import Sender
from tests.fakes import FakeClock

store, url, now = sys.argv[1:]
with nt.Ledger(store, notify=False) as ledger:
    print(Sender(ledger.store, nt.Notify(webhook=url), FakeClock(float(now))).send_due().sent)
"""


def _told(receiver: Receiver) -> nt.Notify:
    return nt.Notify(webhook=receiver.url)


def _start(asking: Asking, receiver: Receiver) -> subprocess.Popen[str]:
    words = [asking.ledger.location, receiver.url, str(asking.clock.now())]
    return subprocess.Popen(
        [sys.executable, "-c", SEND, *words], stdout=subprocess.PIPE, text=True, env=os.environ
    )


def test_each_kind_is_told_once_and_signed(asking: Asking, receiver: Receiver) -> None:
    review_id = asking.open()
    asking.clock.advance(1.0)
    asking.fail()
    sender = asking.sender(_told(receiver))
    assert sender.send_due() == SendReport(sent=2, notices=2)
    asking.decide(review_id)
    assert sender.send_due() == SendReport(sent=1, notices=1)
    assert sender.send_due() == SendReport()
    types = [one.type for one in receiver.received]
    assert types == ["nottwice.review_opened", "nottwice.run_failed", "nottwice.review_decided"]
    assert all(is_signed(one, SECRET.encode()) for one in receiver.received)
    assert len(set(receiver.ids)) == 3


def test_only_the_kinds_that_are_wanted_are_told(asking: Asking, receiver: Receiver) -> None:
    asking.open()
    asking.fail()
    settings = nt.Notify(webhook=receiver.url, on=["run_failed"])
    assert asking.sender(settings).send_due().sent == 1
    assert [one.type for one in receiver.received] == ["nottwice.run_failed"]


def test_an_open_review_is_told_once_more_when_it_is_old(
    asking: Asking, receiver: Receiver
) -> None:
    review_id = asking.open()
    sender = asking.sender(nt.Notify(webhook=receiver.url, old_after="1h"))
    for wanted, wait in ((1, 3_599.0), (0, 1.0), (1, 9_999.0), (0, 9_999.0), (0, 0.0)):
        assert sender.send_due().sent == wanted
        asking.clock.advance(wait)
    first, second = receiver.received
    assert (first.type, second.type) == ("nottwice.review_opened", "nottwice.review_old")
    assert second.data["review"] == review_id
    assert "open for 1 h" in second.data["text"]


def test_what_was_decided_meanwhile_is_not_told(asking: Asking, receiver: Receiver) -> None:
    asking.decide(asking.open())
    settings = nt.Notify(webhook=receiver.url, on=["review_opened", "review_old"])
    asking.clock.advance(9_999.0)
    assert asking.sender(settings).send_due() == SendReport(moot=1)
    assert asking.sender(settings).send_due() == SendReport()
    assert receiver.received == []


def test_a_ledger_with_years_of_history_is_not_told_of_when_people_are_first_told(
    asking: Asking, receiver: Receiver
) -> None:
    for number in range(12):
        asking.fail(f"ticket-{number}")
    asking.decide(asking.open("ticket-20"))
    asking.open("ticket-21")
    asking.clock.advance(3 * 86_400.0)
    settings = nt.Notify(webhook=receiver.url, on=["review_opened", "review_decided", "run_failed"])
    assert asking.sender(settings).send_due() == SendReport(sent=1, notices=1, moot=14)
    assert [one.data["run_id"] for one in receiver.received] == ["ticket-21"]


def test_a_message_that_fails_is_tried_again_later_with_its_id(
    asking: Asking, receiver: Receiver
) -> None:
    asking.open()
    receiver.answers = [503, 500]
    sender = asking.sender(_told(receiver))
    assert sender.send_due() == SendReport(failed=1, problems=["the webhook answered 503"])
    asking.clock.advance(RETRY_SECONDS[0] - 1)
    assert sender.send_due() == SendReport()
    asking.clock.advance(1.0)
    assert sender.send_due().failed == 1
    asking.clock.advance(RETRY_SECONDS[0])
    assert sender.send_due() == SendReport()
    asking.clock.advance(RETRY_SECONDS[1])
    assert sender.send_due() == SendReport(sent=1, notices=1)
    assert len(receiver.ids) == 3
    assert len(set(receiver.ids)) == 1
    stamps = [one.headers["webhook-timestamp"] for one in receiver.received]
    assert len(set(stamps)) == 3


def test_a_message_that_never_arrives_is_given_up_and_that_shows(
    asking: Asking, receiver: Receiver
) -> None:
    asking.fail()
    receiver.answers = [500] * 20
    sender = asking.sender(_told(receiver))
    for seconds in RETRY_SECONDS:
        assert sender.send_due().failed == 1
        asking.clock.advance(seconds)
    last = sender.send_due()
    assert (last.failed, last.given_up) == (0, 1)
    asking.clock.advance(9_999.0)
    assert sender.send_due() == SendReport()
    assert len(receiver.received) == len(RETRY_SECONDS) + 1
    (lost,) = given_up(asking.ledger.store, since=0.0)
    assert (lost.kind, lost.problem) == ("run_failed", "the webhook answered 500")


def test_what_was_given_up_is_tried_again_on_request_with_its_id_and_all_its_tries(
    asking: Asking, receiver: Receiver
) -> None:
    asking.open()
    sender = asking.sender(_opened_only(receiver))
    _give_up(asking, sender, receiver)
    assert sender.try_again() == 1
    receiver.answers = [500]
    assert given_up(asking.ledger.store, since=0.0) == []
    assert sender.send_due().failed == 1
    asking.clock.advance(RETRY_SECONDS[0])
    assert sender.send_due() == SendReport(sent=1, notices=1)
    assert len(set(receiver.ids)) == 1
    assert sender.try_again() == 0
    assert sender.send_due() == SendReport()


def test_a_digest_that_was_given_up_is_the_same_message_again(
    asking: Asking, receiver: Receiver
) -> None:
    asking.open_many(12)
    sender = asking.sender(_opened_only(receiver))
    _give_up(asking, sender, receiver)
    assert sender.try_again() == 12
    assert sender.send_due() == SendReport(sent=1, notices=12)
    assert len(set(receiver.ids)) == 1


def test_what_is_not_to_be_told_any_more_stays_given_up(asking: Asking, receiver: Receiver) -> None:
    asking.open()
    _give_up(asking, asking.sender(_opened_only(receiver)), receiver)
    settings = nt.Notify(webhook=receiver.url, on=["run_failed"])
    assert asking.sender(settings).try_again() == 0


def _opened_only(receiver: Receiver) -> nt.Notify:
    return nt.Notify(webhook=receiver.url, on=["review_opened"])


def _give_up(asking: Asking, sender: Sender, receiver: Receiver) -> None:
    """Let every try fail."""
    receiver.answers = [500] * (len(RETRY_SECONDS) + 1)
    while receiver.answers:
        sender.send_due()
        asking.clock.advance(max(RETRY_SECONDS))


def test_more_than_ten_at_the_same_moment_become_one_message(
    asking: Asking, receiver: Receiver
) -> None:
    asking.open_many(11)
    sender = asking.sender(_told(receiver))
    assert sender.send_due() == SendReport(sent=1, notices=11)
    (digest,) = receiver.received
    assert digest.type == "nottwice.digest"
    assert digest.data["counts"] == {"review_opened": 11}
    assert len(digest.data["notices"]) == 11


def test_a_digest_counts_as_one_of_the_ten_messages(asking: Asking, receiver: Receiver) -> None:
    asking.open_many(14)
    sender = asking.sender(_told(receiver))
    assert sender.send_due() == SendReport(sent=1, notices=14)
    for number in range(9):
        asking.open(f"later-{number}")
        assert sender.send_due() == SendReport(sent=1, notices=1)
    asking.open("ticket-99")
    assert sender.send_due() == SendReport(held=1)
    asking.clock.advance(60.5)
    assert sender.send_due() == SendReport(sent=1, notices=1)


def test_ten_one_after_another_are_ten_and_the_rest_of_the_minute_is_one(
    asking: Asking, receiver: Receiver
) -> None:
    sender = asking.sender(_told(receiver))
    for number in range(25):
        asking.open(f"ticket-{number}")
        sender.send_due()
        asking.clock.advance(1.0)
    assert len(receiver.received) == 10
    asking.clock.advance(60.0)
    # Of several processes: the outbox counts, not the sender.
    assert asking.sender(_told(receiver)).send_due() == SendReport(sent=1, notices=15)


def test_a_digest_that_fails_is_the_same_message_again(asking: Asking, receiver: Receiver) -> None:
    asking.open_many(12)
    receiver.answers = [503]
    sender = asking.sender(_told(receiver))
    assert sender.send_due().failed == 1
    asking.clock.advance(RETRY_SECONDS[0])
    asking.open("ticket-99")
    assert sender.send_due() == SendReport(sent=2, notices=13)
    first, second, other = receiver.received
    assert first.id == second.id != other.id
    assert first.data["notices"] == second.data["notices"]


def test_what_was_sent_before_a_kill_comes_again_with_the_same_id(
    asking: Asking, receiver: Receiver
) -> None:
    """A real SIGKILL, after the message has arrived and before it is acknowledged."""
    asking.open()
    killed: list[int] = []

    def kill(received: object) -> None:
        if not killed:
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)

    receiver.before_answer = kill
    process = _start(asking, receiver)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert killed
    sender = asking.sender(_told(receiver))
    assert sender.send_due() == SendReport()
    asking.clock.advance(LEASE_SECONDS)
    assert sender.send_due() == SendReport(sent=1, notices=1)
    first, second = receiver.ids
    assert first == second
    assert sender.send_due() == SendReport()


def test_a_digest_survives_a_kill_as_the_same_message(asking: Asking, receiver: Receiver) -> None:
    asking.open_many(12)
    killed: list[int] = []

    def kill(received: object) -> None:
        if not killed:
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)

    receiver.before_answer = kill
    process = _start(asking, receiver)
    process.communicate(timeout=60)
    asking.clock.advance(LEASE_SECONDS)
    asking.open("ticket-99")
    assert asking.sender(_told(receiver)).send_due() == SendReport(sent=2, notices=13)
    first, second, other = receiver.ids
    assert first == second != other


def test_two_senders_at_once_send_each_message_once(asking: Asking, receiver: Receiver) -> None:
    """Two processes that meet: each holds its first request until the other has one, too."""
    asking.open_many(10)
    both = threading.Barrier(2)
    met: list[str] = []

    def meet(received: object) -> None:
        if len(met) < 2:
            met.append("here")
            both.wait(60)

    receiver.before_answer = meet
    processes = [_start(asking, receiver) for _ in range(2)]
    sent = [int(process.communicate(timeout=120)[0]) for process in processes]
    assert sum(sent) == 10
    assert min(sent) >= 1
    assert len(receiver.ids) == len(set(receiver.ids)) == 10


@pytest.mark.parametrize("store", ["file:ledger", ":memory:"])
def test_other_stores_have_the_same_outbox(
    store: str, receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    clock = FakeClock()
    with nt.Ledger(store, clock=clock) as ledger:
        asking = Asking(ledger, clock)
        asking.open()
        receiver.answers = [500]
        sender = asking.sender(_told(receiver))
        assert sender.send_due().failed == 1
        clock.advance(RETRY_SECONDS[0])
        assert sender.send_due().sent == 1
        assert sender.send_due() == SendReport()


def test_a_trial_is_sent_although_nothing_has_happened(asking: Asking, receiver: Receiver) -> None:
    asking.sender(_told(receiver)).send_trial()
    (got,) = receiver.received
    assert got.type == "nottwice.test"
    assert got.id.startswith("test-")
