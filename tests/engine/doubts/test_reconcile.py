"""Calls in doubt: the stored key, verify, a person, or a review, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus
from nottwice.model.review import Review, ReviewStatus, Verb
from nottwice.model.run import RunStatus
from nottwice.reviews.decide import decide
from nottwice.store.memory import MemoryStore
from nottwice.testing import forget_tools
from tests.fakes import Host

# The points of a run with one effect: claim 1, 2; intent 3, 4; result 5, 6; release 7, 8.
BEFORE_THE_INTENT, AFTER_THE_INTENT, AFTER_THE_EFFECT, AFTER_THE_RESULT = 3, 4, 5, 6


class Upstream:
    """Counts effects, and remembers keys as long as it lives."""

    def __init__(self) -> None:
        self.effects: list[str] = []
        self.keys: list[str | None] = []
        self.asked = 0

    def apply(self, to: str) -> dict[str, str]:
        key = nt.current_call().key
        self.keys.append(key)
        if key is None or key not in self.keys[:-1]:
            self.effects.append(to)
        return {"to": to}

    def verify(self, call: nt.Call) -> nt.Verification:
        self.asked += 1
        if call.args["to"] in self.effects:
            return nt.happened({"to": call.args["to"]})
        return nt.did_not_happen()


Program = Callable[[nt.Ledger], object]


@pytest.fixture
def upstream() -> Upstream:
    return Upstream()


def protect(upstream: Upstream, **declared: object) -> Program:
    """A program with one effect, declared as asked for; the next one is new code."""
    forget_tools()
    replay_class = declared.pop("replay_class", "unsafe_on_replay")
    declare: Callable[..., object] = nt.tool

    @declare(replay_class, name="send", **declared)  # type: ignore[operator]
    def send(to: str) -> dict[str, str]:
        return upstream.apply(to)

    def program(ledger: nt.Ledger) -> object:
        with ledger.run("r"):
            return send(to="ann")

    return program


def kill_then_resume(host: Host, program: Program, dies_at: int) -> object:
    with host.process(dies_at=dies_at) as ledger:
        program(ledger)
    host.clock.advance(1)
    with host.process() as ledger:
        return program(ledger)


@pytest.mark.parametrize("dies_at", [BEFORE_THE_INTENT, AFTER_THE_RESULT])
def test_without_doubt_the_run_simply_continues(
    host: Host, upstream: Upstream, dies_at: int
) -> None:
    assert kill_then_resume(host, protect(upstream), dies_at) == {"to": "ann"}
    assert upstream.effects == ["ann"]


@pytest.mark.parametrize("dies_at", [AFTER_THE_INTENT, AFTER_THE_EFFECT])
def test_an_unsafe_call_without_verify_is_never_run_again(
    host: Host, upstream: Upstream, dies_at: int
) -> None:
    with pytest.raises(nt.errors.ReplayUnsafeError) as caught:
        kill_then_resume(host, protect(upstream), dies_at)
    assert len(upstream.effects) == (1 if dies_at == AFTER_THE_EFFECT else 0)
    (review,) = host.open_reviews
    assert caught.value.review_id == review.review_id
    assert review.review_id in str(caught.value)
    assert "send(to='ann')" in str(caught.value)
    assert caught.value.non_retryable
    assert host.data.runs["r"].status is RunStatus.WAITING
    assert host.data.runs["r"].holder_id is None


def test_resuming_again_opens_no_second_review(host: Host, upstream: Upstream) -> None:
    program = protect(upstream)
    for _ in range(3):
        with pytest.raises(nt.errors.ReplayUnsafeError):
            kill_then_resume(host, program, AFTER_THE_EFFECT)
    assert len(host.data.reviews) == 1
    assert upstream.effects == ["ann"]


def test_verify_that_finds_it_ends_the_doubt(host: Host, upstream: Upstream) -> None:
    program = protect(upstream, verify=upstream.verify)
    assert kill_then_resume(host, program, AFTER_THE_EFFECT) == {"to": "ann"}
    assert (upstream.effects, upstream.asked) == (["ann"], 1)
    (row,) = host.calls
    assert (row.status, row.settled_by) == (CallStatus.DONE, "verify")


def test_did_not_happen_without_settle_time_goes_to_a_person(
    host: Host, upstream: Upstream
) -> None:
    with pytest.raises(nt.errors.ReplayUnsafeError, match="declares no settle time"):
        kill_then_resume(host, protect(upstream, verify=upstream.verify), AFTER_THE_INTENT)
    assert upstream.effects == []


def test_did_not_happen_after_the_settle_time_is_tried_once_more(
    host: Host, upstream: Upstream
) -> None:
    program = protect(upstream, verify=upstream.verify, settles="30s")
    assert kill_then_resume(host, program, AFTER_THE_INTENT) == {"to": "ann"}
    assert upstream.effects == ["ann"]
    assert upstream.asked == 2, "once immediately, once after it settled"
    assert sum(host.clock.pauses) == pytest.approx(30)
    (row,) = host.calls
    assert row.attempt == 2


def test_an_effect_that_arrives_while_settling_is_found(host: Host, upstream: Upstream) -> None:
    answers = iter([nt.did_not_happen(), nt.happened({"to": "late"})])
    program = protect(upstream, verify=lambda call: next(answers), settles="30s")
    assert kill_then_resume(host, program, AFTER_THE_INTENT) == {"to": "late"}
    assert upstream.effects == []


def test_a_settle_time_beyond_patience_goes_to_a_person_without_waiting(
    host: Host, upstream: Upstream
) -> None:
    program = protect(upstream, verify=upstream.verify, settles="2h")
    with pytest.raises(nt.errors.ReplayUnsafeError):
        kill_then_resume(host, program, AFTER_THE_INTENT)
    assert host.clock.pauses == []
    # A person has been asked, and only a clock says that the time has passed.
    host.clock.advance(2 * 3600)
    with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger:
        program(ledger)
    assert upstream.effects == []
    host.decide(Verb.DID_NOT_HAPPEN)
    with host.process() as ledger:
        assert program(ledger) == {"to": "ann"}
    assert upstream.effects == ["ann"]
    assert [review.status for review in host.data.reviews.values()] == [ReviewStatus.USED]


def test_an_answer_of_verify_is_one_piece_of_evidence_however_often_it_is_given(
    host: Host, upstream: Upstream
) -> None:
    answers = [nt.still_running(), nt.still_running(), nt.still_running(), nt.cannot_tell()]
    asked: list[str] = []

    def verify(call: nt.Call) -> nt.Verification:
        asked.append(call.id)
        return answers[min(len(asked), len(answers)) - 1]

    program = protect(upstream, verify=verify)
    for dies_at in (AFTER_THE_INTENT, None):
        with host.process(dies_at=dies_at) as ledger:
            with contextlib.suppress(nt.errors.ReplayUnsafeError):
                program(ledger)
    with host.process() as ledger, pytest.raises(nt.errors.ReplayUnsafeError):
        program(ledger)
    assert len(asked) == 5
    said = [item.text for item in MemoryStore(host.data).evidence("r") if item.source == "verify"]
    assert said == ["verify answered: still running", "verify answered: unknown"]


def test_still_running_is_waited_for_but_not_forever(host: Host, upstream: Upstream) -> None:
    program = protect(upstream, verify=lambda call: nt.still_running())
    with pytest.raises(nt.errors.ReplayUnsafeError, match="still running"):
        kill_then_resume(host, program, AFTER_THE_INTENT)
    assert 50 <= sum(host.clock.pauses) <= 60


@pytest.mark.parametrize("reply", [True, None, {"happened": 1}, ValueError("down")])
def test_any_other_answer_of_verify_is_unknown_and_said_so(
    host: Host, upstream: Upstream, reply: object
) -> None:
    def verify(call: nt.Call) -> nt.Verification:
        if isinstance(reply, Exception):
            raise reply
        return reply  # type: ignore[return-value]

    with pytest.raises(nt.errors.ReplayUnsafeError, match=r"verify (raised|returned)"):
        kill_then_resume(host, protect(upstream, verify=verify), AFTER_THE_EFFECT)
    assert upstream.effects == ["ann"]


@pytest.mark.parametrize("dies_at", [AFTER_THE_INTENT, AFTER_THE_EFFECT])
def test_a_keyed_call_is_reissued_with_its_stored_key(
    host: Host, upstream: Upstream, dies_at: int
) -> None:
    keyed = {"replay_class": "idempotent_with_key", "window": "24h"}
    first = protect(upstream, key="mail-{to}", **keyed)
    with host.process(dies_at=dies_at) as ledger:
        first(ledger)
    second = protect(upstream, key="renamed-{to}", **keyed)
    with host.process() as ledger:
        assert second(ledger) == {"to": "ann"}
    assert set(upstream.keys) == {"mail-ann"}
    assert upstream.effects == ["ann"]


def test_past_its_window_a_keyed_call_is_not_reissued(host: Host, upstream: Upstream) -> None:
    program = protect(upstream, replay_class="idempotent_with_key", key="mail-{to}", window="24h")
    with host.process(dies_at=AFTER_THE_EFFECT) as ledger:
        program(ledger)
    host.clock.advance(24 * 3600 - 30)
    with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger:
        program(ledger)
    assert upstream.keys == ["mail-ann"]


def test_a_clock_that_jumped_back_does_not_reopen_a_window(host: Host, upstream: Upstream) -> None:
    program = protect(upstream, replay_class="idempotent_with_key", key="mail-{to}", window="24h")
    with host.process(dies_at=AFTER_THE_EFFECT) as ledger:
        program(ledger)
    host.clock.advance(-3600)
    with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger:
        program(ledger)
    assert upstream.keys == ["mail-ann"]


def test_new_code_cannot_loosen_the_class_of_a_call_in_doubt(
    host: Host, upstream: Upstream
) -> None:
    with host.process(dies_at=AFTER_THE_EFFECT) as ledger:
        protect(upstream)(ledger)
    loosened = protect(upstream, replay_class="idempotent_with_key", key="mail-{to}", window="24h")
    with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger:
        loosened(ledger)
    assert upstream.effects == ["ann"]


def test_new_code_can_tighten_it(host: Host, upstream: Upstream) -> None:
    keyed = protect(upstream, replay_class="idempotent_with_key", key="mail-{to}", window="24h")
    with host.process(dies_at=AFTER_THE_EFFECT) as ledger:
        keyed(ledger)
    with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger:
        protect(upstream)(ledger)
    assert upstream.effects == ["ann"]


def test_a_person_who_says_it_happened_gives_the_receipt(host: Host, upstream: Upstream) -> None:
    program = protect(upstream)
    with pytest.raises(nt.errors.ReplayUnsafeError):
        kill_then_resume(host, program, AFTER_THE_EFFECT)
    host.decide(Verb.HAPPENED, result={"to": "found in the outbox"})
    for _ in range(2):
        with host.process() as ledger:
            assert program(ledger) == {"to": "found in the outbox"}
    assert upstream.effects == ["ann"]
    (row,) = host.calls
    assert row.settled_by == "decision by ann"
    (review,) = host.data.reviews.values()
    assert review.status is ReviewStatus.USED


def test_a_persons_result_that_does_not_fit_is_asked_for_again(
    host: Host, upstream: Upstream
) -> None:
    program = protect(upstream)
    with pytest.raises(nt.errors.ReplayUnsafeError):
        kill_then_resume(host, program, AFTER_THE_EFFECT)
    host.decide(Verb.HAPPENED, result=["not", "a", "dict"])
    with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger:
        program(ledger)
    (review,) = host.open_reviews
    assert (review.status, review.decision) == (ReviewStatus.OPEN, None)
    assert any("does not fit" in item.text for item in host.data.evidence)


def test_a_person_who_says_it_did_not_licenses_exactly_one_attempt(
    host: Host, upstream: Upstream
) -> None:
    program = protect(upstream)
    with pytest.raises(nt.errors.ReplayUnsafeError):
        kill_then_resume(host, program, AFTER_THE_INTENT)
    host.decide(Verb.DID_NOT_HAPPEN)
    # The licensed attempt dies between its intent and its effect: the licence is gone.
    with host.process(dies_at=AFTER_THE_INTENT) as ledger:
        program(ledger)
    with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger:
        program(ledger)
    assert upstream.effects == []
    host.decide(Verb.DID_NOT_HAPPEN)
    with host.process() as ledger:
        assert program(ledger) == {"to": "ann"}
    assert upstream.effects == ["ann"]
    (row,) = host.calls
    assert row.attempt == 3


def test_a_decision_survives_a_crash_before_its_use(host: Host, upstream: Upstream) -> None:
    program = protect(upstream)
    with pytest.raises(nt.errors.ReplayUnsafeError):
        kill_then_resume(host, program, AFTER_THE_INTENT)
    host.decide(Verb.DID_NOT_HAPPEN)
    with host.process(dies_at=BEFORE_THE_INTENT) as ledger:
        program(ledger)
    with host.process() as ledger:
        assert program(ledger) == {"to": "ann"}
    assert upstream.effects == ["ann"]


def test_an_aborted_run_stays_aborted(host: Host, upstream: Upstream) -> None:
    program = protect(upstream)
    with pytest.raises(nt.errors.ReplayUnsafeError):
        kill_then_resume(host, program, AFTER_THE_EFFECT)
    host.decide(Verb.ABORT, why="customer called")
    for _ in range(2):
        with pytest.raises(nt.errors.RunAborted), host.process() as ledger:
            program(ledger)
    assert host.data.runs["r"].status is RunStatus.ABORTED
    assert upstream.effects == ["ann"]


def test_a_call_whose_tool_is_not_declared_here_waits_and_heals_later(
    host: Host, upstream: Upstream
) -> None:
    program = protect(upstream, verify=upstream.verify)
    with host.process(dies_at=AFTER_THE_EFFECT) as ledger:
        program(ledger)
    forget_tools()
    with (
        pytest.raises(nt.errors.ReplayUnsafeError, match="does not declare its tool"),
        host.process() as ledger,
        ledger.run("r"),
    ):
        raise AssertionError("user code must not run")
    # A process that has the tool says its own reason, not that of the process before.
    program = protect(upstream)
    with (
        pytest.raises(nt.errors.ReplayUnsafeError, match="and the tool has no verify hook") as own,
        host.process() as ledger,
    ):
        program(ledger)
    assert "does not declare" not in str(own.value)
    forget_tools()
    program = protect(upstream, verify=upstream.verify)
    with host.process() as ledger:
        assert program(ledger) == {"to": "ann"}
    assert upstream.effects == ["ann"]
    assert host.open_reviews == []


def test_while_a_review_is_open_every_new_effect_is_refused_but_receipts_work(
    host: Host, upstream: Upstream
) -> None:
    @nt.tool("unsafe_on_replay")
    def doubtful(to: str) -> str:
        raise TimeoutError

    @nt.tool("unsafe_on_replay")
    def other(to: str) -> str:
        upstream.effects.append(to)
        return "done"

    @nt.tool("pure")
    def look(to: str) -> str:
        return "seen"

    with host.process() as ledger, ledger.run("r"):
        other("before")
        with pytest.raises(nt.errors.ReplayUnsafeError) as first:
            doubtful("a")
        with pytest.raises(nt.errors.ReplayUnsafeError) as again:
            doubtful("a")
        assert again.value.review_id == first.value.review_id
        with pytest.raises(nt.RunBlocked, match=r"^other\(to='after'\) was not run") as refused:
            other("after")
        assert refused.value.review_id is None
        assert refused.value.review_ids == (first.value.review_id,)
        assert "doubtful(to='a')" in str(refused.value)
        assert other("before") == "done"
        assert look("x") == "seen"
    assert upstream.effects == ["before"]


def test_a_decision_made_meanwhile_lifts_the_block_in_the_living_process(
    host: Host, upstream: Upstream
) -> None:
    @nt.tool("unsafe_on_replay")
    def doubtful(to: str) -> str:
        raise TimeoutError

    @nt.tool("unsafe_on_replay")
    def other(to: str) -> str:
        upstream.effects.append(to)
        return "done"

    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.ReplayUnsafeError):
            doubtful("a")
        host.decide(Verb.HAPPENED, result="it is there")
        assert other("after") == "done"
        assert doubtful("a") == "it is there"
    assert host.data.runs["r"].status is RunStatus.COMPLETED


# Bodies that arrive with the call.


def with_body(upstream: Upstream, **declared: object) -> Any:
    """A tool as a framework's middleware declares it: what it does is an argument of the call."""
    replay_class = declared.pop("replay_class", "unsafe_on_replay")
    declare: Callable[..., Any] = nt.tool

    def do(to: str, handler: Callable[[str], Any] | None = None) -> dict[str, str]:
        if handler is None:
            raise TypeError("there is no handler")
        result: dict[str, str] = handler(to)
        return result

    return declare(replay_class, name="do", volatile=["handler"], **declared)(do)


