"""A call that needs approval is made when a person said so, about this very call, and once (H3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.model.review import Review, ReviewStatus, Verb
from nottwice.model.run import RunStatus
from nottwice.reviews.decide import undo
from nottwice.store.interface import Commit
from nottwice.store.memory import MemoryStore
from nottwice.testing import forget_tools
from tests.fakes import Host, MortalStore


class Bank:
    """Pays out, if a person approved it."""

    def __init__(self, **declared: Any) -> None:
        self.paid: list[int] = []
        self.outcomes: list[BaseException] = []

        @nt.tool("unsafe_on_replay", name="pay out after approval", **{"approve": True, **declared})
        def pay(cents: int, note: str = "") -> str:
            if self.outcomes:
                raise self.outcomes.pop()
            self.paid.append(cents)
            return f"paid {cents}"

        self.pay = pay


def attempt(host: Host, work: Callable[[], Any], **process: Any) -> Any:
    with host.process(**process) as ledger:
        try:
            with ledger.run("r"), nt.step("s"):
                return work()
        except nt.NottwiceError as error:
            return error


def statuses(host: Host) -> list[str]:
    """In the order of the alphabet: several may be opened at one moment."""
    return sorted(review.status.value for review in MemoryStore(host.data).reviews("r"))


def last(host: Host) -> Review:
    return MemoryStore(host.data).reviews("r")[-1]


def test_nothing_is_sent_before_a_person_approves_and_then_once(host: Host) -> None:
    bank = Bank()
    for _ in range(2):
        needed = attempt(host, lambda: bank.pay(40))
        assert isinstance(needed, nt.errors.ApprovalNeeded)
        assert "pay out after approval(cents=40" in str(needed)
    assert (bank.paid, host.calls, statuses(host)) == ([], [], ["open"])
    assert host.data.runs["r"].status is RunStatus.WAITING
    host.decide(Verb.APPROVE, why="")
    for _ in range(2):
        assert attempt(host, lambda: bank.pay(40)) == "paid 40"
    assert (bank.paid, statuses(host)) == ([40], ["used"])


def test_an_approval_is_for_these_arguments_and_no_others(host: Host) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    other = attempt(host, lambda: bank.pay(4000))
    assert isinstance(other, nt.errors.ApprovalNeeded)
    assert bank.paid == []
    assert statuses(host) == ["decided", "open"]


def test_an_approval_is_for_this_step_and_no_other(host: Host) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    with host.process() as ledger, pytest.raises(nt.errors.ApprovalNeeded):
        with ledger.run("r"), nt.step("s", at="another visit"):
            bank.pay(40)
    assert bank.paid == []


@pytest.mark.parametrize("dies_at", range(1, 12))
def test_an_approval_is_used_by_the_commit_that_records_the_intent(
    host: Host, dies_at: int
) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    attempt(host, lambda: bank.pay(40), dies_at=dies_at)
    assert (statuses(host) == ["used"]) == bool(host.calls)
    attempt(host, lambda: bank.pay(40))
    assert len(bank.paid) <= 1
    if host.calls[0].status is CallStatus.DONE:
        assert bank.paid == [40]


def test_a_run_that_stops_before_the_call_has_not_used_its_approval(host: Host) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    with host.process() as ledger, pytest.raises(ValueError, match="broken"), ledger.run("r"):
        with nt.step("s"):
            raise ValueError("broken")
    assert statuses(host) == ["decided"]
    assert attempt(host, lambda: bank.pay(40)) == "paid 40"


def test_one_approval_authorises_the_retries_of_its_call(host: Host) -> None:
    bank = Bank(retry=nt.RetryPolicy(3))
    bank.outcomes = [nt.Retryable("busy"), nt.Retryable("busy")]
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    assert attempt(host, lambda: bank.pay(40)) == "paid 40"
    assert host.calls[0].attempt == 3
    assert statuses(host) == ["used"]


def test_an_explicit_retry_of_an_approved_call_needs_no_other_approval(host: Host) -> None:
    bank = Bank()
    bank.outcomes = [nt.Permanent("no such account")]
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    assert isinstance(attempt(host, lambda: bank.pay(40)), nt.Permanent)
    assert attempt(host, lambda: bank.pay.retry(40)) == "paid 40"
    assert statuses(host) == ["used"]


def test_a_rejected_call_has_failed_permanently_with_who_and_why(host: Host) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.REJECT, why="too much")
    for _ in range(2):
        rejected = attempt(host, lambda: bank.pay(40))
        assert isinstance(rejected, nt.errors.RejectedByReviewer)
        assert isinstance(rejected, nt.Permanent)
        assert "ann did not allow it: too much" in str(rejected)
    (row,) = host.calls
    assert row.status is CallStatus.FAILED
    assert (bank.paid, statuses(host)) == ([], ["used"])


@pytest.mark.parametrize("dies_at", range(1, 10))
def test_a_rejection_and_its_record_are_one_commit(host: Host, dies_at: int) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.REJECT, why="too much")
    attempt(host, lambda: bank.pay(40), dies_at=dies_at)
    assert (statuses(host) == ["used"]) == bool(host.calls)
    assert isinstance(attempt(host, lambda: bank.pay(40)), nt.errors.RejectedByReviewer)
    assert bank.paid == []


def test_a_caller_that_still_wants_a_rejected_call_must_ask_again(host: Host) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.REJECT, why="too much")
    attempt(host, lambda: bank.pay(40))
    assert isinstance(attempt(host, lambda: bank.pay.retry(40)), nt.errors.ApprovalNeeded)
    assert bank.paid == []
    host.decide(Verb.APPROVE)
    assert attempt(host, lambda: bank.pay.retry(40)) == "paid 40"
    assert statuses(host) == ["used", "used"]


def test_the_used_approval_of_one_call_covers_no_attempt_of_another(host: Host) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    attempt(host, lambda: (bank.pay(40), bank.pay(50)))
    host.decide(Verb.REJECT, why="too much")
    rejected = attempt(host, lambda: (bank.pay(40), bank.pay(50)))
    assert isinstance(rejected, nt.errors.RejectedByReviewer)
    again = attempt(host, lambda: (bank.pay(40), bank.pay.retry(50)))
    assert isinstance(again, nt.errors.ApprovalNeeded)
    assert bank.paid == [40]


def test_a_rejected_keyed_call_keeps_its_key_for_a_later_attempt(host: Host) -> None:
    seen: list[str | None] = []

    @nt.tool(
        "idempotent_with_key", key="k-{n}", window="24h", approve=True, name="keyed after approval"
    )
    def act(n: int) -> None:
        seen.append(nt.current_call().key)

    attempt(host, lambda: act(7))
    host.decide(Verb.REJECT, why="not yet")
    attempt(host, lambda: act(7))
    attempt(host, lambda: act.retry(7))
    host.decide(Verb.APPROVE)
    attempt(host, lambda: act.retry(7))
    assert seen == ["k-7"]


def test_an_approval_that_is_too_old_is_asked_for_again(host: Host) -> None:
    bank = Bank(approve="24h")
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    host.clock.advance(24 * 3600 + 1)
    needed = attempt(host, lambda: bank.pay(40))
    assert isinstance(needed, nt.errors.ApprovalNeeded)
    assert "the one by ann has expired" in str(needed)
    assert statuses(host) == ["closed", "open"]
    assert bank.paid == []
    host.decide(Verb.APPROVE)
    host.clock.advance(24 * 3600)
    assert attempt(host, lambda: bank.pay(40)) == "paid 40"


def test_an_approval_from_the_future_does_not_count(host: Host) -> None:
    """A clock that jumped back must not stretch a limit."""
    bank = Bank(approve="24h")
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    host.clock.advance(-3600)
    assert isinstance(attempt(host, lambda: bank.pay(40)), nt.errors.ApprovalNeeded)
    assert bank.paid == []


@pytest.mark.parametrize("verb", [Verb.APPROVE, Verb.REJECT])
def test_a_decision_taken_back_at_the_last_moment_is_not_used(
    host: Host, verb: Verb, monkeypatch: pytest.MonkeyPatch
) -> None:
    bank = Bank()
    needed = attempt(host, lambda: bank.pay(40))
    host.decide(verb)
    whole = MortalStore.commit

    def watching(self: MortalStore, commit: Commit) -> None:
        if any(write.review.status is ReviewStatus.USED for write in commit.reviews):
            monkeypatch.setattr(MortalStore, "commit", whole)
            undo(MemoryStore(host.data), host.clock, needed.review_id, by="ann", why="no")
        whole(self, commit)

    monkeypatch.setattr(MortalStore, "commit", watching)
    again = attempt(host, lambda: bank.pay(40))
    assert isinstance(again, nt.errors.ApprovalNeeded)
    assert again.review_id == needed.review_id
    assert (bank.paid, statuses(host), host.calls) == ([], ["open"], [])


def test_an_abort_instead_of_an_approval_ends_the_run(host: Host) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.ABORT)
    assert isinstance(attempt(host, lambda: bank.pay(40)), nt.errors.RunAborted)
    assert bank.paid == []


def test_a_hundred_branches_may_each_need_one(host: Host) -> None:
    bank = Bank()

    def work() -> list[str]:
        return nt.map(bank.pay, range(100))

    assert isinstance(attempt(host, work), nt.errors.ApprovalNeeded)
    assert len(host.open_reviews) == len(host.data.runs["r"].waits) == 100
    store = MemoryStore(host.data)
    inbox = nt.Reviews(nt.Ledger(store, clock=host.clock))
    for review in host.open_reviews[:60]:
        inbox.decide(review.review_id, "approve", by="ann")
    assert isinstance(attempt(host, work), nt.errors.ApprovalNeeded)
    assert len(bank.paid) == 60
    for review in host.open_reviews:
        inbox.decide(review.review_id, "approve", by="ann")
    assert sorted(attempt(host, work)) == sorted(f"paid {cents}" for cents in range(100))
    assert sorted(bank.paid) == list(range(100))


def test_an_approval_is_not_asked_for_while_something_may_have_happened(host: Host) -> None:
    bank = Bank()

    @nt.tool("unsafe_on_replay", name="lose the answer before an approval")
    def lose() -> None:
        raise TimeoutError("no answer")

    def work() -> str:
        with pytest.raises(nt.errors.ReplayUnsafeError):
            lose()
        return bank.pay(40)

    assert isinstance(attempt(host, work), nt.errors.ReplayUnsafeError)
    assert [review.kind.value for review in host.open_reviews] == ["in doubt"]


def test_a_used_approval_is_no_word_about_what_happened(host: Host) -> None:
    """An approved call whose process died is in doubt like any other."""
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    for point in range(1, 20):
        attempt(host, lambda: bank.pay(40), dies_at=point)
        if host.calls:
            break
    assert host.calls[0].status is CallStatus.PENDING
    blocked = attempt(host, lambda: bank.pay(40))
    assert isinstance(blocked, nt.errors.ReplayUnsafeError)
    assert statuses(host) == ["open", "used"]


def test_a_tool_that_comes_to_need_approval_needs_it_for_another_attempt(host: Host) -> None:
    lax = Bank(approve=False)
    lax.outcomes = [nt.Permanent("no such account")]
    assert isinstance(attempt(host, lambda: lax.pay(40)), nt.Permanent)
    forget_tools()
    strict = Bank()
    assert isinstance(attempt(host, lambda: strict.pay.retry(40)), nt.errors.ApprovalNeeded)
    assert strict.paid == []


def test_an_approval_that_the_code_no_longer_needs_is_closed_with_its_step(host: Host) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))
    host.decide(Verb.APPROVE)
    attempt(host, lambda: None)
    assert last(host).status is ReviewStatus.CLOSED
    assert last(host).closed_by == "step 's', which did not ask"


def test_a_used_approval_is_no_closed_review_that_evidence_could_reopen(host: Host) -> None:
    """Overtaken in the middle of an approved call: no process has settled that doubt yet."""

    @nt.tool("unsafe_on_replay", approve=True, name="be overtaken after approval")
    def send(to: str) -> str:
        (run,) = host.data.runs.values()
        host.data.runs["r"] = replace(run, epoch=run.epoch + 1, holder_id="another")
        return to

    attempt(host, lambda: send("ann"))
    host.decide(Verb.APPROVE)
    assert isinstance(attempt(host, lambda: send("ann")), nt.errors.OwnershipLost)
    assert len(host.data.evidence) == 1
    assert statuses(host) == ["used"]


def test_an_abort_while_the_code_is_on_its_way_sends_nothing(host: Host) -> None:
    bank = Bank()
    attempt(host, lambda: bank.pay(40))

    def work() -> str:
        host.decide(Verb.ABORT)
        return bank.pay(40)

    assert isinstance(attempt(host, work), nt.errors.RunAborted)
    assert bank.paid == []
