"""Are people told of what happens in a ledger on PostgreSQL? (P333, P334, P339)

The clock of the server decides which leases and pauses have run out. So a test that waits for one
moves its end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.notify.sender import RETRY_SECONDS, Sender, SendReport, given_up
from nottwice.store.postgres.store import PostgresStore
from tests.fakes import FakeClock
from tests.notify.asking import Asking
from tests.notify.conftest import receiver as receiver
from tests.notify.receiver import Receiver
from tests.postgres import server


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[Asking]:
    clock = FakeClock()
    with nt.Ledger(server.LEDGERS.url("writer", tmp_path), clock=clock, notify=False) as ledger:
        yield Asking(ledger, clock)


@pytest.fixture
def sender(asking: Asking, receiver: Receiver, tmp_path: Path) -> Iterator[Sender]:
    """`nottwice notify` in another process, which may only decide, and not drive runs."""
    url = server.LEDGERS.url("operator", tmp_path)
    with closing(PostgresStore(url, now=asking.clock.now())) as store:
        yield Sender(store, nt.Notify(webhook=receiver.url), asking.clock)


def _let_pauses_end(place: Path) -> None:
    schema = server.LEDGERS.schema(place)
    with server.connected() as connection:
        connection.execute(f"UPDATE {schema}.outbox SET leased_until = 0 WHERE sent_at IS NULL")


def test_each_kind_is_told_once(asking: Asking, sender: Sender, receiver: Receiver) -> None:
    review_id = asking.open()
    asking.clock.advance(1.0)
    asking.fail()
    assert sender.send_due() == SendReport(sent=2, notices=2)
    asking.decide(review_id)
    assert sender.send_due() == SendReport(sent=1, notices=1)
    assert sender.send_due() == SendReport()
    types = [one.type for one in receiver.received]
    assert types == ["nottwice.review_opened", "nottwice.run_failed", "nottwice.review_decided"]


def test_a_message_that_fails_is_tried_again_given_up_and_sent_on_request(
    asking: Asking, sender: Sender, receiver: Receiver, tmp_path: Path
) -> None:
    asking.open()
    receiver.answers = [503] * (len(RETRY_SECONDS) + 1)
    assert sender.send_due() == SendReport(failed=1, problems=["the webhook answered 503"])
    # Not before its pause is over.
    assert sender.send_due() == SendReport()
    while receiver.answers:
        _let_pauses_end(tmp_path)
        sender.send_due()
    assert len(given_up(asking.ledger.store, since=0.0)) == 1
    assert sender.try_again() == 1
    assert sender.send_due() == SendReport(sent=1, notices=1)
    assert len(set(receiver.ids)) == 1
    assert given_up(asking.ledger.store, since=0.0) == []


def test_more_than_ten_become_one_message(
    asking: Asking, sender: Sender, receiver: Receiver
) -> None:
    asking.open_many(11)
    assert sender.send_due() == SendReport(sent=1, notices=11)
    assert receiver.received[0].data["counts"] == {"review_opened": 11}


def test_two_senders_at_the_same_moment_send_each_message_once(
    asking: Asking, sender: Sender, receiver: Receiver
) -> None:
    """Each holds its first request until the other has one, too."""
    asking.open_many(10)
    both, met = threading.Barrier(2), list[str]()

    def meet(received: object) -> None:
        if len(met) < 2:
            met.append("here")
            both.wait(60)

    receiver.before_answer = meet
    other = asking.sender(nt.Notify(webhook=receiver.url))
    reports: list[SendReport] = []
    threads = [
        threading.Thread(target=lambda one=one: reports.append(one.send_due()))
        for one in (sender, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one.sent for one in reports) == 10
    assert min(one.sent for one in reports) >= 1
    assert len(receiver.ids) == len(set(receiver.ids)) == 10