def test_a_body_that_arrives_with_the_call_is_not_called_without_it(
    host: Host, upstream: Upstream
) -> None:
    do = with_body(upstream, replay_class="idempotent_with_key", key="do-{to}", window="24h")
    with host.process(dies_at=AFTER_THE_INTENT) as ledger, ledger.run("r"):
        do("ann", upstream.apply)
    with host.process() as ledger, ledger.run("r"):
        (row,) = host.calls
        assert (row.status, row.attempt) == (CallStatus.PENDING, 1), "it waits for its caller"
        assert do("ann", upstream.apply) == {"to": "ann"}
    (row,) = host.calls
    assert row.attempt == 2
    assert upstream.keys == ["do-ann"]


def test_a_licence_for_a_body_that_arrives_with_the_call_waits_for_its_caller(
    host: Host, upstream: Upstream
) -> None:
    do = with_body(upstream)
    with host.process(dies_at=AFTER_THE_INTENT) as ledger, ledger.run("r"):
        do("ann", upstream.apply)
    with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger, ledger.run("r"):
        do("ann", upstream.apply)
    host.decide(Verb.DID_NOT_HAPPEN)
    for _ in range(2):
        # A process that does not come to ask for it leaves the decision as it is.
        with host.process() as ledger, ledger.run("r"):
            pass
    with host.process() as ledger, ledger.run("r"):
        assert do("ann", upstream.apply) == {"to": "ann"}
    assert upstream.effects == ["ann"]
    assert [one.status for one in host.data.reviews.values()] == [ReviewStatus.USED]


