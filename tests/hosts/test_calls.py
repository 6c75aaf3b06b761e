"""What a host hands over: a function that may be a tool, and its arguments."""

from __future__ import annotations

import pytest

import nottwice as nt
from nottwice.errors import InvalidArguments
from nottwice.hosts.calls import arguments_of, bare, tool_of
from tests.fakes import another_program


def test_only_a_tool_with_an_effect_becomes_a_run() -> None:
    with another_program():

        @nt.tool("unsafe_on_replay")
        def refund(order_id: int, cents: int = 5) -> int:
            return cents

        @nt.tool("pure")
        def read(order_id: int) -> int:
            return order_id

        def plain(order_id: int) -> int:
            return order_id

        assert tool_of(refund) is refund
        assert tool_of(read) is None
        assert tool_of(plain) is None
        assert bare(read)(7) == 7
        assert bare(plain) is plain
        assert arguments_of(refund, [7]) == {"order_id": 7}
        assert arguments_of(refund, [7], {"cents": 9}) == {"order_id": 7, "cents": 9}
        with pytest.raises(InvalidArguments, match="refund"):
            arguments_of(refund, [], {"wrong": 1})
