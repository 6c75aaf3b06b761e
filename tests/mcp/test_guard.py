"""A call of an MCP client is made once while its answer may be lost, and is never stale (P270)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice import adapters
from nottwice.mcp import NotSent, RpcFailed
from tests.mcp.shop import Shop, lost, texts


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "shop.db", charge={"class": "unsafe_on_replay", "fresh": "1h"})
    yield made
    made.close()


def test_read_write_read_and_writes_back_are_never_stale(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        assert await client.call("read") == "v0"
        for text in ("v1", "v2", "v1"):
            await client.call("write", text=text)
            assert await client.call("read") == text
        await client.call("write", text="v1")
        assert len(shop.done) == 4

    asyncio.run(main())


def test_a_lost_answer_is_given_once_and_then_the_call_is_a_new_one(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        await client.begin("write", text="v1")
        await client.connection.closed(orderly=False)
        again = shop.client()
        said = await again.call("write", text="v1")
        assert "write 1\n[nottwice] This call was made at" in said
        assert "its answer was lost. It was not made again" in said
        assert len(shop.done) == 1
        assert await again.call("write", text="v1") == "write 2"

    asyncio.run(main())


def test_an_answer_that_arrived_is_over_in_the_next_process_too(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        await client.begin("write", text="v1")
        # Whatever the client sends next proves it; it is durable before that is handled.
        await client.connection.heard()
        shop.begin()
        assert await shop.client().call("write", text="v1") == "write 2"

    asyncio.run(main())


def test_a_client_that_ended_in_order_has_its_answers(shop: Shop) -> None:
    async def main() -> None:
        for number, text in enumerate(["v1", "v2", "v1"], 1):
            client = shop.client()
            assert await client.call("write", text=text) == f"write {number}"
            await client.connection.closed(orderly=True)
        assert shop.disk == "v1"

    asyncio.run(main())


def test_equal_calls_at_the_same_time_are_different_calls(shop: Shop) -> None:
    async def main() -> None:
        first, second = shop.client(), shop.client()
        said = await asyncio.gather(
            *(client.call("write", text="x") for client in (first, first, second))
        )
        assert sorted(said) == ["write 1", "write 2", "write 3"]
        # The second client repeats a call whose answer the first one may just have got.
        assert await second.call("write", text="x") == "write 4"

    asyncio.run(main())


def test_a_call_in_doubt_is_stopped_until_a_person_decides_and_others_work(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        shop.fails = lost
        for _ in range(3):
            answered = await client.begin("write", text="v1")
            assert answered.result["isError"] is True
            assert "STOPPED: it is not known whether this happened" in texts(answered)
        shop.fails = None
        assert len(shop.done) == 1
        assert await client.call("write", text="v2") == "write 2"
        review_id = answered.result["_meta"]["nottwice/review"]
        decide(shop, review_id, nt.happened("it was written"))
        assert (await client.call("write", text="v1")).startswith("it was written\n[nottwice]")
        assert await client.call("write", text="v1") == "write 3"

    asyncio.run(main())


def test_several_doubts_are_decided_in_any_order_each_on_its_own_call(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        shop.fails = lost
        reviews = {
            text: (await client.begin("write", text=text)).result["_meta"]["nottwice/review"]
            for text in ("a", "b", "c")
        }
        shop.fails = None
        decide(shop, reviews["c"], nt.happened("c was there"))
        decide(shop, reviews["a"], nt.did_not_happen())
        assert (await client.call("write", text="c")).startswith("c was there")
        assert await client.call("write", text="a") == "write 4"
        assert "STOPPED" in await client.call("write", text="b")
        assert [given["text"] for _, given in shop.done] == ["a", "b", "c", "a"]

    asyncio.run(main())


def test_an_idempotent_call_in_doubt_is_sent_again(shop: Shop) -> None:
    async def main() -> None:
        def once() -> Any:
            shop.fails = None
            return lost()

        shop.fails = once
        assert await shop.client().call("set", status="paid") == "set 2"

    asyncio.run(main())


def test_a_classed_tool_runs_once_per_time_and_again_on_purpose(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        assert await client.call("charge", cents=4) == "charge 1"
        said = await client.call("charge", cents=4)
        assert said.startswith("charge 1\n[nottwice] Not done again.")
        assert 'nottwice_repeat="<short reason>"' in said
        twice = {"cents": 4, "nottwice_repeat": "two orders"}
        assert await client.call("charge", **twice) == "charge 2"
        assert "Not done again" in await client.call("charge", **twice)
        assert shop.done == [("charge", {"cents": 4})] * 2

        shop.clock.advance(3599)
        assert "Not done again" in await client.call("charge", cents=4)
        shop.clock.advance(2)
        assert await shop.client().call("charge", cents=4) == "charge 3"
        assert "Not done again" in await client.call("charge", cents=4)

    asyncio.run(main())


def test_an_error_of_the_tool_is_told_as_it_is_and_can_be_tried_again(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        failed = {"content": [{"type": "text", "text": "no money"}], "isError": True}
        for tool in ("write", "charge"):
            shop.fails = lambda: failed
            assert (await client.begin(tool, text="a")).result == failed
            shop.fails = lambda: (_ for _ in ()).throw(RpcFailed({"code": -32602, "message": "x"}))
            with pytest.raises(RpcFailed) as raised:
                await client.begin(tool, text="a")
            assert raised.value.error == {"code": -32602, "message": "x"}
            shop.fails = lambda: (_ for _ in ()).throw(NotSent("it did not start"))
            assert "it was not sent" in texts(await client.begin(tool, text="a"))
            shop.fails = None
            assert (await client.call(tool, text="a")).startswith(tool)

    asyncio.run(main())


def test_a_tool_that_asks_for_input_first_has_not_been_done(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        asks = {"resultType": "input_required", "requestState": "theirs"}
        shop.fails = lambda: asks
        assert (await client.begin("charge", cents=1)).result == asks
        shop.fails = None
        more = {"requestState": "theirs", "inputResponses": {"a": {}}}
        assert texts(await client.begin("charge", more=more, cents=1)) == "charge 2"

    asyncio.run(main())


def test_a_client_can_name_its_run(shop: Shop) -> None:
    async def main() -> None:
        client, meta = shop.client(), {"nottwice/run": "ticket-7"}
        assert await client.call("charge", meta=meta, cents=4) == "charge 1"
        assert await client.call("charge", meta={"nottwice/run": "t-8"}, cents=4) == "charge 2"
        assert "Not done again" in await client.call("charge", meta=meta, cents=4)
        assert [one.id for one in shop.ledger.runs()].count("ticket-7") == 1

    asyncio.run(main())


def test_a_call_whose_run_retention_has_removed_is_a_new_call(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        assert await client.call("write", text="v1") == "write 1"
        await client.connection.closed(orderly=False)
        shop.clock.advance(400 * 86400)
        report = nt.remove_expired(shop.ledger, unknown_tools=True)
        assert report.runs
        again = shop.client()
        assert await again.call("write", text="v1") == "write 2"
        assert await again.call("write", text="v1") == "write 3"

    asyncio.run(main())


def test_a_ledger_that_cannot_be_used_stops_the_call(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        assert await client.call("write", text="v1") == "write 1"
        shop.path.unlink()
        said = await client.begin("write", text="v2")
        assert "so it was not made" in texts(said)
        assert said.result["isError"] is True
        assert len(shop.done) == 1

    asyncio.run(main())


def test_a_client_that_stops_waiting_cancels_no_effect(shop: Shop) -> None:
    async def main() -> None:
        client, going, gate = shop.client(), asyncio.Event(), asyncio.Event()
        real = shop.send

        async def slow(params: dict[str, Any]) -> dict[str, Any]:
            going.set()
            await gate.wait()
            return await real(params)

        call = {"name": "write", "arguments": {"text": "v1"}}
        begun: list[Any] = []
        task = asyncio.create_task(
            shop.guard.call(call, slow, connection=client.connection, begun=begun.append)
        )
        await going.wait()
        client.connection.lost(begun[0])
        # The same call again is its repetition: it gets the same answer.
        again = asyncio.create_task(client.call("write", text="v1"))
        await asyncio.sleep(0)
        gate.set()
        assert texts(await task) == "write 1"
        assert (await again).startswith("write 1")
        assert len(shop.done) == 1

    asyncio.run(main())


def decide(shop: Shop, review_id: str, answer: Any) -> None:
    review = shop.ledger.store.load_review(review_id)
    assert review is not None
    with shop.ledger.attach(review.identity.workflow_id) as handle:
        payload = answer.payload(review_id, by="ann", why="looked")
        assert adapters.answer(handle, review_id, payload)
        handle.release()
