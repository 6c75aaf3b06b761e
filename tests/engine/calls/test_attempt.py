"""One attempt: what is durable before the effect, and what becomes of its outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

import nottwice as nt
from nottwice.engine.doubts.blocking import new_review
from nottwice.model.call import CallStatus
from nottwice.model.review import Review, ReviewKind, ReviewStatus, Verb
from nottwice.reviews.decide import decide
from nottwice.store.memory import MemoryStore
from tests.fakes import FakeClock, Host


def test_the_intent_is_durable_before_the_tool_runs(host: Host) -> None:
    seen: list[tuple[CallStatus, int, str]] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        (row,) = host.calls
        seen.append((row.status, row.attempt, row.holder_id))
        return "sent"

    with host.process() as ledger, ledger.run("r"):
        send("a")
        holder = ledger.store.holder().holder_id
    assert seen == [(CallStatus.PENDING, 1, holder)]
    assert [row.status for row in host.calls] == [CallStatus.DONE]


def test_every_retry_has_an_intent_of_its_own(host: Host) -> None:
    seen: list[tuple[CallStatus, int, str]] = []

    @nt.tool("unsafe_on_replay", retry=nt.RetryPolicy(attempts=3))
    def send(to: str) -> str:
        (row,) = host.calls
        seen.append((row.status, row.attempt, row.attempt_id))
        if len(seen) < 3:
            raise nt.Retryable("busy")
        return "sent"

    with host.process() as ledger, ledger.run("r"):
        assert send.receipt("a").attempts == 3
    assert [(status, attempt) for status, attempt, _ in seen] == [
        (CallStatus.PENDING, 1),
        (CallStatus.PENDING, 2),
        (CallStatus.PENDING, 3),
    ]
    assert len({attempt_id for _, _, attempt_id in seen}) == 3
    (row,) = host.calls
    assert [past.outcome for past in row.past] == ["retryable", "retryable"]


def test_a_failed_attempt_is_recorded_before_the_wait_for_the_next(host: Host) -> None:
    """A process that dies while it backs off leaves no doubt, and the next one continues."""

    class Dying(FakeClock):
        def pause(self, seconds: float) -> None:
            (row,) = host.calls
            states.append((row.status, row.retry_at))
            super().pause(seconds)

    states: list[tuple[CallStatus, float | None]] = []
    host.clock = Dying()
    tries: list[int] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        tries.append(nt.current_call().attempt)
        if len(tries) == 1:
            raise nt.Retryable("busy", retry_after=7)
        return "sent"

    with host.process() as ledger, ledger.run("r"):
        send("a")
    assert states == [(CallStatus.FAILED, 1_700_000_007.0)]
    assert tries == [1, 2]


def test_a_permanent_failure_is_not_tried_again_and_is_the_same_error_on_replay(host: Host) -> None:
    tries: list[int] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        tries.append(1)
        raise nt.Permanent("no such account")

    texts = []
    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            with pytest.raises(nt.Permanent) as caught:
                send("a")
            texts.append(str(caught.value))
    assert tries == [1]
    assert texts[0] == texts[1]
    assert "took no effect: no such account" in texts[0]


def test_retries_end_and_only_an_explicit_retry_grants_new_attempts(host: Host) -> None:
    tries: list[int] = []

    @nt.tool("unsafe_on_replay", retry=nt.RetryPolicy(attempts=2))
    def send(to: str) -> str:
        tries.append(1)
        if len(tries) <= 2:
            raise nt.Retryable("busy")
        return "sent"

    with host.process() as ledger, ledger.run("r"):
        for _ in range(2):
            with pytest.raises(nt.Retryable, match="after 2 attempts"):
                send("a")
        assert len(tries) == 2
        assert send.retry("a") == "sent"
        assert send("a") == "sent"
    assert len(tries) == 3


def test_an_unexpected_exception_of_an_effect_is_ambiguous(host: Host) -> None:
    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        raise ConnectionResetError("peer")

    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayUnsafeError):
        send("a")
    (row,) = host.calls
    assert row.status is CallStatus.UNKNOWN
    assert row.failure is not None
    assert row.failure.error_type == "ConnectionResetError"


def test_after_one_ambiguous_attempt_no_failure_ends_the_call(host: Host) -> None:
    """A keyed call times out, and its reissue is refused: that refusal proves nothing."""
    tries: list[int] = []

    @nt.tool("idempotent_with_key", key="k-{to}", window="24h")
    def send(to: str) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise TimeoutError
        raise nt.Permanent("400")

    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayUnsafeError):
        send("a")
    (row,) = host.calls
    assert (row.status, len(tries)) == (CallStatus.UNKNOWN, 2)


def test_an_interrupt_is_recorded_as_unknown_and_passed_on(host: Host) -> None:
    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        raise KeyboardInterrupt

    with host.process() as ledger, pytest.raises(KeyboardInterrupt), ledger.run("r"):
        send("a")
    (row,) = host.calls
    assert row.status is CallStatus.UNKNOWN


def test_an_overtaken_holder_writes_no_row_but_leaves_evidence(host: Host) -> None:
    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        overtake(host)
        return "sent"

    with host.process() as ledger, pytest.raises(nt.errors.OwnershipLost), ledger.run("r"):
        send("a")
    (row,) = host.calls
    assert row.status is CallStatus.PENDING
    (evidence,) = host.data.evidence
    assert "overtaken holder reports: it happened" in evidence.text
    assert evidence.result is not None
    assert evidence.result.json == '"sent"'


def test_evidence_about_a_closed_review_opens_a_new_one(host: Host) -> None:
    """People said "it did not happen"; then the old holder wakes up and reports that it did."""
    turns: list[int] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        turns.append(1)
        if len(turns) == 1:
            raise TimeoutError
        overtake(host)
        return "sent"

    with host.process() as ledger, ledger.run("r"), pytest.raises(nt.errors.ReplayUnsafeError):
        send("a")
    host.decide(Verb.DID_NOT_HAPPEN)
    with host.process() as ledger, pytest.raises(nt.errors.OwnershipLost), ledger.run("r"):
        pass
    (review,) = host.open_reviews
    assert "it happened, after review" in review.summary


def test_evidence_that_it_happened_takes_back_an_unused_licence(host: Host) -> None:
    """A person believed that the old holder was stopped, and it was not."""
    licences: list[Review] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        overtake(host)
        (row,) = host.calls
        review = new_review(row, ReviewKind.IN_DOUBT, "its holder is silent", now=host.clock.now())
        host.data.reviews[review.review_id] = review
        decide(
            MemoryStore(host.data),
            host.clock,
            review.review_id,
            Verb.DID_NOT_HAPPEN,
            by="ann",
            why="its machine was switched off",
            holder_stopped=True,
        )
        licences.extend(one for one in host.open_reviews if one.is_licence)
        return "sent"

    with host.process() as ledger, pytest.raises(nt.errors.OwnershipLost), ledger.run("r"):
        send("a")
    assert len(licences) == 1
    (evidence,) = host.data.evidence
    assert "it happened" in evidence.text
    (review,) = host.open_reviews
    assert (review.status, review.decision) == (ReviewStatus.OPEN, None)


def overtake(host: Host) -> None:
    """Another holder claims the run, as if a lease had run out."""
    (run,) = host.data.runs.values()
    host.data.runs[run.workflow_id] = replace(run, epoch=run.epoch + 1, holder_id="another")


def test_a_clock_that_jumped_back_does_not_stretch_the_wait_for_a_retry(host: Host) -> None:
    tries: list[int] = []

    @nt.tool("unsafe_on_replay")
    def send(to: str) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise nt.Retryable("busy", retry_after=7)
        return "sent"

    # The points: claim 1, 2; intent 3, 4; failure 5, 6; the next intent 7.
    with host.process(dies_at=7) as ledger, ledger.run("r"):
        send("a")
    host.clock.pauses.clear()
    host.clock.advance(-30 * 24 * 3600)
    with host.process() as ledger, ledger.run("r"):
        assert send("a") == "sent"
    assert sum(host.clock.pauses) <= 300
