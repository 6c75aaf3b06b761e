"""Recorded times and random values are the same after a resume, wherever it stopped (L7)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import nottwice as nt
from tests.fakes import Host

KINDS: dict[str, Callable[..., Any]] = {"now": nt.now, "uuid": nt.uuid, "random": nt.random}
every_kind = pytest.mark.parametrize("value", KINDS.values(), ids=KINDS.keys())


@pytest.fixture
def host() -> Host:
    return Host()


def in_step(host: Host, work: Callable[[], Any], **process: Any) -> Any:
    with host.process(**process) as ledger, ledger.run("r"), nt.step("s"):
        return work()


def test_values_have_the_types_that_they_are_used_as(host: Host) -> None:
    for _ in range(2):
        now, name, number = in_step(host, lambda: (nt.now(), nt.uuid(), nt.random()))
        assert now == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
        assert now.utcoffset() == timedelta(0)
        assert isinstance(name, uuid.UUID)
        assert type(number) is float
        assert 0 <= number <= 1
        host.clock.advance(3600)


@every_kind
def test_the_nth_value_of_a_step_is_the_nth_value_again(
    host: Host, value: Callable[..., Any]
) -> None:
    def work() -> list[Any]:
        found = []
        for _ in range(3):
            found.append(value())
            host.clock.advance(1)
        return found

    first = in_step(host, work)
    assert in_step(host, work) == first
    if value is not nt.random:
        assert len(set(first)) == 3


@every_kind
def test_a_step_that_is_entered_again_in_one_process_sees_its_values_again(
    host: Host, value: Callable[..., Any]
) -> None:
    with host.process() as ledger, ledger.run("r"):
        found = []
        for visit in (1, 1, 2):
            with nt.step("s", at=visit):
                host.clock.advance(1)
                found.append(value())
    assert found[0] == found[1]
    if value is not nt.random:
        assert found[1] != found[2]


def test_branches_count_for_themselves(host: Host) -> None:
    def work() -> list[list[uuid.UUID]]:
        return nt.map(lambda _: [nt.uuid(), nt.uuid()], range(8))

    first = in_step(host, work)
    assert len({each for pair in first for each in pair}) == 16
    assert in_step(host, work) == first


def test_what_a_tool_reads_does_not_shift_what_comes_after_it(host: Host) -> None:
    """A replayed tool does not run its body, so the body's values are not counted either."""

    @nt.tool("unsafe_on_replay", name="stamp a letter")
    def stamp() -> str:
        return str(nt.uuid())

    def work() -> list[str]:
        return [str(nt.uuid()), stamp(), str(nt.uuid())]

    first = in_step(host, work)
    assert len(set(first)) == 3
    assert in_step(host, work) == first


def test_every_attempt_of_a_tool_sees_the_same_values(host: Host) -> None:
    seen: list[list[uuid.UUID]] = []

    @nt.tool("unsafe_on_replay", name="stamp until it sticks")
    def stamp() -> None:
        seen.append([nt.uuid(), nt.uuid()])
        if len(seen) < 3:
            raise nt.Retryable("dry ink")

    with host.process() as ledger, ledger.run("r"):
        stamp()
    assert len(seen) == 3
    assert seen[0] == seen[1] == seen[2]
    assert len(set(seen[0])) == 2


@every_kind
def test_outside_of_steps_a_label_says_which_one_is_meant(
    host: Host, value: Callable[..., Any]
) -> None:
    found = []
    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            with pytest.raises(nt.errors.UsageError, match="label='a name'"):
                value()
            host.clock.advance(1)
            found.append((value(label="a"), value(label="b")))
    assert found[0] == found[1]


@every_kind
def test_a_label_is_not_counted(host: Host, value: Callable[..., Any]) -> None:
    first = in_step(host, lambda: [value(label="x"), value()])
    assert in_step(host, lambda: [value(), value(label="x")]) == first[::-1]


