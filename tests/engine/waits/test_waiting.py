"""Questions, timers and events: each counts once, whichever process dies or asks again (H1)."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.model.call import CallStatus, ResultKind, StoredResult
from nottwice.model.review import Decision, Review, ReviewKind, ReviewStatus, Verb
from nottwice.model.run import RunStatus, WaitKind
from nottwice.reviews.decide import undo
from nottwice.store.interface import Commit, ReviewWrite
from nottwice.store.memory import MemoryStore
from tests.fakes import Host, MortalStore


def in_step(host: Host, work: Callable[[], Any], **process: Any) -> Any:
    """What the work returns or raises in a step of run r, in a process of its own."""
    with host.process(**process) as ledger:
        try:
            with ledger.run("r"), nt.step("s"):
                return work()
        except nt.NottwiceError as error:
            return error


def reviews(host: Host) -> list[Review]:
    return MemoryStore(host.data).reviews("r")


# Questions


def test_a_question_is_opened_once_and_its_answer_given_permanently(host: Host) -> None:
    first = in_step(host, lambda: nt.ask("Go on?"))
    second = in_step(host, lambda: nt.ask("Go on?"))
    assert isinstance(first, nt.errors.QuestionOpen)
    assert isinstance(second, nt.errors.QuestionOpen)
    assert first.review_id == second.review_id == host.open_reviews[0].review_id
    assert f"nottwice decide {first.review_id} --store :memory:" in str(first)
    host.decide(Verb.ANSWER, result="yes")
    assert in_step(host, lambda: nt.ask("Go on?")) == "yes"
    (review,) = reviews(host)
    assert review.status is ReviewStatus.USED
    (row,) = host.calls
    assert (row.identity.tool_name, row.status) == ("nottwice.ask", CallStatus.DONE)
    assert row.settled_by == "decision by ann"
    assert in_step(host, lambda: nt.ask("Go on?")) == "yes"
    assert host.data.runs["r"].status is RunStatus.COMPLETED


def test_question_and_reason_to_wait_are_written_by_one_commit() -> None:
    """Wherever the process dies, it has asked and waits for the answer, or neither."""
    found: list[tuple[bool, bool]] = []
    for dies_at in range(1, deaths(lambda host: None) + 1):
        host = Host()
        in_step(host, lambda: nt.ask("Go on?"), dies_at=dies_at)
        asked = [review.review_id for review in host.open_reviews]
        run = host.data.runs.get("r")
        waits = [wait.subject for wait in run.waits] if run is not None else []
        assert waits == asked
        dead = run is not None and run.holder_id is not None
        found.append((bool(asked), dead))
    # Killed before and after it had asked: otherwise nothing was proven.
    assert {(False, True), (True, True)} <= set(found)


def test_an_answer_and_its_use_are_one_commit() -> None:
    """Wherever the process dies, the answer is on record and used, or neither; it counts once."""

    def answered(host: Host) -> None:
        in_step(host, lambda: nt.ask("Go on?"))
        host.decide(Verb.ANSWER, result="yes")

    found: set[bool] = set()
    for dies_at in range(1, deaths(answered) + 1):
        host = Host()
        answered(host)
        in_step(host, lambda: nt.ask("Go on?"), dies_at=dies_at)
        (review,) = reviews(host)
        used = review.status is ReviewStatus.USED
        assert used == bool(host.calls)
        found.add(used)
        assert in_step(host, lambda: nt.ask("Go on?")) == "yes"
        assert len(reviews(host)) == 1
    assert found == {False, True}


def deaths(before: Callable[[Host], None]) -> int:
    """At how many points a process can die that asks, after others have done what was before."""
    host = Host()
    before(host)
    in_step(host, lambda: nt.ask("Go on?"))
    return host.points


def test_the_same_question_in_one_step_is_one_and_a_label_makes_another(host: Host) -> None:
    def work() -> list[str]:
        return [nt.ask("Go on?"), nt.ask("Go on?"), nt.ask("Go on?", label="again")]

    in_step(host, work)
    host.decide(Verb.ANSWER, result="yes")
    assert isinstance(in_step(host, work), nt.errors.QuestionOpen)
    host.decide(Verb.ANSWER, result="no")
    assert in_step(host, work) == ["yes", "yes", "no"]


@pytest.mark.parametrize(
    "other",
    [
        {"question": "Refund 80?"},
        {"question": "Refund?", "about": {"cents": 80}},
        {"question": "Refund?", "about": {"cents": 40}, "options": ["no", "yes"]},
    ],
)
def test_an_answer_belongs_to_what_was_shown(host: Host, other: dict[str, Any]) -> None:
    first: dict[str, Any] = {
        "question": "Refund?",
        "about": {"cents": 40},
        "options": ["yes", "no"],
    }
    shown = in_step(host, lambda: nt.ask(**first))
    host.decide(Verb.ANSWER, result="yes")
    asked = in_step(host, lambda: nt.ask(**other))
    assert isinstance(asked, nt.errors.QuestionOpen)
    assert asked.review_id != shown.review_id


def test_another_question_in_its_place_closes_the_unanswered_question(host: Host) -> None:
    in_step(host, lambda: nt.ask("Old?"))
    new = in_step(host, lambda: nt.ask("New?"))
    old, opened = sorted(reviews(host), key=lambda one: one.status is ReviewStatus.OPEN)
    assert old.status is ReviewStatus.CLOSED
    assert old.closed_by == f"another question in its place: {opened.review_id}"
    assert new.review_id == opened.review_id


def test_a_question_of_another_branch_is_not_in_its_place(host: Host) -> None:
    in_step(host, lambda: nt.map(lambda index: nt.ask(f"{index}?"), range(3)))
    assert [review.status for review in reviews(host)] == [ReviewStatus.OPEN] * 3


def test_an_answer_that_the_type_does_not_take_is_undone_with_the_reason_on_record(
    host: Host,
) -> None:
    in_step(host, lambda: nt.ask("How many?", returns=list[int]))
    host.decide(Verb.ANSWER, result=["many"])
    refused = in_step(host, lambda: nt.ask("How many?", returns=list[int]))
    assert isinstance(refused, nt.errors.QuestionOpen)
    assert isinstance(refused.__cause__, nt.errors.InvalidArguments)
    assert [review.status for review in reviews(host)] == [ReviewStatus.OPEN]
    (item,) = host.data.evidence
    assert "the answer given by ann does not fit" in item.text
    host.decide(Verb.ANSWER, result=[1, 2])
    assert in_step(host, lambda: nt.ask("How many?", returns=list[int])) == [1, 2]


def test_an_answer_that_was_written_past_the_check_is_not_taken_for_an_option(host: Host) -> None:
    in_step(host, lambda: nt.ask("Which?", options=["a", "b"]))
    store = MemoryStore(host.data)
    (review,) = host.open_reviews
    given = StoredResult(ResultKind.PLAIN, '"c"')
    forged = review.decided(Decision(Verb.ANSWER, "eve", "", 1.0, given))
    store.commit(Commit(workflow_id="r", reviews=(ReviewWrite(forged, review.version),)))
    refused = in_step(host, lambda: nt.ask("Which?", options=["a", "b"]))
    assert isinstance(refused, nt.errors.QuestionOpen)
    assert not host.calls


def test_an_abort_of_a_question_ends_the_run(host: Host) -> None:
    in_step(host, lambda: nt.ask("Go on?"))
    host.decide(Verb.ABORT)
    assert isinstance(in_step(host, lambda: nt.ask("Go on?")), nt.errors.RunAborted)
    assert host.data.runs["r"].status is RunStatus.ABORTED


def test_an_abort_in_the_middle_of_a_run_is_heard_by_the_next_effect(host: Host) -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay", name="send after an abort")
    def send(to: str) -> None:
        sent.append(to)

    def work() -> None:
        if host.open_reviews:
            host.decide(Verb.ABORT)
            send("ann")
        nt.ask("Go on?")

    in_step(host, work)
    assert isinstance(in_step(host, work), nt.errors.RunAborted)
    assert sent == []


def test_an_abort_is_heard_on_disk_too(tmp_path: Path) -> None:
    sent: list[str] = []

    @nt.tool("unsafe_on_replay", name="send after an abort on disk")
    def send(to: str) -> None:
        sent.append(to)

    path = tmp_path / "agent.db"
    with pytest.raises(nt.errors.QuestionOpen) as asked, nt.run("r", store=path), nt.step("a"):
        nt.ask("Go on?")
    with pytest.raises(nt.errors.RunAborted), nt.run("r", store=path), nt.step("b"):
        send("ann")
        with nt.Reviews(path) as inbox:
            inbox.decide(str(asked.value.review_id), "abort", by="bob", why="enough")
        send("bob")
    assert sent == ["ann"]


@pytest.mark.parametrize("verb", [Verb.ANSWER, Verb.ABORT])
def test_a_decision_taken_back_at_the_last_moment_is_not_used(host: Host, verb: Verb) -> None:
    asked = in_step(host, lambda: nt.ask("Go on?"))
    host.decide(verb, result="yes" if verb is Verb.ANSWER else None)

    def taken_back(commit: Commit) -> None:
        if any(write.review.status is ReviewStatus.USED for write in commit.reviews):
            MortalStore.commit = whole  # type: ignore[method-assign]
            undo(MemoryStore(host.data), host.clock, asked.review_id, by="ann", why="no")

    whole = MortalStore.commit

    def watching(self: MortalStore, commit: Commit) -> None:
        taken_back(commit)
        whole(self, commit)

    MortalStore.commit = watching  # type: ignore[method-assign]
    try:
        again = in_step(host, lambda: nt.ask("Go on?"))
    finally:
        MortalStore.commit = whole  # type: ignore[method-assign]
    assert isinstance(again, nt.errors.QuestionOpen)
    assert [review.status for review in reviews(host)] == [ReviewStatus.OPEN]
    assert not host.calls


def test_a_finished_step_asks_nothing_new(host: Host) -> None:
    in_step(host, lambda: None)
    for work in (lambda: nt.ask("New?"), lambda: nt.sleep("1h"), lambda: nt.receive("paid")):
        refused = in_step(host, work)
        assert isinstance(refused, nt.errors.ReplayDriftError)
        assert "only replays" in str(refused)
    assert host.open_reviews == []


def test_two_threads_with_one_question_ask_once(host: Host) -> None:
    errors: list[BaseException] = []

    def ask() -> None:
        try:
            nt.ask("Go on?")
        except nt.errors.QuestionOpen as error:
            errors.append(error)

    with (
        host.process() as ledger,
        pytest.raises(nt.errors.QuestionOpen),
        ledger.run("r"),
        nt.step("s"),
    ):
        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(ask,)) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(errors) == 8
    assert len(reviews(host)) == 1


# Timers


def test_a_timer_returns_when_it_is_due_and_not_before(host: Host) -> None:
    begun = host.clock.now()
    waits = in_step(host, lambda: nt.sleep("3d"))
    assert isinstance(waits, nt.RunWaits)
    assert waits.until == begun + 3 * 86400
    (wait,) = host.data.runs["r"].waits
    assert (wait.kind, wait.until, wait.node_id) == (WaitKind.TIMER, waits.until, "s")
    assert host.data.runs["r"].wake_at == waits.until
    host.clock.advance(3 * 86400 - 1)
    assert isinstance(in_step(host, lambda: nt.sleep("3d")), nt.RunWaits)
    host.clock.advance(1)
    assert in_step(host, lambda: nt.sleep("3d")) is None
    assert host.data.runs["r"].status is RunStatus.COMPLETED


def test_later_code_does_not_move_a_timer(host: Host) -> None:
    first = in_step(host, lambda: nt.sleep("1h"))
    assert in_step(host, lambda: nt.sleep("9h")).until == first.until


def test_a_timer_is_durable_before_the_code_hears_that_it_waits(host: Host) -> None:
    with host.process() as ledger, pytest.raises(nt.RunWaits), ledger.run("r"), nt.step("s"):
        try:
            nt.sleep("1h")
        finally:
            assert [row.identity.tool_name for row in host.calls] == ["nottwice.sleep"]


def test_two_timers_of_one_step_run_one_after_the_other(host: Host) -> None:
    def work() -> str:
        nt.sleep("1h")
        nt.sleep("1h")
        return "done"

    assert isinstance(in_step(host, work), nt.RunWaits)
    host.clock.advance(3600)
    second = in_step(host, work)
    assert second.until == host.clock.now() + 3600
    host.clock.advance(3600)
    assert in_step(host, work) == "done"


@pytest.mark.parametrize("dies_at", range(1, 8))
def test_a_timer_that_was_seen_to_wait_is_on_record(host: Host, dies_at: int) -> None:
    """Killed before it was durable it begins again; killed after, it is due when it was."""
    in_step(host, lambda: nt.sleep("1h"), dies_at=dies_at)
    begun = [float(row.created_at) for row in host.calls]
    host.clock.advance(600)
    waits = in_step(host, lambda: nt.sleep("1h"))
    assert waits.until == (begun[0] if begun else host.clock.now()) + 3600


# Events


def test_an_event_is_delivered_whether_it_was_sent_before_or_after(host: Host) -> None:
    with host.process() as ledger:
        ledger.send("r", "paid", {"cents": 40}, by="bank")
    assert in_step(host, lambda: nt.receive("paid")) == {"cents": 40}
    assert isinstance(in_other_step(host, lambda: nt.receive("paid")), nt.RunWaits)
    with host.process() as ledger:
        ledger.send("r", "paid", {"cents": 80})
    assert in_other_step(host, lambda: nt.receive("paid")) == {"cents": 80}


def in_other_step(host: Host, work: Callable[[], Any]) -> Any:
    with host.process() as ledger:
        try:
            with ledger.run("r"), nt.step("another"):
                return work()
        except nt.RunWaits as error:
            return error


def test_events_are_taken_oldest_first_and_each_once(host: Host) -> None:
    with host.process() as ledger:
        for number in range(3):
            host.clock.advance(1)
            ledger.send("r", "paid", number)
            ledger.send("r", "other", "not meant")

    def work() -> list[Any]:
        return [nt.receive("paid") for _ in range(4)]

    waits = in_step(host, work)
    assert isinstance(waits, nt.RunWaits)
    assert [wait.subject for wait in host.data.runs["r"].waits] == ["paid"]
    with host.process() as ledger:
        host.clock.advance(1)
        ledger.send("r", "paid", 3)
    assert in_step(host, work) == [0, 1, 2, 3]
    taken = [one for one in host.data.events.values() if one.received_by is not None]
    assert {one.name for one in taken} == {"paid"}


@pytest.mark.parametrize("dies_at", range(1, 10))
def test_an_event_is_taken_by_the_commit_that_records_what_it_said(
    host: Host, dies_at: int
) -> None:
    with host.process() as ledger:
        ledger.send("r", "paid", 1)
        host.clock.advance(1)
        ledger.send("r", "paid", 2)
    in_step(host, lambda: nt.receive("paid"), dies_at=dies_at)
    taken = [one for one in host.data.events.values() if one.received_by is not None]
    assert [one.received_by for one in taken] == [row.call_id for row in host.calls]
    assert in_step(host, lambda: nt.receive("paid")) == 1


def test_branches_that_receive_concurrently_share_the_events(host: Host) -> None:
    with host.process() as ledger:
        for number in range(16):
            host.clock.advance(1)
            ledger.send("r", "paid", number)

    def work() -> list[int]:
        return nt.map(lambda _: int(nt.receive("paid")), range(16))

    first = in_step(host, work)
    assert sorted(first) == list(range(16))
    assert in_step(host, work) == first


def test_an_event_that_does_not_come_in_time_is_a_failure_on_record(host: Host) -> None:
    def work() -> Any:
        return nt.receive("paid", within="1h")

    waits = in_step(host, work)
    assert waits.until == host.clock.now() + 3600
    host.clock.advance(3601)
    with host.process() as ledger:
        ledger.send("r", "paid", "too late")
    for _ in range(2):
        late = in_step(host, work)
        assert isinstance(late, nt.errors.EventTimeout)
        assert "no event 'paid' came within 3600 s" in str(late)
    assert [one.received_by for one in host.data.events.values()] == [None]


def test_an_event_that_was_sent_in_time_is_in_time(host: Host) -> None:
    def work() -> Any:
        return nt.receive("paid", within="1h")

    in_step(host, work)
    host.clock.advance(3599)
    with host.process() as ledger:
        ledger.send("r", "paid", "just in time")
    host.clock.advance(86400)
    assert in_step(host, work) == "just in time"


def test_a_wait_is_no_failure_of_the_pure_tool_it_is_in(host: Host) -> None:
    @nt.tool("pure", name="prepare with a question")
    def prepare() -> str:
        return f"said {nt.ask('Go on?')}"

    assert isinstance(in_step(host, prepare), nt.errors.QuestionOpen)
    host.decide(Verb.ANSWER, result="yes")
    assert in_step(host, prepare) == "said yes"


def test_no_review_of_what_may_have_happened_is_opened_for_what_the_engine_does_itself(
    host: Host,
) -> None:
    in_step(host, lambda: nt.sleep("1h"))
    in_step(host, lambda: nt.ask("Go on?"))
    assert not any(row.status.in_doubt for row in host.calls)
    assert {review.kind for review in reviews(host)} <= {ReviewKind.QUESTION}
