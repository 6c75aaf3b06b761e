"""What proves that an answer arrived, and what does not (P270)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "shop.db")
    yield made
    made.close()


def test_an_answer_that_was_not_written_did_not_arrive_whatever_the_client_sends(
    shop: Shop,
) -> None:
    async def main() -> None:
        client = shop.client()
        params = {"name": "write", "arguments": {"text": "v1"}}
        answered = await shop.guard.call(params, shop.send, connection=client.connection)
        client.connection.lost(answered.occurrence)
        client.connection.written(answered)
        assert "its answer was lost" in await client.call("write", text="v1")

    asyncio.run(main())


def test_what_one_client_sends_proves_nothing_about_another(shop: Shop) -> None:
    async def main() -> None:
        first, second = shop.client(), shop.client()
        await first.begin("write", text="v1")
        await second.call("write", text="v2")
        await second.connection.heard()
        await first.connection.closed(orderly=False)
        assert "its answer was lost" in await second.call("write", text="v1")

    asyncio.run(main())


def test_hearing_nothing_new_writes_nothing(shop: Shop) -> None:
    async def main() -> None:
        client = shop.client()
        await client.call("read")
        await client.connection.heard()
        assert not list(shop.ledger.runs())

    asyncio.run(main())
