"""The client's user decides a doubt only if that was allowed, and only in clear words (P273)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nottwice.mcp import asking
from nottwice.mcp.guard import CAPABILITIES, MODERN
from tests.mcp.shop import Client, Shop, lost, texts

ABLE = {MODERN: "2026-07-28", CAPABILITIES: {"elicitation": {}}}


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path / "shop.db", decide_in_client=True, charge="unsafe_on_replay")
    yield made
    made.close()


async def in_doubt(shop: Shop) -> Client:
    client = shop.client()
    shop.fails = lost
    await client.begin("charge", cents=4)
    shop.fails = None
    return client


def said(answer: str, **more: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"answer": answer, **more}}


def test_without_leave_no_user_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        shop = Shop(tmp_path / "shop.db", charge="unsafe_on_replay")
        client = await in_doubt(shop)

        async def unwanted(params: Any) -> Any:
            raise AssertionError("the client was asked")

        assert "STOPPED" in await client.call("charge", meta=ABLE, ask=unwanted, cents=4)
        state = {"requestState": "nottwice:x", "inputResponses": {"nottwice": said("It happened")}}
        assert "STOPPED" in texts(await client.begin("charge", more=state, cents=4))
        shop.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "expected", "effects"),
    [
        (said(asking.HAPPENED, result="charged 4"), "charged 4\n[nottwice] Not done again", 1),
        (said(asking.HAPPENED), "It happened. What it returned is not known.", 1),
        (said(asking.DID_NOT_HAPPEN), "charge 2", 2),
        (said(asking.LEAVE_OPEN), "STOPPED", 1),
        (said("yes"), "STOPPED", 1),
        ({"action": "accept"}, "STOPPED", 1),
        ({"action": "accept", "content": {"confirmed": True}}, "STOPPED", 1),
        ({"action": "decline"}, "STOPPED", 1),
        ({"action": "cancel"}, "STOPPED", 1),
        (None, "STOPPED", 1),
    ],
)
@pytest.mark.parametrize("modern", [True, False])
def test_an_answer_decides_only_in_clear_words(
    shop: Shop, answer: Any, expected: str, effects: int, modern: bool
) -> None:
    async def main() -> None:
        client = await in_doubt(shop)
        asked: list[Any] = []
        if modern:
            first = await client.begin("charge", meta=ABLE, cents=4)
            assert first.result["resultType"] == "input_required"
            asked.append(first.result["inputRequests"]["nottwice"]["params"])
            more = {
                "requestState": first.result["requestState"],
                "inputResponses": {"nottwice": answer},
            }
            told = texts(await client.begin("charge", meta=ABLE, more=more, cents=4))
        else:

            async def ask(params: Any) -> Any:
                asked.append(params)
                return answer

            told = await client.call("charge", ask=ask, cents=4)
        assert expected in told
        assert len(shop.done) == effects
        assert asked[0]["message"].startswith("Did this happen? shop/charge(cents=4) was sent at")
        choices = asked[0]["requestedSchema"]["properties"]["answer"]
        assert choices["enum"] == [asking.HAPPENED, asking.DID_NOT_HAPPEN, asking.LEAVE_OPEN]
        assert choices["default"] == asking.LEAVE_OPEN

    asyncio.run(main())


def test_a_client_that_cannot_show_a_form_gets_the_text(shop: Shop) -> None:
    async def main() -> None:
        client = await in_doubt(shop)
        told = await client.begin("charge", meta={MODERN: "2026-07-28"}, cents=4)
        assert "STOPPED" in texts(told)
        assert told.result["resultType"] == "complete", "this protocol wants it in every result"

    asyncio.run(main())


def test_our_answer_is_not_shown_to_the_server_and_theirs_is() -> None:
    ours = {"requestState": "nottwice:1c6a", "inputResponses": {"nottwice": {}}, "name": "a"}
    assert asking.without_our_answer(ours) == {"name": "a"}
    theirs = {"requestState": "abc", "inputResponses": {"x": {}}, "name": "a"}
    assert asking.without_our_answer(theirs) == theirs
    assert asking.asked_review(theirs) is None


def test_an_approval_is_asked_for_in_its_own_words(tmp_path: Path) -> None:
    async def main() -> None:
        said_so = {"class": "unsafe_on_replay", "approve": True}
        shop = Shop(tmp_path / "shop.db", decide_in_client=True, charge=said_so)
        client = shop.client()

        async def ask(params: Any) -> Any:
            assert params["message"].startswith("May this be done? shop/charge(cents=4)")
            return said(asking.APPROVE)

        assert "NOT DONE YET" in await client.call("charge", cents=4)
        assert await client.call("charge", ask=ask, cents=4) == "charge 1"
        shop.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("typed", "value"),
    [('{"charged": 4}', {"charged": 4}), ("[1]", [1]), ("7", "7"), ("{oops", "{oops")],
)
def test_an_object_that_was_typed_into_the_form_is_one(typed: str, value: Any) -> None:
    said = {"action": "accept", "content": {"answer": "It happened", "result": typed}}
    payload = asking.payload_of("1c6a9990", said)
    assert payload is not None
    assert payload["nottwice"]["result"] == value
