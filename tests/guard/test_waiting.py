"""Waiting as user code writes it: in sync and async code, with types, refused where it harms."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable
from datetime import date
from functools import partial
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import nottwice as nt
from nottwice.model.asking.asked import Question, shown_in
from nottwice.model.review import Verb
from tests.fakes import Host


class Parcel(BaseModel):
    weight: int
    due: date


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@pytest.fixture
def host() -> Host:
    return Host()


def attempt(host: Host, work: Callable[[], Any]) -> Any:
    with host.process() as ledger:
        try:
            with ledger.run("r"), nt.step("s"):
                return work()
        except nt.NottwiceError as error:
            return error


@pytest.mark.parametrize(
    ("returns", "given", "value"),
    [
        (str, "yes", "yes"),
        (int, 7, 7),
        (bool, True, True),
        (float, 1, 1.0),
        (list[str], ["a"], ["a"]),
        (Literal["a", "b"], "b", "b"),
        (Colour, "red", Colour.RED),
        (date, "2026-11-15", date(2026, 11, 15)),
        (Parcel, {"weight": 3, "due": "2026-11-15"}, Parcel(weight=3, due=date(2026, 11, 15))),
        (str | None, None, None),
        (Any, {"any": ["thing"]}, {"any": ["thing"]}),
    ],
)
def test_an_answer_has_the_declared_type_now_and_after_a_resume(
    host: Host, returns: Any, given: Any, value: Any
) -> None:
    def work() -> Any:
        return nt.ask("What?", returns=returns)

    assert isinstance(attempt(host, work), nt.errors.QuestionOpen)
    host.decide(Verb.ANSWER, result=given)
    for _ in range(2):
        answer = attempt(host, work)
        assert answer == value
        assert type(answer) is type(value)


def test_an_option_is_read_by_the_declared_type(host: Host) -> None:
    def work() -> Any:
        return nt.ask("Which?", options=["red", "blue"], returns=Colour)

    attempt(host, work)
    host.decide(Verb.ANSWER, result="blue")
    assert attempt(host, work) is Colour.BLUE


def test_a_person_is_shown_what_the_code_gave(host: Host) -> None:
    parcel = Parcel(weight=3, due=date(2026, 11, 15))
    attempt(host, lambda: nt.ask("Ship?", options=["yes", "no"], about=parcel, returns=str))
    shown = shown_in(host.open_reviews[0])
    assert shown == Question("Ship?", ("yes", "no"), {"weight": 3, "due": "2026-11-15"}, "str")


def test_the_schema_of_an_answer_is_shown_where_the_name_says_too_little(host: Host) -> None:
    attempt(host, lambda: nt.ask("Which?", returns=Parcel))
    shown = shown_in(host.open_reviews[0])
    assert isinstance(shown, Question)
    assert shown.answer_type == "Parcel"
    assert shown.schema["properties"]["weight"] == {"title": "Weight", "type": "integer"}


@pytest.mark.parametrize("returns", [bytes, set[int], list[bytes], frozenset[str] | None])
def test_no_person_is_asked_for_an_answer_that_can_never_be_kept(host: Host, returns: Any) -> None:
    refused = attempt(host, lambda: nt.ask("What?", returns=returns))
    assert isinstance(refused, nt.errors.UsageError)
    assert "can never be kept" in refused.message
    assert "No person was asked. Ask for plain data" in refused.message
    assert host.open_reviews == []


@pytest.mark.parametrize("returns", [int, Colour, Literal["red"], Parcel])
def test_no_person_is_offered_an_option_that_is_no_answer(host: Host, returns: Any) -> None:
    refused = attempt(host, lambda: nt.ask("Which?", options=["red", "yes"], returns=returns))
    assert isinstance(refused, nt.errors.UsageError)
    assert "cannot be an answer of type" in refused.message
    assert host.open_reviews == []


def test_an_option_may_be_the_text_of_its_value(host: Host) -> None:
    def work() -> Any:
        return nt.ask("Ship?", options=["yes", "no"], returns=bool)

    assert isinstance(attempt(host, work), nt.errors.QuestionOpen)
    (review,) = host.open_reviews
    with host.process() as ledger, nt.Reviews(ledger) as reviews:
        reviews.decide(review.review_id, "yes", by="ann")
    assert attempt(host, work) is True


@pytest.mark.parametrize(
    "work",
    [
        lambda: nt.ask(""),
        lambda: nt.ask("  "),
        lambda: nt.ask(7),  # type: ignore[arg-type]
        lambda: nt.ask("Half a character: \ud800"),
        lambda: nt.ask("Go?", options=[]),
        lambda: nt.ask("Go?", options=["abort"]),
        lambda: nt.ask("Go?", about=object()),
        lambda: nt.ask("Go?", about={"f": lambda: 1}),
        lambda: nt.ask("Go?", label=""),
        lambda: nt.sleep(1),  # type: ignore[arg-type]
        lambda: nt.sleep("soon"),
        lambda: nt.sleep("1h", label="\n"),
        lambda: nt.receive(""),
        lambda: nt.receive("paid", within="0s"),
    ],
)
def test_a_bad_wish_is_refused_before_anything_happens(host: Host, work: Callable[[], Any]) -> None:
    refused = attempt(host, work)
    assert isinstance(refused, nt.errors.UsageError)
    assert host.open_reviews == []
    assert host.calls == []


@pytest.mark.parametrize(
    "work", [lambda: nt.ask("Go?"), lambda: nt.sleep("1s"), lambda: nt.receive("paid")]
)
def test_outside_of_a_run_nothing_waits(work: Callable[[], Any]) -> None:
    with pytest.raises(nt.errors.NotInRun):
        work()


def test_outside_of_steps_timers_and_events_need_a_label(host: Host) -> None:
    with host.process() as ledger, ledger.run("r"):
        for work in (lambda: nt.sleep("1s"), lambda: nt.receive("paid")):
            with pytest.raises(nt.errors.UsageError, match="label='a name'"):
                work()
    assert host.calls == []
    with host.process() as ledger:
        ledger.send("r", "paid", 1)
        host.clock.advance(1)
        ledger.send("r", "paid", 2)
        with ledger.run("r"):
            assert nt.receive("paid", label="a") == nt.receive("paid", label="a") == 1
            assert nt.receive("paid", label="b") == 2


def test_an_effect_cannot_wait_in_its_middle(host: Host) -> None:
    works: list[Callable[[], Any]] = [
        lambda: nt.ask("Go?"),
        lambda: nt.sleep("1s", label="x"),
        lambda: nt.receive("paid"),
    ]

    @nt.tool("unsafe_on_replay", name="wait in an effect", classify=lambda error: nt.Permanent)
    def act(number: int) -> None:
        works[number]()

    for number in range(3):
        refused = attempt(host, partial(act, number))
        assert isinstance(refused, nt.Permanent)
        assert "declare approve=True" in str(refused)
    assert host.open_reviews == []


async def waiting_block(host: Host) -> Any:
    with host.process() as ledger:
        async with ledger.run("r"), nt.step("s"):
            answer = nt.ask("Go?")
            nt.sleep("1h")
            return [answer, nt.receive("paid")]


def test_waiting_works_in_async_code(host: Host) -> None:
    with pytest.raises(nt.errors.QuestionOpen):
        asyncio.run(waiting_block(host))
    host.decide(Verb.ANSWER, result="yes")
    with pytest.raises(nt.RunWaits):
        asyncio.run(waiting_block(host))
    host.clock.advance(3600)
    with pytest.raises(nt.RunWaits):
        asyncio.run(waiting_block(host))
    with host.process() as ledger:
        ledger.send("r", "paid", 7)
    assert asyncio.run(waiting_block(host)) == ["yes", 7]


def test_an_async_tool_that_needs_approval_waits_like_any_other(host: Host) -> None:
    sent: list[int] = []

    @nt.tool("unsafe_on_replay", approve=True, name="send after approval, async")
    async def send(number: int) -> int:
        sent.append(number)
        return number

    async def work() -> list[int]:
        with host.process() as ledger:
            async with ledger.run("r"):
                return await nt.gather(*[send(number) for number in range(3)])

    with pytest.raises(nt.errors.ApprovalNeeded):
        asyncio.run(work())
    assert (sent, len(host.open_reviews)) == ([], 3)
    with host.process() as ledger:
        inbox = nt.Reviews(ledger)
        for case in inbox.open():
            inbox.decide(case.review.review_id, "approve", by="ann")
    assert asyncio.run(work()) == [0, 1, 2]
    assert sorted(sent) == [0, 1, 2]
