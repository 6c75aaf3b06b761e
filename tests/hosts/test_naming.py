"""Which work is a message about? An argument of it says so (P288)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import nottwice as nt
from nottwice.adapters import declare
from nottwice.errors import InvalidArguments, InvalidTool, ReplayUnsafeError
from nottwice.hosts.naming import checked_naming, work_of
from tests.fakes import Host, another_program, dying, unwanted

PAY = declare("pay/charge", replay="unsafe_on_replay")


@pytest.fixture
def host() -> Host:
    return Host()


@pytest.fixture
def refund() -> Iterator[Any]:
    with another_program():

        @nt.tool("unsafe_on_replay")
        def refund(order_id: Any, cents: int = 5, shop: str = "main") -> int:
            return cents

        yield refund


def test_a_task_must_say_which_work_it_is_about_and_the_error_says_how(refund: Any) -> None:
    for run in (None, "order"):
        with pytest.raises(InvalidTool, match=r"@nt\.celery\.task\(app, run='order_id'\)"):
            checked_naming(refund, run, decorator="nt.celery.task")
    assert checked_naming(refund, "order_id", decorator="nt.celery.task") == "order_id"


def test_the_same_argument_is_the_same_work_whatever_the_others_are(refund: Any) -> None:
    assert work_of(refund, "order_id", {"order_id": 7}) == "order_id=7"
    assert work_of(refund, "order_id", {"order_id": "7", "cents": 9}) == "order_id=7"
    assert work_of(refund, "shop", {"order_id": 7}) == "shop=main"


def test_order_7_and_invoice_7_are_two_works_and_a_doubt_about_one_holds_back_only_it(
    refund: Any, host: Host
) -> None:
    @nt.tool("unsafe_on_replay")
    def remind(invoice_id: int) -> str:
        return "reminded"

    with host.process() as ledger:
        ledger.once(work_of(refund, "order_id", {"order_id": 7}), "pay", PAY, {}, dying(ledger))
    with host.process() as ledger:
        with pytest.raises(ReplayUnsafeError):
            ledger.once("order_id=7", "pay", PAY, {}, unwanted)
        work = work_of(remind, "invoice_id", {"invoice_id": 7})
        assert ledger.once(work, "remind", remind, {"invoice_id": 7}).value == "reminded"


def test_a_function_may_name_it(refund: Any) -> None:
    def both(arguments: Any) -> str:
        return f"{arguments['shop']}-{arguments['order_id']}"

    assert checked_naming(refund, both, decorator="nt.celery.task") is both
    assert work_of(refund, both, {"order_id": 7, "shop": "b"}) == "b-7"


@pytest.mark.parametrize("value", [None, "", True, 1.5, [7]], ids=repr)
def test_what_names_nothing_is_refused(refund: Any, value: Any) -> None:
    with pytest.raises(InvalidArguments, match="'order_id' names the work"):
        work_of(refund, "order_id", {"order_id": value})
