"""A call that its client has cancelled is not made. A call that it only left is made."""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.mcp import ToolGuard, ToolPlans
from nottwice.mcp.connection import Occurrence
from nottwice.mcp.guard import NotSent
from nottwice.mcp.proxy.wanted import RequestedCall

ONCE = Occurrence("charge", 1, 1, is_over_on_arrival=True)


@pytest.fixture
def call(tmp_path: Path) -> RequestedCall:
    with nt.Ledger(tmp_path / "shop.db") as ledger:
        return RequestedCall(ToolGuard(ledger, ToolPlans("shop")).connect())


def test_a_call_that_is_waited_for_begins(call: RequestedCall) -> None:
    call.begun(ONCE)
    assert call.occurrence == ONCE


def test_a_call_that_was_left_begins_all_the_same(call: RequestedCall) -> None:
    call.is_dropped = True
    call.begun(ONCE)
    call.check_wanted()


def test_a_call_that_was_cancelled_is_not_sent(call: RequestedCall) -> None:
    call.is_cancelled = True
    with pytest.raises(NotSent, match="cancelled"):
        call.begun(ONCE)
