"""A handle carries its run with it, into any thread, task or generator (P241, P246)."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import nottwice as nt
from nottwice.adapters import declare
from tests.fakes import unwanted

CHARGE = declare("pay/charge", replay="unsafe_on_replay")


@pytest.fixture
def ledger() -> nt.Ledger:
    return nt.Ledger(":memory:")


def in_new_thread(function: Callable[[], Any]) -> Any:
    """What a function returns in a thread that knows nothing of this context."""
    found: list[Any] = []
    thread = threading.Thread(
        target=contextvars.Context().run, args=(lambda: found.append(function()),)
    )
    thread.start()
    thread.join()
    return found[0]


def test_a_handle_works_where_the_context_does_not_know_the_run(ledger: nt.Ledger) -> None:
    with ledger.attach("r") as handle:
        made = in_new_thread(lambda: handle.call(CHARGE, {}, lambda _: 1))
    assert made.value == 1
    assert [call.tool for call in ledger.calls("r")] == ["pay/charge"]


def test_the_enclosing_run_is_used_if_there_is_one(ledger: nt.Ledger) -> None:
    with ledger.run("r"):
        with nt.attach() as handle, ledger.attach("r") as named:
            assert handle.run_id == named.run_id == "r"
            assert handle.call(CHARGE, {}, lambda _: 1).value == 1
            assert named.call(CHARGE, {}, unwanted).replayed
        with ledger.attach("other") as other:
            assert not other.call(CHARGE, {}, lambda _: 1).replayed
    assert ledger.run_record("r").opened == 1
    with ledger.attach("r") as handle:
        assert handle.call(CHARGE, {}, unwanted).replayed


def test_the_run_of_another_ledger_does_not_enclose(ledger: nt.Ledger) -> None:
    with nt.Ledger(":memory:").run("r"), ledger.attach("r") as handle:
        handle.call(CHARGE, {}, lambda _: 1)
    assert [call.tool for call in ledger.calls("r")] == ["pay/charge"]


def test_without_a_run_the_ways_to_name_one_are_told() -> None:
    with pytest.raises(nt.errors.NotInRun, match=r"ledger.attach\('ticket-7'\).*nt.run"):
        nt.attach().__enter__()


def test_a_handle_is_used_inside_its_block_and_once(ledger: nt.Ledger) -> None:
    handle = ledger.attach("r")
    with pytest.raises(nt.errors.NotInRun, match="not attached"):
        handle.call(CHARGE, {}, unwanted)
    with handle, pytest.raises(nt.errors.UsageError, match="attached already"):
        handle.__enter__()
    with pytest.raises(nt.errors.NotInRun, match="not attached"):
        handle.look(CHARGE, {})
    handle.detach()


def test_a_policy_that_would_not_be_asked_is_refused(ledger: nt.Ledger) -> None:
    with ledger.attach("r") as handle:
        with pytest.raises(nt.errors.UsageError, match="without the policy"):
            ledger.attach("r", policy=lambda call: nt.policy.deny("no")).__enter__()
        assert handle.call(CHARGE, {}, lambda _: 1).value == 1


def test_an_async_body_of_a_read_needs_an_event_loop(ledger: nt.Ledger) -> None:
    async def body(arguments: dict[str, Any]) -> int:
        return 7

    read = declare("disk/read", replay="pure")
    with ledger.attach("r") as handle, pytest.raises(nt.errors.UsageError, match="acall"):
        handle.call(read, {}, body)

    async def main() -> None:
        async with ledger.attach("r") as handle:
            assert (await handle.acall(read, {}, body)).value == 7

    asyncio.run(main())


def test_a_handle_says_what_it_is_attached_to(ledger: nt.Ledger) -> None:
    assert repr(ledger.attach("r")) == "<Handle of 'r'>"
    with ledger.attach("r") as handle:
        assert repr(handle) == "<Handle of 'r', attached>"
        assert handle.location == ":memory:"
        assert handle.now > 0
    assert repr(nt.attach()) == "<Handle of an enclosing run>"


def test_a_reply_is_asked_for_once_by_the_number_of_replies_before_it(ledger: nt.Ledger) -> None:
    asked: list[int] = []

    def reply(number: int) -> str:
        asked.append(number)
        return f"reply {number}"

    async def reply_async() -> str:
        return reply(9)

    for _ in range(2):
        with ledger.attach("r") as handle:
            for number in range(3):
                said = handle.recorded("model", partial(reply, number), replies=number)
                assert said == f"reply {number}"
    assert asked == [0, 1, 2]

    async def main() -> None:
        async with ledger.attach("r") as handle:
            for _ in range(2):
                assert await handle.arecorded("model", reply_async, replies=9) == "reply 9"

    asyncio.run(main())
    assert asked == [0, 1, 2, 9]
    with ledger.attach("r") as handle, pytest.raises(nt.errors.UsageError, match="arecorded"):
        handle.recorded("model", reply_async, replies=10)