def test_a_value_is_durable_before_the_effect_that_uses_it(host: Host) -> None:
    seen: list[str] = []

    @nt.tool("idempotent_with_key", key="k-{number}", window="24h", name="act on a value")
    def act(number: str) -> None:
        seen.append(number)

    def work() -> None:
        act(str(nt.uuid()))

    for point in range(1, 12):
        if host.calls and not any(row.status.in_doubt for row in host.calls):
            break
        with host.process(dies_at=point) as ledger, ledger.run("r"), nt.step("s"):
            work()
    in_step(host, work)
    assert len(set(seen)) == 1


def test_values_work_in_async_code(host: Host) -> None:
    async def work() -> list[Any]:
        with host.process() as ledger:
            async with ledger.run("r"), nt.step("s"):
                return [nt.now(), nt.uuid(), nt.random()]

    assert asyncio.run(work()) == asyncio.run(work())


@every_kind
def test_outside_of_a_run_there_is_nothing_to_record_in(value: Callable[..., Any]) -> None:
    with pytest.raises(nt.errors.NotInRun):
        value()


def test_the_names_that_nottwice_gives_are_its_own() -> None:
    with pytest.raises(nt.errors.InvalidTool, match="reserved for nottwice"):

        @nt.tool("pure", name="nottwice.now")
        def now() -> None: ...


class Model:
    """Counts what it is asked, where no resume can reach."""

    def __init__(self) -> None:
        self.asked = 0

    def ask(self) -> dict[str, int]:
        self.asked += 1
        return {"reply": self.asked}

    async def ask_async(self) -> dict[str, int]:
        await asyncio.sleep(0)
        return self.ask()


def test_an_answer_is_durable_before_it_is_returned_and_replayed_afterwards(host: Host) -> None:
    model = Model()
    for _ in range(2):
        with host.process() as ledger, ledger.run("r"), nt.step("turn"):
            assert nt.recorded("reply", model.ask) == {"reply": 1}
            assert [row.status.value for row in host.calls] == ["DONE"]
    assert model.asked == 1


def test_an_answer_that_is_awaited_is_durable_before_it_is_returned_and_replayed_afterwards(
    host: Host,
) -> None:
    model = Model()

    async def work() -> None:
        with host.process() as ledger:
            async with ledger.run("r"), nt.step("turn"):
                assert await nt.recorded("reply", model.ask_async) == {"reply": 1}
                assert [row.status.value for row in host.calls] == ["DONE"]

    for _ in range(2):
        asyncio.run(work())
    assert model.asked == 1


@pytest.mark.parametrize("checkpoints", ["effects", "every_step", "on_exit", 5, "1h"])
def test_an_answer_does_not_wait_whatever_the_checkpoints(host: Host, checkpoints: Any) -> None:
    with host.process() as ledger, ledger.run("r", checkpoints=checkpoints):
        nt.recorded("reply", Model().ask)
        assert len(host.calls) == 1


def test_one_label_is_one_answer_in_each_step_branch_and_tool_call(host: Host) -> None:
    model = Model()

    def reply() -> Any:
        return nt.recorded("reply", model.ask)["reply"]

    @nt.tool("pure")
    def summarise(text: str) -> Any:
        return reply()

    def work() -> list[Any]:
        found = [reply(), reply()]
        for turn in range(2):
            with nt.step("turn", at=turn):
                found += [reply(), *nt.map(lambda _: reply(), range(2), threads=1)]
                found += [summarise("one"), summarise("two"), reply()]
        return found

    with host.process() as ledger, ledger.run("r"):
        first = work()
    assert first == [1, 1, 2, 3, 4, 5, 6, 2, 7, 8, 9, 10, 11, 7]
    with host.process() as ledger, ledger.run("r"):
        assert work() == first
    assert model.asked == 11


