"""A call that would wait for itself is an error, even through many other calls (D13)."""

from __future__ import annotations

import contextvars
import threading

import pytest

import nottwice as nt
from nottwice.engine.calls.in_flight import InFlight, check_no_circle
from nottwice.model.call import CallIdentity
from tests.fakes import Host


def flight(name: str, parent: InFlight | None = None) -> InFlight:
    return InFlight(CallIdentity("r", "/", "start", name, "0"), parent)


def test_waiting_for_a_stranger_is_fine() -> None:
    check_no_circle(flight("other"), flight("mine"))
    check_no_circle(flight("other"), None)


def test_waiting_for_oneself_or_an_ancestor_is_refused() -> None:
    grandparent = flight("a")
    child = flight("c", flight("b", grandparent))
    for target in child.chain():
        with pytest.raises(nt.errors.SelfWait, match="would wait for itself"):
            check_no_circle(target, child)


def test_a_circle_through_others_is_refused() -> None:
    mine, other = flight("mine"), flight("other")
    other.waits_for = flight("third")
    other.waits_for.waits_for = mine
    with pytest.raises(nt.errors.SelfWait):
        check_no_circle(other, mine)


def test_a_tool_that_calls_itself_with_the_same_arguments_does_not_hang(host: Host) -> None:
    @nt.tool("unsafe_on_replay")
    def recurse(depth: int) -> str:
        if depth == 0:
            raise nt.Permanent("inner")
        with pytest.raises(nt.errors.SelfWait):
            recurse(depth)
        return "ended"

    with host.process() as ledger, ledger.run("r"):
        assert recurse(1) == "ended"


def test_two_tools_that_wait_for_each_other_do_not_hang(host: Host) -> None:
    both = threading.Barrier(2, timeout=30)
    refused: list[str] = []

    def cross(mine: str, call_other: object) -> str:
        both.wait()
        try:
            return str(call_other())  # type: ignore[operator]
        except nt.errors.SelfWait:
            refused.append(mine)
            return "refused"

    @nt.tool("unsafe_on_replay")
    def left(x: int) -> str:
        return cross("left", lambda: right(1))

    @nt.tool("unsafe_on_replay")
    def right(x: int) -> str:
        return cross("right", lambda: left(1))

    with host.process() as ledger, ledger.run("r"):
        threads = [
            threading.Thread(target=contextvars.copy_context().run, args=(tool, 1))
            for tool in (left, right)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
    assert len(refused) == 1
