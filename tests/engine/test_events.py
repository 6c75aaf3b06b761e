"""Are listeners told what happened, and does one that fails harm nothing? (P210)"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine import events
from nottwice.model.review import Verb
from nottwice.store.interface import Commit
from tests.fakes import Host


@pytest.fixture
def told() -> Iterator[list[events.Event]]:
    heard: list[events.Event] = []
    stop = nt.events.listen(heard.append)
    yield heard
    stop()


def of_kind(told: list[events.Event], kind: type[Any]) -> list[Any]:
    return [event for event in told if type(event) is kind]


def failing_twice() -> Any:
    errors = [nt.Retryable("busy"), nt.Retryable("busy still"), None]

    @nt.tool("unsafe_on_replay", retry=nt.RetryPolicy(3))
    def events_send(to: str) -> str:
        error = errors.pop(0)
        if error is not None:
            raise error
        return f"sent to {to}"

    return events_send


def test_every_attempt_tells_its_error_and_when_the_next_one_follows(
    host: Host, told: list[events.Event]
) -> None:
    send = failing_twice()
    with host.process() as ledger, ledger.run("r"), nt.step("mail"):
        send("ann")
    attempts = of_kind(told, events.AttemptEnded)
    assert [(one.attempt, one.outcome, one.error) for one in attempts] == [
        (1, "failed", "nottwice.errors.Retryable: busy"),
        (2, "failed", "nottwice.errors.Retryable: busy still"),
        (3, "done", None),
    ]
    assert all(one.retry_in > 0 for one in attempts[:2])
    assert attempts[2].retry_in is None
    (call,) = of_kind(told, events.CallEnded)
    assert (call.tool, call.step, call.attempts, call.outcome) == ("events_send", "mail", 3, "done")
    assert call.seconds >= sum(one.retry_in for one in attempts[:2])
    assert not call.replayed


def test_a_receipt_that_is_handed_out_is_told_as_replayed(
    host: Host, told: list[events.Event]
) -> None:
    send = failing_twice()
    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            send("ann")
    assert [one.replayed for one in of_kind(told, events.CallEnded)] == [False, True]
    assert len(of_kind(told, events.AttemptEnded)) == 3


def test_a_doubt_names_its_review_and_the_decision(host: Host, told: list[events.Event]) -> None:
    @nt.tool("unsafe_on_replay")
    def events_lose(to: str) -> str:
        raise OSError("the connection broke")

    with host.process() as ledger, pytest.raises(nt.errors.ReplayUnsafeError), ledger.run("r"):
        events_lose("ann")
    (opened,) = of_kind(told, events.ReviewOpened)
    assert (opened.run_id, opened.kind) == ("r", "in doubt")
    assert "may or may not have happened" in opened.summary
    assert of_kind(told, events.CallEnded)[0].outcome == "in doubt"
    host.decide(Verb.HAPPENED, result="sent")
    (decided,) = of_kind(told, events.ReviewDecided)
    assert (decided.review_id, decided.decision, decided.by) == (
        opened.review_id,
        "happened",
        "ann",
    )


def test_a_run_tells_who_claims_it_and_how_it_is_left(host: Host, told: list[events.Event]) -> None:
    with host.process() as ledger:
        with pytest.raises(nt.RunWaits), ledger.run("r"), nt.step("s"):
            nt.receive("paid")
        ledger.send("r", "paid", 7)
        with ledger.run("r"), nt.step("s"):
            assert nt.receive("paid") == 7
    assert [one.epoch for one in of_kind(told, events.RunClaimed)] == [1, 2]
    left = of_kind(told, events.RunLeft)
    assert [(one.status, one.waits_for) for one in left] == [
        ("waiting", ("event paid",)),
        ("completed", ()),
    ]


def test_a_step_tells_how_it_ended(host: Host, told: list[events.Event]) -> None:
    with host.process() as ledger:
        with pytest.raises(KeyError), ledger.run("r"), nt.step("s"):
            raise KeyError("x")
        with ledger.run("r"), nt.step("s"):
            pass
    ended = of_kind(told, events.StepEnded)
    assert [(one.step, one.outcome) for one in ended] == [("s", "failed"), ("s", "done")]
    assert ended[0].error == "KeyError: 'x'"


def test_an_async_run_tells_the_same(tmp_path: Path, told: list[events.Event]) -> None:
    @nt.tool("unsafe_on_replay")
    async def events_send_later(to: str) -> str:
        return "sent"

    async def main() -> None:
        async with nt.run("r", store=tmp_path / "a.db"):
            await events_send_later("ann")

    asyncio.run(main())
    kinds = [type(event) for event in told if type(event).__module__ == events.__name__]
    assert kinds == [
        events.RunOpening,
        events.CommitEnded,
        events.RunClaimed,
        events.RunBegan,
        events.CommitEnded,
        events.AttemptBegan,
        events.AttemptReturned,
        events.CommitEnded,
        events.AttemptEnded,
        events.CallEnded,
        events.RunReturned,
        events.CommitEnded,
        events.RunLeft,
        events.RunOver,
    ]


def test_a_ledger_tells_only_of_itself(tmp_path: Path) -> None:
    heard: list[events.Event] = []
    ours = nt.Ledger(tmp_path / "ours.db")
    stop = ours.on(heard.append)
    for name in ("ours", "theirs"):
        with nt.run(name, store=tmp_path / f"{name}.db"):
            pass
    stop()
    with ours.run("later"):
        pass
    assert {event.run_id for event in heard} == {"ours"}


@pytest.mark.parametrize("error", [OSError("no reader"), asyncio.CancelledError()], ids=repr)
def test_a_listener_that_fails_harms_neither_the_run_nor_other_listeners(
    host: Host, told: list[events.Event], caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    def fail(event: events.Event) -> None:
        raise error

    stop = nt.events.listen(fail)
    heard: list[events.Event] = []
    stop_last = nt.events.listen(heard.append)
    try:
        with host.process() as ledger, ledger.run("r"):
            assert failing_twice()("ann") == "sent to ann"
    finally:
        stop()
        stop_last()
    assert heard == told
    assert "a listener failed with RunClaimed" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_what_a_signal_raises_in_a_listener_ends_the_block_and_the_run_can_be_resumed(
    host: Host, error: BaseException
) -> None:
    made: list[str] = []

    @nt.tool("unsafe_on_replay")
    def events_post(to: str) -> str:
        made.append(to)
        return "posted"

    def interrupted(event: events.Event) -> None:
        raise error

    with host.process() as ledger:
        stop = ledger.on(interrupted, kinds=[events.AttemptEnded])
        with pytest.raises(type(error)), ledger.run("r"):
            events_post("ann")
        stop()
        with ledger.run("r"):
            assert events_post("ann") == "posted"
    assert made == ["ann"]


def test_a_commit_of_what_was_pending_is_told_too(host: Host, told: list[events.Event]) -> None:
    @nt.tool("pure")
    def events_read(x: int) -> int:
        return x

    with host.process() as ledger, ledger.run("r"):
        events_read(1)
        before = len(of_kind(told, events.CommitEnded))
        host.clock.make_due()
        assert len(of_kind(told, events.CommitEnded)) == before + 1


def test_decisions_are_told_to_those_who_want_them(host: Host) -> None:
    @nt.tool("pure")
    def events_find(x: int) -> int:
        return x

    heard: list[events.Event] = []
    others: list[events.Event] = []
    with host.process() as ledger:
        stop = ledger.on(heard.append, kinds=[nt.events.Said])
        stop_others = ledger.on(others.append, kinds=[nt.events.RunOver])
        with ledger.run("r"):
            events_find(1)
        stop()
        stop_others()
    assert [(one.tool, one.decision) for one in heard if isinstance(one, nt.events.Said)] == [
        ("events_find", "run"),
        (None, "leave the run completed"),
    ]
    assert [type(one) for one in others] == [events.RunOver]


def test_the_time_of_an_attempt_is_the_time_of_its_tool(
    host: Host, told: list[events.Event]
) -> None:
    @nt.tool("unsafe_on_replay")
    def events_work(x: int) -> int:
        host.clock.advance(2)
        return x

    with host.process() as ledger, ledger.run("r"):
        usual = ledger.store.commit

        def slowly(commit: Commit) -> None:
            host.clock.advance(5)
            usual(commit)

        ledger.store.commit = slowly  # type: ignore[method-assign]
        events_work(1)
        ledger.store.commit = usual  # type: ignore[method-assign]
    assert [one.seconds for one in of_kind(told, events.AttemptEnded)] == [2.0]


def test_an_attempt_that_outlives_its_time_limit_is_in_doubt_until_it_ends(
    tmp_path: Path, told: list[events.Event]
) -> None:
    go_on = threading.Event()

    @nt.tool("unsafe_on_replay", time_limit="50ms")
    def events_hang(to: str) -> str:
        go_on.wait(30)
        return "sent"

    with pytest.raises(nt.errors.ReplayUnsafeError), nt.run("r", store=tmp_path / "a.db"):
        try:
            events_hang("ann")
        finally:
            (call,) = of_kind(told, events.CallEnded)
            assert (call.outcome, call.attempts) == ("in doubt", 1)
            assert of_kind(told, events.AttemptEnded) == []
            go_on.set()
    assert [one.outcome for one in of_kind(told, events.AttemptEnded)] == ["done"]


def test_each_attempt_of_a_pure_tool_tells_its_own_time(
    host: Host, told: list[events.Event]
) -> None:
    errors = [nt.Retryable("busy"), None]

    @nt.tool("pure", retry=nt.RetryPolicy(2))
    def events_look(x: int) -> int:
        host.clock.advance(2)
        error = errors.pop(0)
        if error is not None:
            raise error
        return x

    with host.process() as ledger, ledger.run("r"):
        events_look(1)
    assert [one.seconds for one in of_kind(told, events.AttemptEnded)] == [2.0, 2.0]


def test_ledgers_in_memory_are_not_taken_for_one() -> None:
    heard: list[events.Event] = []
    ours, theirs = nt.Ledger(":memory:"), nt.Ledger(":memory:")
    stop = ours.on(heard.append)
    stop_again = ours.on(heard.append)
    stop_again()
    for name, ledger in (("ours", ours), ("theirs", theirs)):
        with ledger.run(name, policy=lambda call: nt.policy.allow()):
            pass
    stop()
    assert [type(event) for event in heard if type(event).__module__ == events.__name__] == [
        events.RunOpening,
        events.CommitEnded,
        events.RunClaimed,
        events.RunBegan,
        events.RunReturned,
        events.CommitEnded,
        events.RunLeft,
        events.RunOver,
    ]
    assert {event.run_id for event in heard} == {"ours"}


def test_what_cannot_listen_is_refused() -> None:
    async def later(event: events.Event) -> None: ...

    for wrong in (later, "print"):
        with pytest.raises(nt.errors.UsageError, match="is not a listener"):
            nt.events.listen(wrong)  # type: ignore[arg-type]


def test_while_nothing_listens_nothing_is_put_together(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("nothing listens")

    monkeypatch.setattr(events, "tell", refuse)
    with host.process() as ledger, ledger.run("r"), nt.step("s"):
        nt.recorded("n", lambda: 1)