def test_that_it_happened_needs_no_body(host: Host, upstream: Upstream) -> None:
    do = with_body(upstream)
    with host.process(dies_at=AFTER_THE_EFFECT) as ledger, ledger.run("r"):
        do("ann", upstream.apply)
    with pytest.raises(nt.errors.ReplayUnsafeError), host.process() as ledger, ledger.run("r"):
        do("ann", upstream.apply)
    host.decide(Verb.HAPPENED, result={"to": "found"})
    with host.process() as ledger, ledger.run("r"):
        assert [row.status for row in host.calls] == [CallStatus.DONE]
        assert do("ann", upstream.apply) == {"to": "found"}
    assert upstream.effects == ["ann"]


# Several doubts.


def leave_two_doubts(host: Host, send: Any) -> None:
    """Two branches are in the middle of their effects when the process dies."""
    for name in ("ann", "bob"):
        with host.process(dies_at=AFTER_THE_EFFECT) as ledger:
            with ledger.run(name):
                send(to=name)
    for identity, row in list(host.data.calls.items()):
        del host.data.calls[identity]
        moved = identity._replace(workflow_id="ann")
        host.data.calls[moved] = row._replace(identity=moved, call_id=moved.call_id)


def test_a_run_with_several_doubts_names_all_their_reviews_and_none_as_its_own(
    host: Host, upstream: Upstream
) -> None:
    @nt.tool("unsafe_on_replay", name="send")
    def send(to: str) -> dict[str, str]:
        return upstream.apply(to)

    leave_two_doubts(host, send)
    with pytest.raises(nt.errors.ReplayUnsafeError) as caught, host.process() as ledger:
        with ledger.run("ann"):
            raise AssertionError("user code must not run")
    by_call = {one.call_id: one.review_id for one in host.open_reviews}
    assert len(by_call) == 2
    assert caught.value.review_id is None
    assert sorted(caught.value.review_ids) == sorted(by_call.values())
    assert caught.value.facts["evidence"] == ()
    for row in host.calls:
        assert f"send(to={'ann' if 'ann' in row.args_json else 'bob'!r})" in str(caught.value)
        assert f"nottwice decide {by_call[row.call_id]}" in str(caught.value)
    # Once only one is left, the error names it.
    last = host.open_reviews[1]
    decide(
        MemoryStore(host.data),
        host.clock,
        host.open_reviews[0].review_id,
        Verb.HAPPENED,
        by="ann",
        why="looked",
        result={"to": "it"},
        has_result=True,
    )
    with pytest.raises(nt.errors.ReplayUnsafeError) as caught, host.process() as ledger:
        with ledger.run("ann"):
            raise AssertionError("user code must not run")
    assert caught.value.review_id == last.review_id
    assert upstream.effects == ["ann", "bob"]


