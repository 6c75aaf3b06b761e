"""Nothing new happens after a wait, whatever the code does with its exception."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.session import current_scope
from nottwice.model.call import CallIdentity
from nottwice.model.review import ReviewStatus, Verb
from nottwice.model.run import RunStatus, StepStatus, Wait, WaitKind
from nottwice.store.memory import MemoryStore
from tests.fakes import Host

WAITS: dict[str, Callable[[], object]] = {
    "question": lambda: nt.ask("Go on?"),
    "timer": lambda: nt.sleep("1h"),
    "event": lambda: nt.receive("paid"),
}
every_wait = pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())


def stopped() -> Any:
    return pytest.raises((nt.errors.QuestionOpen, nt.RunWaits))


@pytest.fixture
def sent() -> list[str]:
    return []


@pytest.fixture
def send(sent: list[str]) -> Callable[[str], str]:
    @nt.tool("unsafe_on_replay", name="send behind a wait")
    def send(to: str) -> str:
        sent.append(to)
        return to

    return send


def status(host: Host) -> RunStatus:
    return host.data.runs["r"].status


@every_wait
def test_a_new_effect_behind_a_swallowed_wait_is_refused_with_the_same_exception(
    host: Host, sent: list[str], send: Callable[[str], str], wait: Callable[[], object]
) -> None:
    with host.process() as ledger:
        with stopped() as outer, ledger.run("r"), nt.step("s"):
            send("before")
            with stopped() as first:
                wait()
            assert send("before") == "before"
            with stopped() as second:
                send("behind")
            assert second.value is first.value
    assert sent == ["before"]
    assert outer.value is first.value
    assert status(host) is RunStatus.WAITING


@every_wait
def test_a_run_whose_code_swallows_a_wait_still_waits(
    host: Host, wait: Callable[[], object]
) -> None:
    with host.process() as ledger:
        with stopped(), ledger.run("r"), nt.step("s"):
            with stopped():
                wait()
        assert ledger.store.steps("r")[0].status is StepStatus.IN_PROGRESS
    run = host.data.runs["r"]
    assert (run.status, len(run.waits), run.failure) == (RunStatus.WAITING, 1, None)


@every_wait
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_step_that_is_left_by_a_wait_stays_in_progress(
    host: Host, wait: Callable[[], object], is_async: bool
) -> None:
    async def work(ledger: nt.Ledger) -> None:
        async with ledger.run("r"), nt.step("s"):
            wait()

    with host.process() as ledger:
        if is_async:
            with stopped():
                asyncio.run(work(ledger))
        else:
            with stopped(), ledger.run("r"), nt.step("s"):
                wait()
        (step,) = ledger.store.steps("r")
    assert (step.status, step.failure) == (StepStatus.IN_PROGRESS, None)


def test_a_later_step_is_behind_the_wait_too(
    host: Host, sent: list[str], send: Callable[[str], str]
) -> None:
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.RunWaits), nt.step("a"):
            nt.sleep("1h")
        with pytest.raises(nt.RunWaits), nt.step("b"):
            send("behind")
    assert sent == []
    assert status(host) is RunStatus.WAITING


def test_other_branches_continue_and_all_their_waits_are_on_record(
    host: Host, sent: list[str], send: Callable[[str], str]
) -> None:
    def branch(index: int) -> str:
        if index % 2:
            return send(f"branch {index}")
        nt.ask(f"Branch {index}?")
        return send(f"answered {index}")

    with host.process() as ledger:
        with pytest.raises(nt.errors.QuestionOpen), ledger.run("r"):
            nt.map(branch, range(20))
    assert sorted(sent) == sorted(f"branch {index}" for index in range(1, 20, 2))
    run = host.data.runs["r"]
    assert run.status is RunStatus.WAITING
    assert len(run.waits) == 10
    assert {wait.kind for wait in run.waits} == {WaitKind.REVIEW}
    assert {wait.subject for wait in run.waits} == {one.review_id for one in host.open_reviews}


def test_behind_a_branch_that_waits_the_outer_step_does_nothing_new(
    host: Host, sent: list[str], send: Callable[[str], str]
) -> None:
    with host.process() as ledger:
        with pytest.raises(nt.RunWaits), ledger.run("r"), nt.step("outer"):
            with pytest.raises(nt.RunWaits):
                nt.map(lambda index: nt.sleep("1h"), [1])
            send("behind")
    assert sent == []


def test_a_failure_of_one_branch_is_told_before_the_wait_of_another(host: Host) -> None:
    def branch(index: int) -> None:
        if index:
            raise ValueError("broken")
        nt.sleep("1h")

    with host.process() as ledger:
        with pytest.raises(ValueError, match="broken"), ledger.run("r"):
            nt.map(branch, range(2))
    assert status(host) is RunStatus.FAILED


def test_a_wait_that_is_over_in_the_same_process_stops_nothing(
    host: Host, sent: list[str], send: Callable[[str], str]
) -> None:
    with host.process() as ledger, ledger.run("r"), nt.step("s"):
        with pytest.raises(nt.RunWaits):
            nt.sleep("1h", label="pause")
        host.clock.advance(3600)
        nt.sleep("1h", label="pause")
        send("after")
    assert sent == ["after"]
    assert status(host) is RunStatus.COMPLETED


def test_a_question_that_the_code_no_longer_asks_is_closed_when_its_step_finishes(
    host: Host,
) -> None:
    with host.process() as ledger:
        with pytest.raises(nt.errors.QuestionOpen), ledger.run("r"), nt.step("s"):
            nt.ask("Old?")
    with host.process() as ledger, ledger.run("r"), nt.step("s"):
        pass
    (review,) = MemoryStore(host.data).reviews("r")
    assert review.status is ReviewStatus.CLOSED
    assert review.closed_by == "step 's', which did not ask"
    assert status(host) is RunStatus.COMPLETED


def test_a_question_of_another_visit_stays_open_when_a_step_finishes(host: Host) -> None:
    def work(ledger: nt.Ledger, *, asks: bool) -> None:
        with ledger.run("r"):
            if asks:
                with nt.step("s", at=1):
                    nt.ask("First?")
            with nt.step("s", at=2):
                pass

    with host.process() as ledger, pytest.raises(nt.errors.QuestionOpen):
        work(ledger, asks=True)
    with host.process() as ledger:
        work(ledger, asks=False)
    assert [review.status for review in host.open_reviews] == [ReviewStatus.OPEN]
    assert status(host) is RunStatus.WAITING


def test_outside_of_steps_an_open_question_keeps_the_run_waiting(host: Host) -> None:
    """A host that resumes midway asks only for what is new, and must not lose the question."""
    with host.process() as ledger, pytest.raises(nt.errors.QuestionOpen), ledger.run("r"):
        nt.ask("Turn one?")
    with host.process() as ledger, ledger.run("r"):
        pass
    (review,) = host.open_reviews
    assert [wait.subject for wait in host.data.runs["r"].waits] == [review.review_id]
    assert status(host) is RunStatus.WAITING
    host.decide(Verb.ANSWER, result="yes")
    with host.process() as ledger, ledger.run("r"):
        assert nt.ask("Turn one?") == "yes"
    assert status(host) is RunStatus.COMPLETED


def test_a_decision_that_comes_while_its_step_finishes_is_kept_with_the_closed_review(
    host: Host,
) -> None:
    with host.process() as ledger:
        with pytest.raises(nt.errors.QuestionOpen), ledger.run("r"), nt.step("s"):
            nt.ask("Old?")
    with host.process() as ledger:
        read = ledger.store.load_review

        def decided_meanwhile(review_id: str) -> object:
            found = read(review_id)
            if found is not None and found.status is ReviewStatus.OPEN:
                host.decide(Verb.ANSWER, result="late")
            return found

        ledger.store.load_review = decided_meanwhile  # type: ignore[method-assign,assignment]
        with ledger.run("r"), nt.step("s"):
            pass
    (review,) = MemoryStore(host.data).reviews("r")
    assert review.status is ReviewStatus.CLOSED
    assert review.decision is not None
    assert review.decision.by == "ann"


def test_code_that_asks_again_for_a_timer_in_the_same_process_means_the_same_one(
    host: Host,
) -> None:
    """A host that polls: it has no label, and counts nothing while it waits."""
    with host.process() as ledger, ledger.run("r"), nt.step("s"):
        for number in range(2):
            for _ in range(3):
                with pytest.raises(nt.RunWaits):
                    nt.sleep("1h")
            host.clock.advance(3600)
            nt.sleep("1h")
            for _ in range(3):
                with pytest.raises(nt.RunWaits):
                    nt.receive("paid")
            ledger.send("r", "paid", number)
            assert nt.receive("paid") == number
    assert len(host.calls) == 4


def test_a_branch_that_asks_does_not_read_what_all_the_others_ask(host: Host) -> None:
    """Otherwise a thousand branches would read a million reviews."""

    def reads(branches: int) -> int:
        counted: list[str] = []
        with host.process() as ledger:
            store = ledger.store
            for name in ("open_reviews", "reviews"):
                whole = getattr(store, name)

                def counting(*args: Any, whole: Any = whole, name: str = name) -> Any:
                    counted.append(name)
                    return whole(*args)

                setattr(store, name, counting)
            with pytest.raises(nt.errors.QuestionOpen), ledger.run(f"run of {branches}"):
                nt.map(lambda index: nt.ask(f"{index}?"), range(branches))
        return len(counted)

    assert reads(4) == reads(40)
    assert reads(4) == reads(40), "the second time the questions are open already"


@pytest.mark.parametrize(
    ("waits_at", "works_at", "is_behind"),
    [
        ("/", "/", True),
        ("/", "fan[1]", True),
        ("fan[1]", "/", True),
        ("fan[1]", "fan", True),
        ("fan[1]", "fan[1]", True),
        ("fan[1]", "fan[1]/inner", True),
        ("fan[1]/inner", "fan[1]", True),
        ("fan[1]", "fan[2]", False),
        ("fan[1]", "fan[11]", False),
        ("fan[1]/a[0]", "fan[1]/a[1]", False),
        ("fan[1]/a[0]", "fan[1]", True),
        ("fan[1]/a[0]", "fan[2]/a[0]", False),
        ("fan[1]", "fan[1]/a[0]", True),
        ("a", "b", True),
    ],
)
def test_only_other_branches_are_not_behind_a_wait(
    host: Host, waits_at: str, works_at: str, is_behind: bool
) -> None:
    with host.process() as ledger, ledger.run("r"):
        root = current_scope.get()
        assert root is not None
        session = root.session
        identity = CallIdentity("r", waits_at, "start", "nottwice.sleep", "00")
        error = nt.RunWaits("it waits")
        session.stops.note(identity, error, Wait(WaitKind.TIMER, "t", waits_at, 1.0))
        session.stops.raise_if_stopped(works_at, but=identity)
        if is_behind:
            with pytest.raises(nt.RunWaits) as caught:
                session.stops.raise_if_stopped(works_at)
            assert caught.value is error
        else:
            session.stops.raise_if_stopped(works_at)
        session.stops.lift(identity)
        session.stops.raise_if_stopped(works_at)
