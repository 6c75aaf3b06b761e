"""A call of a model is made once, and a person decides what is not known (P260, P263).

Real runs in real ledgers; only LangGraph's part, how a task asks, is played.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import pytest

import nottwice as nt
from nottwice.adapters import CallResult, Handle, declare
from nottwice.errors import RunAborted
from nottwice.langchain.calls import CallWanted, make, make_async
from nottwice.langchain.questions import Heard

CHARGE = declare("langchain/charge", replay="unsafe_on_replay")
KINDS = ["sync", "async"]


class Paused(Exception):
    """The framework waits for a person."""


class Task:
    """What LangGraph knows of a task: it saves the question that paused it."""

    def __init__(self) -> None:
        self.saved: Any = None
        self.plain: Any = None
        self.taken: list[Any] = []

    def hear(self) -> Heard:
        return Heard(self.saved, plain=self.plain)

    async def hear_async(self) -> Heard:
        return self.hear()

    def take(self, answer: Any) -> None:
        self.taken.append(answer)

    def pause(self, question: Mapping[str, Any]) -> NoReturn:
        self.saved = question
        raise Paused(question["nottwice"]["review"])


class Shop:
    """The connection breaks after every charge, until it is repaired."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.broken = True

    def charge(self, arguments: dict[str, Any]) -> dict[str, int]:
        self.sent.append(arguments["cents"])
        if self.broken:
            raise ConnectionError("it broke")
        return {"charged": arguments["cents"]}


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[Handle]:
    with nt.Ledger(tmp_path / "agent.db") as ledger, ledger.attach("ticket-7") as attached:
        yield attached


def go(
    kind: str, handle: Handle, shop: Shop, task: Task | None, *, cents: int = 7, **words: Any
) -> CallResult[Any]:
    asked = CallWanted("charge", CHARGE, {"cents": cents}, **words)
    if kind == "sync":
        return make(handle, asked, shop.charge, task)

    async def body(arguments: dict[str, Any]) -> Any:
        return shop.charge(arguments)

    return asyncio.run(make_async(handle, asked, body, task))


@pytest.mark.parametrize("kind", KINDS)
def test_an_effect_is_made_once_per_run_and_arguments(handle: Handle, kind: str) -> None:
    shop = Shop()
    shop.broken = False
    made = [go(kind, handle, shop, Task()) for _ in range(2)]
    assert [(one.value, one.replayed) for one in made] == [
        ({"charged": 7}, False),
        ({"charged": 7}, True),
    ]
    go(kind, handle, shop, Task(), label="second parcel")
    go(kind, handle, shop, Task(), cents=8)
    assert shop.sent == [7, 7, 8]


@pytest.mark.parametrize("kind", KINDS)
def test_a_doubt_pauses_until_it_is_answered(handle: Handle, kind: str) -> None:
    shop, task = Shop(), Task()
    answers: list[Any] = [None, True, {"decisions": [{"type": "approve"}]}, {"nottwice": {}}]
    for answer in answers:
        task.plain = answer
        with pytest.raises(Paused):
            go(kind, handle, shop, task)
    task.plain = {"decisions": [{"type": "respond", "message": "seen"}]}
    assert go(kind, handle, shop, task).value == "seen"
    assert task.taken == [task.plain]
    assert shop.sent == [7]


@pytest.mark.parametrize("kind", KINDS)
def test_doubts_of_one_task_are_answered_each_on_its_own_call(handle: Handle, kind: str) -> None:
    """The question that was saved stays, and its answer is for no other call."""
    shop, task = Shop(), Task()
    for cents in (7, 8):
        with pytest.raises(Paused) as paused:
            go(kind, handle, shop, task, cents=cents)
        assert task.saved["action_requests"][0]["args"] == {"cents": 7}
    task.plain = {"type": "respond", "message": "seen 7"}
    assert go(kind, handle, shop, task, cents=7).value == "seen 7"
    # The same answer comes again, and it is not for the other one.
    for _ in range(2):
        with pytest.raises(Paused) as paused:
            go(kind, handle, shop, task, cents=8)
        assert paused.value.args[0] == task.saved["nottwice"]["review"]
        assert task.saved["action_requests"][0]["args"] == {"cents": 8}
    task.plain = {"type": "respond", "message": "seen 8"}
    assert go(kind, handle, shop, task, cents=8).value == "seen 8"
    assert shop.sent == [7, 8]


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_is_used_even_if_another_call_of_the_task_pauses_first(
    handle: Handle, kind: str
) -> None:
    """LangGraph cuts the tools of a task off when one of them pauses."""
    shop, task = Shop(), Task()
    for cents in (7, 8):
        with pytest.raises(Paused):
            go(kind, handle, shop, task, cents=cents)
    task.plain = {"type": "respond", "message": "seen 7"}
    with pytest.raises(Paused):
        go(kind, handle, shop, task, cents=8)
    assert task.saved["action_requests"][0]["args"] == {"cents": 8}
    assert go(kind, handle, shop, task, cents=7).value == "seen 7"
    assert shop.sent == [7, 8]


@pytest.mark.parametrize("kind", KINDS)
def test_what_did_not_happen_is_made_once_more(handle: Handle, kind: str) -> None:
    shop, task = Shop(), Task()
    with pytest.raises(Paused) as paused:
        go(kind, handle, shop, task)
    shop.broken = False
    task.plain = nt.did_not_happen().payload(paused.value.args[0], by="ann", why="not there")
    made = [go(kind, handle, shop, task) for _ in range(2)]
    assert [one.replayed for one in made] == [False, True]
    assert shop.sent == [7, 7]


@pytest.mark.parametrize("kind", KINDS)
def test_a_reject_ends_the_run(handle: Handle, kind: str) -> None:
    shop, task = Shop(), Task()
    with pytest.raises(Paused):
        go(kind, handle, shop, task)
    task.plain = {"type": "reject", "message": "ask the bank"}
    with pytest.raises(RunAborted, match="ask the bank"):
        go(kind, handle, shop, task)
    assert shop.sent == [7]


@pytest.mark.parametrize("kind", KINDS)
def test_an_approval_is_no_answer_to_the_doubt_after_it(handle: Handle, kind: str) -> None:
    shop, task = Shop(), Task()
    with pytest.raises(Paused) as approval:
        go(kind, handle, shop, task, ask="it is much money")
    assert shop.sent == []
    task.plain = {"type": "approve"}
    with pytest.raises(Paused) as doubt:
        go(kind, handle, shop, task, ask="it is much money")
    assert approval.value.args != doubt.value.args
    assert shop.sent == [7]


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_can_pause_the_doubt_itself_is_raised(handle: Handle, kind: str) -> None:
    with pytest.raises(nt.errors.ReplayUnsafeError, match="nottwice decide"):
        go(kind, handle, Shop(), None)