@pytest.mark.parametrize("look", range(1, 8))
def test_a_decision_at_any_moment_of_the_claim_loses_no_work(host: Host, look: int) -> None:
    """P28, P132. A run that was blocked when it was claimed is not completed by the decision."""
    forget_tools()
    sent: list[str] = []
    fails = [True]

    @nt.tool("unsafe_on_replay", name="send")
    def send(to: str) -> str:
        if fails.pop() if fails else False:
            raise nt.Ambiguous("the answer was lost")
        sent.append(to)
        return to

    flow = nt.Graph("mails", version="1.0.0")
    flow.node(name="first")(lambda state: {"first": send("ann")})
    flow.node(name="second")(lambda state: {"second": send("bob")})
    with host.process() as ledger:
        assert flow.run("r", {}, store=ledger).status == "waiting"
    looks = 0
    with host.process() as ledger:
        store = ledger.store
        seen = store.open_reviews

        def decided_meanwhile(workflow_id: str | None = None) -> list[Review]:
            nonlocal looks
            looks += 1
            if looks == look:
                host.decide(Verb.DID_NOT_HAPPEN)
            return seen(workflow_id)

        with patch.object(store, "open_reviews", decided_meanwhile):
            flow.run("r", {}, store=ledger)
        if looks < look:
            host.decide(Verb.DID_NOT_HAPPEN)
    with host.process() as ledger:
        outcome = flow.run("r", {}, store=ledger)
    assert (outcome.status, sent) == ("completed", ["ann", "bob"])
