"""Does a server make each effect of its own tools once, and is an old answer never given? (P282)"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.mcp.guard import RpcFailed
from nottwice.mcp.plans import OwnTool
from nottwice.mcp.serving import ServedRequest, ToolServer
from tests.mcp.serving_program import CHARGE, Shop, tool_server
from tests.nursery import starting
from tests.tidy.source import ROOT

Result = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path / "world.txt")


def killed(store: Path, dies: str) -> None:
    words = [sys.executable, "-m", "tests.mcp.serving_program"]
    command = [*words, str(store), str(store.with_name("world.txt")), dies]
    ran = starting.run(command, cwd=ROOT)
    assert ran.returncode == -signal.SIGKILL, ran.stderr


def playing(play: Callable[[], Awaitable[Any]]) -> Any:
    async def whole() -> Any:
        return await play()

    return asyncio.run(whole())


async def call(server: ToolServer, shop: Shop, **more: Any) -> Result:
    """Make a call as the SDK does: each request in a task of its own."""
    params = {**CHARGE, **more.pop("params", {})}
    request = ServedRequest(params, shop.send, **more)
    return await asyncio.create_task(server.call(request))


def texts(result: Result) -> list[str]:
    return [block["text"] for block in result["content"]]


# Kills


def test_a_call_that_was_killed_after_its_effect_is_not_made_again(store: Path, shop: Shop) -> None:
    killed(store, "after the effect")
    result = playing(lambda: call(tool_server(store), shop))
    assert result["isError"] is True
    assert "STOPPED: it is not known whether this happened" in texts(result)[0]
    assert "nottwice decide" not in texts(result)[0]
    with nt.Reviews(str(store)) as inbox:
        review = result["_meta"]["nottwice/review"]
        inbox.decide(review, "happened", by="ann", why="saw it", result={"charged": 7})
    decided = playing(lambda: call(tool_server(store), shop))
    assert decided["structuredContent"] == {"charged": 7}
    assert shop.effects == ["charge 7"]


def test_what_did_not_happen_is_made_exactly_once_more(store: Path, shop: Shop) -> None:
    killed(store, "after the effect")
    result = playing(lambda: call(tool_server(store), shop))
    with nt.Reviews(str(store)) as inbox:
        review = result["_meta"]["nottwice/review"]
        inbox.decide(review, "did-not-happen", by="ann", why="not there")
    assert texts(playing(lambda: call(tool_server(store), shop))) == ['{"charged": 7}']
    assert shop.effects == ["charge 7", "charge 7"]


def test_an_answer_that_was_lost_with_its_process_is_given_again(store: Path, shop: Shop) -> None:
    killed(store, "after the receipt")
    result = playing(lambda: call(tool_server(store), shop))
    assert result["structuredContent"] == {"charged": 7}
    assert "its answer was lost. It was not made again" in texts(result)[1]
    assert shop.effects == ["charge 7"]


def test_without_protection_the_same_kill_makes_two_effects(store: Path, shop: Shop) -> None:
    """The control: the program itself would do it again."""
    killed(store, "after the effect")
    playing(lambda: shop.send({"arguments": {"cents": 7}}))
    assert shop.effects == ["charge 7", "charge 7"]


# Which answers have arrived (P284)


def test_on_a_pipe_an_answer_is_over_when_the_client_calls_again(store: Path, shop: Shop) -> None:
    async def play() -> None:
        server = tool_server(store)
        for _ in range(3):
            assert len(texts(await call(server, shop))) == 1

    playing(play)
    assert shop.effects == ["charge 7"] * 3


def test_another_message_of_the_client_says_so_too(store: Path, shop: Shop) -> None:
    async def once() -> Result:
        server = tool_server(store)
        result = await call(server, shop)
        await server.heard()
        return result

    playing(once)
    # The process is gone, and what was heard is on record: this is a new call.
    assert len(texts(playing(lambda: call(tool_server(store), shop)))) == 1
    assert shop.effects == ["charge 7"] * 2


def test_a_client_in_the_same_task_has_its_answer_when_it_calls_again(
    store: Path, shop: Shop
) -> None:
    async def play() -> None:
        server = tool_server(store)
        for _ in range(2):
            await server.call(ServedRequest(CHARGE, shop.send))
        await server.heard()

    playing(play)
    assert len(texts(playing(lambda: call(tool_server(store), shop)))) == 1
    assert shop.effects == ["charge 7"] * 3


def test_equal_calls_at_the_same_time_are_two_calls(store: Path, shop: Shop) -> None:
    async def play() -> list[Result]:
        server = tool_server(store)
        return await asyncio.gather(*[call(server, shop) for _ in range(3)])

    assert [len(texts(each)) for each in playing(play)] == [1, 1, 1]
    assert shop.effects == ["charge 7"] * 3


def test_a_cancelled_call_is_recorded_and_answers_the_next_one(store: Path, shop: Shop) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def slow(params: dict[str, Any]) -> Result:
        begun.set()
        await may_end.wait()
        return await shop.send(params)

    async def play() -> Result:
        server = tool_server(store)
        first = asyncio.create_task(server.call(ServedRequest(CHARGE, slow)))
        await begun.wait()
        first.cancel()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await first
        return await call(server, shop)

    result = playing(play)
    assert "its answer was lost" in texts(result)[1]
    assert shop.effects == ["charge 7"]


@pytest.mark.parametrize("gone", [False, True])
def test_an_http_client_has_its_answer_unless_it_was_gone(
    store: Path, shop: Shop, gone: bool
) -> None:
    async def is_disconnected() -> bool:
        return gone

    async def play() -> Result:
        server = tool_server(store)
        await call(server, shop, is_disconnected=is_disconnected)
        # What was written is marked by a task of its own.
        await asyncio.gather(*[each for each in asyncio.all_tasks() if "_mark" in repr(each)])
        return await call(server, shop, is_disconnected=is_disconnected)

    assert ("its answer was lost" in texts(playing(play))[-1]) == gone
    assert len(shop.effects) == 2 - gone


# Results and failures


def test_an_error_is_told_as_it_is_and_never_becomes_a_receipt(store: Path, shop: Shop) -> None:
    failed = {"content": [{"type": "text", "text": "card declined"}], "isError": True}
    server = tool_server(store, tools={"charge": {"class": "unsafe_on_replay", "fresh": "forever"}})

    async def play() -> list[Result]:
        shop.answers = [failed]
        return [await call(server, shop) for _ in range(3)]

    first, second, third = playing(play)
    assert first == failed
    assert texts(second) == ['{"charged": 7}']
    assert "Not done again" in texts(third)[1]
    assert third["structuredContent"] == {"charged": 7}
    assert shop.effects == ["charge 7"]


def test_an_error_of_the_protocol_is_raised_as_it_is(store: Path) -> None:
    async def send(params: dict[str, Any]) -> Result:
        raise RpcFailed({"code": -32602, "message": "no such tool"})

    async def play() -> None:
        await tool_server(store).call(ServedRequest(CHARGE, send))

    with pytest.raises(RpcFailed, match="no such tool"):
        playing(play)


def test_a_deliberate_repeat_is_made(store: Path, shop: Shop) -> None:
    again = {"arguments": {"cents": 7, "nottwice_repeat": "a second parcel"}}

    async def play() -> None:
        server = tool_server(store, tools={"charge": "unsafe_on_replay"})
        await call(server, shop)
        for _ in range(2):
            await call(server, shop, params=again)

    playing(play)
    assert shop.effects == ["charge 7"] * 2


def test_the_client_names_the_run(store: Path, shop: Shop) -> None:
    meta = {"_meta": {"nottwice/run": "ticket-7"}}
    with nt.Ledger(store) as ledger:
        playing(lambda: call(tool_server(ledger), shop, params=meta))
        assert [run.id for run in ledger.runs()] == ["ticket-7"]


def test_first_calls_at_the_same_time_open_one_ledger(store: Path, shop: Shop) -> None:
    async def play() -> None:
        server = tool_server(store, tools={"charge": "unsafe_on_replay"})
        await asyncio.gather(*[call(server, shop) for _ in range(3)])

    playing(play)
    assert shop.effects == ["charge 7"]


# Functions protected by nt.tool (P283)


def own_server(store: Path, function: Any) -> ToolServer:
    server = tool_server(store)

    def result_of(value: Any) -> Result:
        return {"content": [{"type": "text", "text": json.dumps(value)}], "own": True}

    server.plans.learn_own("charge", OwnTool(function, result_of))
    return server


def test_a_protected_function_keeps_its_own_words(store: Path, shop: Shop) -> None:
    seen = []

    @nt.tool("idempotent_with_key", key="order-{cents}", window="24h")
    def charge(cents: int) -> dict[str, int]:
        seen.append(nt.current_call().key)
        return {"charged": cents}

    async def play() -> list[Result]:
        server = own_server(store, charge)
        return [await call(server, shop) for _ in range(2)]

    first, second = playing(play)
    assert first == {"content": [{"type": "text", "text": '{"charged": 7}'}], "own": True}
    assert "Not done again" in texts(second)[1]
    assert seen == ["order-7"]
    # The server's own handler would call it outside of a run.
    assert shop.effects == []


def test_a_protected_function_that_may_have_acted_stops_the_call(store: Path, shop: Shop) -> None:
    @nt.tool("unsafe_on_replay")
    def charge(cents: int) -> str:
        raise ConnectionError("the connection broke")

    async def play() -> list[Result]:
        server = own_server(store, charge)
        return [await call(server, shop) for _ in range(2)]

    for result in playing(play):
        assert "STOPPED" in texts(result)[0]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_protected_function_without_effects_runs_each_time(
    store: Path, shop: Shop, is_async: bool
) -> None:
    seen = []

    def look(cents: int) -> int:
        seen.append(cents)
        return len(seen)

    async def look_async(cents: int) -> int:
        return look(cents)

    function = nt.tool("pure", name="look")(look_async if is_async else look)

    async def play() -> list[str]:
        server = own_server(store, function)
        found = [await call(server, shop) for _ in range(2)]
        wrong = await call(server, shop, params={"arguments": {"dollars": 7}})
        return [texts(each)[0] for each in found] + [str(wrong["isError"])]

    assert playing(play) == ["1", "2", "True"]