def test_what_asking_raises_is_raised_as_it_is_and_the_next_one_asks_again(host: Host) -> None:
    outcomes: list[Any] = [ConnectionError("down"), ConnectionError("still down"), "up"]

    def ask() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return str(outcome)

    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(ConnectionError, match=r"^down$"):
            nt.recorded("reply", ask)
        with pytest.raises(ConnectionError, match=r"^still down$"):
            nt.recorded("reply", ask)
        assert host.calls == []
    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            assert nt.recorded("reply", ask) == "up"
    assert outcomes == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (object(), "The answer to nt.recorded.'reply'.* Nothing was recorded. If it has a type"),
        ({1, 2}, "Nothing was recorded"),
        ("x" * (16 * 1024 * 1024), "characters in the answer to nt.recorded.*Nothing was recorded"),
    ],
    ids=["object", "set", "too long"],
)
def test_an_answer_that_cannot_be_kept_is_refused_and_not_handed_out(
    host: Host, answer: Any, why: str
) -> None:
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.UsageError, match=why):
            nt.recorded("reply", lambda: answer)
        assert nt.recorded("reply", lambda: "plain") == "plain"
    assert len(host.calls) == 1


def test_an_answer_comes_back_as_the_type_that_asking_or_returns_names(host: Host) -> None:
    def today() -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    for _ in range(2):
        with host.process() as ledger, ledger.run("r"):
            assert nt.recorded("annotated", today) == today()
            assert nt.recorded("named", lambda: today(), returns=datetime) == today()


def test_an_answer_of_a_type_that_later_code_does_not_name_is_not_asked_for_again(
    host: Host,
) -> None:
    with host.process() as ledger, ledger.run("r"):
        nt.recorded("reply", lambda: (1, 2), returns=tuple[int, int])
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.ResultNotKept, match="Restore the type"):
            nt.recorded("reply", Model().ask, returns=datetime)


def test_outside_of_a_run_nothing_is_asked() -> None:
    model = Model()
    with pytest.raises(
        nt.errors.NotInRun, match=r"nt\.recorded\('reply', \.\.\.\) was used outside"
    ):
        nt.recorded("reply", model.ask)
    with pytest.raises(nt.errors.NotInRun):
        asyncio.run(nt.recorded("reply", model.ask_async))
    assert model.asked == 0


def test_what_cannot_be_asked_is_answered_with_how_to_write_it(host: Host) -> None:
    model = Model()
    with host.process() as ledger, ledger.run("r"):
        with pytest.raises(nt.errors.UsageError, match="needs a function to call"):
            nt.recorded("reply", model.ask_async())  # type: ignore[call-overload]
        with pytest.raises(nt.errors.UsageError, match="returned a coroutine, which was not run"):
            _ = nt.recorded("reply", lambda: model.ask_async())
        with pytest.raises(nt.errors.InvalidId):
            nt.recorded("", model.ask)
    assert model.asked == 0
    assert host.calls == []


def test_an_answer_whose_waiter_was_cancelled_is_kept(host: Host) -> None:
    model = Model()
    begun = asyncio.Event()

    async def slowly() -> dict[str, int]:
        begun.set()
        await asyncio.sleep(0.01)
        return model.ask()

    async def work() -> None:
        with host.process() as ledger:
            async with ledger.run("r"):
                waiter = asyncio.ensure_future(nt.recorded("reply", slowly))
                await begun.wait()
                waiter.cancel()
                await asyncio.wait([waiter])
            async with ledger.run("r"):
                assert await nt.recorded("reply", slowly) == {"reply": 1}

    asyncio.run(work())
    assert model.asked == 1


def test_one_label_has_an_answer_for_each_number_of_replies() -> None:
    ledger, asked = nt.Ledger(":memory:"), []
    for _ in range(2):
        with ledger.run("r"):
            for replies in (None, 0, 1):
                nt.recorded("model", lambda n=replies: asked.append(n), replies=replies)
    assert asked == [None, 0, 1]
    with ledger.run("r"), pytest.raises(nt.errors.UsageError, match="replies=-1"):
        nt.recorded("model", lambda: asked.append(-1), replies=-1)
