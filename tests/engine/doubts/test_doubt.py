"""What is known about a doubt, and how often it may be tried again without a person."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.review import ReviewStatus, Verb
from nottwice.reviews.decide import undo
from nottwice.store.memory import MemoryStore
from tests.fakes import Host

AFTER_THE_INTENT, AFTER_THE_EFFECT = 4, 5
HOUR = 3600.0


class Upstream:
    """Counts requests, and answers each as it is told: an error, or nothing."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)
        self.requests: list[str | None] = []

    def request(self) -> str:
        self.requests.append(nt.current_call().key)
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return "paid"


def keyed(upstream: Upstream, **declared: Any) -> Any:
    @nt.tool("idempotent_with_key", key="pay-{order}", window="24h", **declared)
    def pay(order: int) -> str:
        return upstream.request()

    return pay


def resume(host: Host, tool: Any, *, dies_at: int | None = None) -> object:
    with host.process(dies_at=dies_at) as ledger, ledger.run("r"):
        return tool(7)


# Clocks, and reviews that are open.


def test_a_keyed_call_that_a_person_is_asked_about_is_not_reissued_when_the_clock_is_put_back(
    host: Host,
) -> None:
    upstream = Upstream()
    pay = keyed(upstream)
    resume(host, pay, dies_at=AFTER_THE_EFFECT)
    host.clock.advance(25 * HOUR)
    with pytest.raises(nt.errors.ReplayUnsafeError, match="may have forgotten its key"):
        resume(host, pay)
    host.clock.advance(-24 * HOUR)
    for _ in range(2):
        with pytest.raises(nt.errors.ReplayUnsafeError):
            resume(host, pay)
    assert upstream.requests == ["pay-7"]
    assert len(host.data.reviews) == 1
    host.decide(Verb.DID_NOT_HAPPEN)
    assert resume(host, pay) == "paid"
    assert upstream.requests == ["pay-7", "pay-7"]


def test_a_doubt_that_a_person_is_asked_about_still_ends_when_verify_finds_the_effect(
    host: Host,
) -> None:
    answers = [nt.did_not_happen(), nt.happened("found")]
    upstream = Upstream()

    @nt.tool("unsafe_on_replay", verify=lambda call: answers.pop(0))
    def pay(order: int) -> str:
        return upstream.request()

    resume(host, pay, dies_at=AFTER_THE_INTENT)
    with pytest.raises(nt.errors.ReplayUnsafeError):
        resume(host, pay)
    assert resume(host, pay) == "found"
    assert upstream.requests == []
    assert [one.status for one in host.data.reviews.values()] == [ReviewStatus.CLOSED]


def test_a_decision_that_was_taken_back_forbids_a_reissue_like_none(host: Host) -> None:
    upstream = Upstream()
    pay = keyed(upstream)
    resume(host, pay, dies_at=AFTER_THE_EFFECT)
    host.clock.advance(25 * HOUR)
    with pytest.raises(nt.errors.ReplayUnsafeError):
        resume(host, pay)
    review = host.decide(Verb.DID_NOT_HAPPEN)
    undo(MemoryStore(host.data), host.clock, review.review_id, by="ann", why="the wrong one")
    host.clock.advance(-24 * HOUR)
    with pytest.raises(nt.errors.ReplayUnsafeError):
        resume(host, pay)
    assert len(upstream.requests) == 1


def test_a_proof_of_death_from_before_the_attempt_counts_from_the_attempt(host: Host) -> None:
    """The clock of the process that proves the death is an hour behind."""
    upstream = Upstream()

    @nt.tool("unsafe_on_replay", verify=lambda call: nt.did_not_happen(), settles="30m")
    def pay(order: int) -> str:
        return upstream.request()

    resume(host, pay, dies_at=AFTER_THE_INTENT)
    host.clock.advance(-HOUR)
    with pytest.raises(nt.errors.ReplayUnsafeError, match="may still arrive"):
        with host.process() as ledger, ledger.run("r", settle_timeout="45m"):
            raise AssertionError("user code must not run")
    assert upstream.requests == []


