"""What code read from a clock or a die is the same after a resume, wherever it was cut off (L7)."""

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
            with pytest.raises(nt.UsageError, match="label='a name'"):
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
    with pytest.raises(nt.NotInRun):
        value()


def test_the_names_that_nottwice_gives_are_its_own() -> None:
    with pytest.raises(nt.InvalidTool, match="nottwice's own"):

        @nt.tool("pure", name="nottwice.now")
        def now() -> None: ...
