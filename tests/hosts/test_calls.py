"""What a host hands over: a function that may be a tool, and its arguments."""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.errors import InvalidArguments, InvalidTool
from nottwice.hosts.calls import arguments_of, bare, check_not_unbound, tool_of
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


def test_the_method_of_an_instance_is_called_with_it() -> None:
    with another_program():

        class Shop:
            def __init__(self, name: str) -> None:
                self.name = name

            @nt.tool("unsafe_on_replay", bound_by=("name",))
            def refund(self, order_id: int) -> str:
                return f"{self.name}-{order_id}"

            @nt.tool("pure", bound_by=("name",))
            def read(self, order_id: int) -> str:
                return f"{self.name}-{order_id}"

        shop: Any = Shop("main")
        assert tool_of(shop.refund) is not None
        assert arguments_of(shop.refund, [7]) == {"order_id": 7}
        assert bare(shop.read)(7) == "main-7"
        check_not_unbound(shop.refund, decorator="nt.dbos.step")
        with pytest.raises(InvalidTool, match=r"refund = nt\.dbos\.step\(\.\.\.\)\(shop\.refund\)"):
            check_not_unbound(Shop.refund, decorator="nt.dbos.step")