def test_a_body_that_outlived_its_interrupted_waiter_is_not_taken_for_over(host: Host) -> None:
    """Ctrl-C strikes where the driver has stopped waiting and has not yet said so."""
    may_end, begun, ended = threading.Event(), threading.Event(), threading.Event()
    paid: list[int] = []

    @nt.tool(
        "unsafe_on_replay",
        verify=lambda call: nt.did_not_happen(),
        settles="1s",
        time_limit="50ms",
    )
    def settle_bill(order: int) -> str:
        begun.set()
        may_end.wait(30)
        paid.append(order)
        ended.set()
        return "paid"

    timed_out: list[str] = []

    def interrupt(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_name != "_limited":
            return None
        if event == "exception":
            timed_out.append(event)
        elif event == "line" and timed_out and begun.is_set():
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    with host.process() as ledger, ledger.run("r"):
        before = sys.gettrace()
        sys.settrace(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                settle_bill(1)
        finally:
            sys.settrace(before)
        with pytest.raises(nt.errors.ReplayUnsafeError, match="may still be alive"):
            settle_bill(1)
    may_end.set()
    assert ended.wait(30)
    assert paid == [1]


# How often it is tried again.


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_attempts_count_all_that_ended_with_an_error_the_first_included(
    host: Host, attempts: int
) -> None:
    upstream = Upstream(*[TimeoutError("lost")] * 20)
    pay = keyed(upstream, retry=nt.RetryPolicy(attempts))
    for _ in range(3):
        with pytest.raises(nt.errors.ReplayUnsafeError, match=f"allows {attempts} attempts"):
            resume(host, pay)
    assert len(upstream.requests) == attempts
    assert len(host.data.reviews) == 1


def test_attempts_are_counted_over_all_processes(host: Host) -> None:
    """Each process dies right after it has recorded that its attempt ended with an error."""
    upstream = Upstream(*[TimeoutError("lost")] * 20)
    pay = keyed(upstream, retry=nt.RetryPolicy(3))
    for _ in range(3):
        resume(host, pay, dies_at=6)
    for _ in range(3):
        with pytest.raises(nt.errors.ReplayUnsafeError):
            resume(host, pay)
    assert len(upstream.requests) == 3


def test_a_death_is_no_error_and_costs_no_attempt(host: Host) -> None:
    upstream = Upstream(None, None, TimeoutError("lost"), None)
    pay = keyed(upstream, retry=nt.RetryPolicy(2))
    for _ in range(2):
        resume(host, pay, dies_at=AFTER_THE_EFFECT)
    assert resume(host, pay) == "paid"
    assert len(upstream.requests) == 4


def test_reissues_after_a_death_are_bounded_and_then_a_person_is_asked(host: Host) -> None:
    upstream = Upstream()
    pay = keyed(upstream, retry=nt.RetryPolicy(reissues=2))
    for _ in range(3):
        resume(host, pay, dies_at=AFTER_THE_EFFECT)
    for _ in range(3):
        with pytest.raises(
            nt.errors.ReplayUnsafeError, match=r"died during attempt 3, and .* allows 2 reissues"
        ):
            resume(host, pay)
    assert len(upstream.requests) == 3
    host.decide(Verb.DID_NOT_HAPPEN)
    assert resume(host, pay) == "paid"


def test_what_verify_licenses_after_a_death_is_bounded_too(host: Host) -> None:
    upstream = Upstream()

    @nt.tool(
        "unsafe_on_replay",
        verify=lambda call: nt.did_not_happen(),
        settles="1s",
        retry=nt.RetryPolicy(reissues=1),
    )
    def pay(order: int) -> str:
        return upstream.request()

    resume(host, pay, dies_at=AFTER_THE_INTENT)
    resume(host, pay, dies_at=AFTER_THE_INTENT)
    with pytest.raises(nt.errors.ReplayUnsafeError, match="allows 1 reissues"):
        resume(host, pay)
    assert upstream.requests == []


def test_a_retry_by_name_begins_to_count_again(host: Host) -> None:
    busy = nt.Retryable("busy")
    upstream = Upstream(busy, busy, busy, None)
    pay = keyed(upstream, retry=nt.RetryPolicy(2))
    with pytest.raises(nt.Retryable):
        resume(host, pay)
    with host.process() as ledger, ledger.run("r"):
        assert pay.retry(7) == "paid"
    assert len(upstream.requests) == 4


def test_a_reissue_comes_only_after_the_wait_that_the_upstream_asks_for(host: Host) -> None:
    upstream = Upstream(TimeoutError("lost"), nt.Retryable("busy", retry_after=20))
    assert resume(host, keyed(upstream)) == "paid"
    assert host.clock.pauses[-1] == 20
    assert len(upstream.requests) == 3


def test_an_upstream_that_asks_for_a_longer_wait_than_the_policy_allows_is_left_to_a_person(
    host: Host,
) -> None:
    upstream = Upstream(TimeoutError("lost"), nt.Retryable("busy", retry_after=10_000))
    with pytest.raises(nt.errors.ReplayUnsafeError, match="longer wait"):
        resume(host, keyed(upstream))
    assert len(upstream.requests) == 2


# What a person is told.


def test_the_error_says_what_the_attempt_raised_on_one_line_and_without_a_secret(
    host: Host,
) -> None:
    @nt.tool("unsafe_on_replay", redact=lambda text: text.replace("4242", "••••"))
    def pay(order: int) -> str:
        raise TimeoutError("card 4242\x1b[2J\nno answer")

    with pytest.raises(nt.errors.ReplayUnsafeError) as caught:
        resume(host, pay)
    text = str(caught.value)
    assert "attempt 1 ended with TimeoutError: card ••••\\u001b[2J\\nno answer" in text
    assert "4242" not in text
    assert text.isprintable()
