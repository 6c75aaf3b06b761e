"""What waits for a person, with all that is known about it."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.model.run import Life
from nottwice.reviews.queue import find_case, open_cases
from nottwice.store.memory import MemoryStore
from tests.fakes import Host


@pytest.fixture
def host() -> Host:
    host = Host()

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        raise TimeoutError

    for run in ("r1", "r2"):
        with host.process() as ledger, ledger.run(run), pytest.raises(nt.errors.ReplayUnsafeError):
            send("ann")
        host.clock.advance(1)
    return host


def test_open_cases_come_oldest_first_with_call_and_evidence(host: Host) -> None:
    cases = open_cases(MemoryStore(host.data))
    assert [case.review.identity.workflow_id for case in cases] == ["r1", "r2"]
    for case in cases:
        assert case.row is not None
        assert case.row.call_id == case.review.call_id
        assert case.evidence
    assert len(open_cases(MemoryStore(host.data), "r2")) == 1


def test_a_recorded_end_or_a_dead_process_proves_the_attempt_over(host: Host) -> None:
    from dataclasses import replace

    case = open_cases(MemoryStore(host.data))[0]
    assert case.holder_life is Life.DEAD
    assert case.attempt_is_over
    assert case.row is not None
    unfinished = case.row._replace(finished_at=None)
    assert replace(case, row=unfinished).attempt_is_over
    assert not replace(case, row=unfinished, holder_life=Life.NOT_PROVEN).attempt_is_over
    assert replace(case, holder_life=Life.ALIVE).attempt_is_over


def test_a_case_is_found_by_a_prefix_that_names_only_one(host: Host) -> None:
    store = MemoryStore(host.data)
    first, second = open_cases(store)
    identity = first.review.review_id
    assert find_case(store, identity).review == first.review
    shortest = next(
        identity[:length]
        for length in range(1, 9)
        if not second.review.review_id.startswith(identity[:length])
    )
    assert find_case(store, shortest).review == first.review
    listing = f"nottwice reviews --store {store.location}$"
    for unknown in ("zz", ""):
        with pytest.raises(nt.errors.UnknownReview, match=listing):
            find_case(store, unknown)


def test_the_id_of_a_run_is_refused_with_the_command_for_what_it_waits_for(host: Host) -> None:
    store = MemoryStore(host.data)
    waiting = open_cases(store)[1].review.review_id
    with pytest.raises(nt.errors.UnknownReview) as refused:
        find_case(store, "r2")
    assert str(refused.value) == (
        f"'r2' is a run in {store.location}, and this command needs a review of it: {waiting}. "
        f"Nothing was changed. Look at it with: nottwice decide {waiting} --store "
        f"{store.location}"
    )


def test_an_ambiguous_prefix_is_refused_with_the_candidates(host: Host) -> None:
    from dataclasses import replace

    for number, review in enumerate(list(host.data.reviews.values())):
        del host.data.reviews[review.review_id]
        renamed = replace(review, review_id=f"abc{number}")
        host.data.reviews[renamed.review_id] = renamed
    with pytest.raises(nt.errors.UsageError, match="abc0, abc1"):
        find_case(MemoryStore(host.data), "abc")
