"""A tool that changes its arguments in place is noticed when it runs, not when it is too late."""

from __future__ import annotations

import asyncio
import inspect
import logging
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

import nottwice as nt
from nottwice.store.memory import MemoryStore


@dataclass
class Basket:
    items: list[str]


@nt.tool("unsafe_on_replay")
def changed_list(order: int, found: Any) -> int:
    found.append("x")
    return order


@nt.tool("unsafe_on_replay")
def changed_copy(order: int, found: list[str]) -> int:
    found.append("x")
    return order


@nt.tool("unsafe_on_replay")
def doubled_by_its_validator(
    found: Annotated[list[int], AfterValidator(lambda given: given + given)],
) -> list[int]:
    return found


@nt.tool("pure")
def changed_dict(found: dict[str, Any]) -> None:
    found["deep"]["list"].clear()


@nt.tool("unsafe_on_replay")
def changed_model(*, basket: Basket) -> None:
    basket.items = ["other"]


@nt.tool("unsafe_on_replay")
def changed_nothing(order: int, found: list[str], more: dict[str, Any]) -> list[str]:
    return [*found, "x"]


@nt.tool("unsafe_on_replay")
async def changed_later(found: list[str]) -> None:
    found.append("x")


@nt.tool("unsafe_on_replay")
async def changed_nothing_later(found: Any) -> None:
    await asyncio.sleep(0)


class Account:
    @nt.tool("unsafe_on_replay", bound_by=())
    def changed_method(self, found: Any) -> None:
        found.append("x")


def call_all(ledger: nt.Ledger) -> list[list[str]]:
    with ledger.run("r"):
        first: list[str] = []
        changed_list(7, first)
        second: list[str] = []
        changed_list(8, found=second)
        return [first, second]


def test_it_is_warned_of_once_and_names_tool_and_argument(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    with caplog.at_level(logging.INFO, "nottwice"), pytest.warns(RuntimeWarning) as warned:
        live = call_all(nt.Ledger(store))
    assert len(warned) == 1
    assert "'changed_list' changed its argument found in place" in str(warned[0].message)
    assert warned[0].filename == __file__
    assert warned[0].lineno == inspect.unwrap(changed_list).__code__.co_firstlineno
    assert "changed its argument found in place" in caplog.text
    # What the warning is about.
    assert live == [["x"], ["x"]]
    assert call_all(nt.Ledger(store)) == [[], []]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: changed_dict({"deep": {"list": [1]}}), "found"),
        (lambda: changed_model(basket=Basket(["a"])), "basket"),
        (lambda: Account().changed_method(["a"]), "found"),
    ],
)
def test_changes_inside_and_of_models_and_by_methods_are_found(call: Any, name: str) -> None:
    with nt.Ledger(MemoryStore()).run("r"), pytest.warns(RuntimeWarning, match=f"argument {name}"):
        call()


def test_a_tool_that_returns_what_is_new_is_not_warned_of() -> None:
    with nt.Ledger(MemoryStore()).run("r"):
        assert changed_nothing(1, ["a"], {"b": [1.5, None]}) == ["a", "x"]


def test_an_async_tool_has_a_copy_and_its_caller_is_told_that_the_change_is_lost() -> None:
    async def main() -> list[str]:
        found: list[str] = []
        async with nt.Ledger(MemoryStore()).run("r"):
            await changed_later(found)
        return found

    with pytest.warns(RuntimeWarning, match="in place. It works on a copy") as warned:
        assert asyncio.run(main()) == []
    assert warned[0].filename == __file__


def test_a_change_that_the_caller_makes_meanwhile_is_not_blamed_on_an_async_tool() -> None:
    async def main() -> None:
        found: list[str] = []
        async with nt.Ledger(MemoryStore()).run("r"):
            calling = asyncio.ensure_future(changed_nothing_later(found))
            await asyncio.sleep(0)
            found.append("x")
            await calling

    asyncio.run(main())


def test_a_change_of_an_annotated_list_which_the_caller_never_sees_is_not_lost_in_silence() -> None:
    found: list[str] = []
    warned = pytest.warns(RuntimeWarning, match="argument found in place. It works on a copy")
    with nt.Ledger(MemoryStore()).run("r"), warned:
        changed_copy(7, found)
    assert found == []


def test_a_validator_that_reads_its_own_output_otherwise_is_no_change() -> None:
    with nt.Ledger(MemoryStore()).run("r"):
        assert doubled_by_its_validator([1]) == [1, 1]
