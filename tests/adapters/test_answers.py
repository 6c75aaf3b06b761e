"""An answer through a framework decides the review of its own call, and no other (P245)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

import nottwice as nt
from nottwice import adapters
from tests.fakes import Host, dying, unwanted

CHARGE = adapters.declare("pay/charge", replay="unsafe_on_replay")
REFUND = adapters.declare("pay/refund", replay="unsafe_on_replay", approve=True)


def review_of(handle: adapters.Handle, cents: int) -> str:
    with pytest.raises(nt.errors.ReplayUnsafeError) as stopped:
        handle.call(CHARGE, {"cents": cents}, unwanted)
    assert stopped.value.review_id is not None
    return stopped.value.review_id


@pytest.fixture
def handle() -> Iterator[adapters.Handle]:
    """A run in which the charges of 1, 2 and 3 cents are in doubt."""
    host = Host()
    for cents in (1, 2, 3):
        with host.process() as ledger, ledger.attach("r") as doomed:
            doomed.call(CHARGE, {"cents": cents}, dying(ledger))
    with host.process() as ledger, ledger.attach("r") as attached:
        yield attached


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (2, 3, 1)])
def test_several_doubts_are_answered_in_any_order_each_on_its_own_call(
    handle: adapters.Handle, order: tuple[int, ...]
) -> None:
    reviews = {cents: review_of(handle, cents) for cents in (1, 2, 3)}
    sent: list[Any] = []
    for cents in order:
        review = reviews[cents]
        given = nt.happened({"id": cents}).payload(review, by="ann", why="saw it")
        if cents == 2:
            given = nt.did_not_happen().payload(review, by="ann", why="not there")
        assert adapters.answer(handle, review, given)
        made = handle.call(CHARGE, {"cents": cents}, lambda a: sent.append(a["cents"]))
        assert made.value == (None if cents == 2 else {"id": cents})
    assert sent == [2]
    for cents in (1, 2, 3):
        assert handle.call(CHARGE, {"cents": cents}, unwanted).replayed


@pytest.mark.parametrize("given", [True, False, None, "yes", {"type": "approve"}, {"confirmed": 1}])
def test_the_yes_of_a_framework_decides_no_doubt(handle: adapters.Handle, given: Any) -> None:
    review = review_of(handle, 1)
    assert adapters.answer(handle, review, given) is None
    assert review_of(handle, 1) == review


def test_look_again_uses_what_was_decided_elsewhere(handle: adapters.Handle) -> None:
    review = review_of(handle, 1)
    inbox = nt.Reviews(nt.Ledger(handle.session.store, clock=handle.session.clock))
    inbox.decide(review, "happened", by="ann", why="saw it", result=7)
    assert adapters.answer(handle, review, True) is None
    assert handle.call(CHARGE, {"cents": 1}, unwanted).value == 7


def test_an_answer_to_another_review_decides_nothing(handle: adapters.Handle) -> None:
    one, two = review_of(handle, 1), review_of(handle, 2)
    payload = nt.did_not_happen().payload(two, by="ann", why="not there")
    assert adapters.answer(handle, one, payload) is None
    assert (review_of(handle, 1), review_of(handle, 2)) == (one, two)


def test_the_same_answer_again_is_harmless_and_fires_nothing_again(
    handle: adapters.Handle,
) -> None:
    """A framework that resumes twice hands out the same answer twice."""
    review = review_of(handle, 1)
    payload = nt.did_not_happen().payload(review, by="ann", why="not there")
    sent: list[int] = []
    for _ in range(2):
        assert adapters.answer(handle, review, payload) == "did-not-happen"
        handle.call(CHARGE, {"cents": 1}, lambda _: sent.append(1))
    assert sent == [1]


@pytest.mark.parametrize("cents", [1, 9])
def test_an_abort_stops_the_run(handle: adapters.Handle, cents: int) -> None:
    """Whether the call that it was about is asked for again, or another one."""
    review = review_of(handle, 1)
    assert adapters.answer(handle, review, adapters.abort(review, by="ann", why="enough"))
    with pytest.raises(nt.errors.RunAborted):
        handle.call(CHARGE, {"cents": cents}, unwanted)


@pytest.mark.parametrize("verb", ["approve", "reject"])
@pytest.mark.parametrize("explicit", [True, False])
def test_an_approval_may_be_given_in_the_way_of_the_framework(
    handle: adapters.Handle, verb: str, explicit: bool
) -> None:
    with pytest.raises(nt.errors.ApprovalNeeded) as needed:
        handle.call(REFUND, {}, unwanted)
    review = needed.value.review_id
    assert review is not None
    made = adapters.approve if verb == "approve" else adapters.reject
    given = made(review, by="ann", why="a look") if explicit else verb == "approve"
    assert adapters.answer(handle, review, given) == verb
    if verb == "approve":
        assert handle.call(REFUND, {}, lambda _: 1).value == 1
    else:
        with pytest.raises(nt.errors.RejectedByReviewer):
            handle.call(REFUND, {}, unwanted)


def test_a_review_of_another_run_is_not_decided(handle: adapters.Handle) -> None:
    with pytest.raises(nt.errors.UnknownReview, match="Nothing was decided"):
        adapters.answer(handle, "1c6a9990", adapters.abort("1c6a9990", by="ann", why="x"))


def test_an_event_loop_is_not_blocked(handle: adapters.Handle) -> None:
    review = review_of(handle, 1)
    payload = nt.happened(7).payload(review, by="ann", why="saw it")
    assert asyncio.run(adapters.aanswer(handle, review, payload)) == "happened"
    assert handle.call(CHARGE, {"cents": 1}, unwanted).value == 7
