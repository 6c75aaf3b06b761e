"""A traceback shows the lines of the user's program, and at most one line of nottwice."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.store.memory import MemoryStore

OURS = str(Path(nt.__file__).parent)


@nt.tool("unsafe_on_replay")
def frames_lost(order: int) -> str:
    raise ValueError("the connection broke")


@nt.tool("unsafe_on_replay")
async def frames_lost_later(order: int) -> str:
    raise ValueError("the connection broke")


@nt.tool("pure")
def frames_outer(order: int) -> str:
    return frames_lost(order)


def declare(store: MemoryStore) -> None:
    @nt.tool("unsafe")  # type: ignore[call-overload, untyped-decorator, unused-ignore]
    def frames_undeclared() -> None: ...


def declare_without_a_class(store: MemoryStore) -> None:
    @nt.tool  # type: ignore[call-overload, untyped-decorator, unused-ignore]
    def frames_unclassified() -> None: ...


def copy_nothing(store: MemoryStore) -> None:
    nt.backup("copy.db", store=store)


def call_wrongly(store: MemoryStore) -> None:
    with nt.run("wrong", store=store):
        frames_lost("seven")  # type: ignore[arg-type]


def call(store: MemoryStore) -> None:
    with nt.run("doubt", store=store):
        frames_lost(7)


def call_for_the_receipt(store: MemoryStore) -> None:
    with nt.run("doubt", store=store):
        frames_lost.receipt(7)


def call_again(store: MemoryStore) -> None:
    with nt.run("doubt", store=store):
        frames_lost.again("twice")(7)


def retry_wrongly(store: MemoryStore) -> None:
    with nt.run("wrong", store=store):
        frames_lost.retry("seven")  # type: ignore[arg-type]


def open_nothing(store: MemoryStore) -> None:
    nt.Ledger("mysql://somewhere")


def run_no_task(store: MemoryStore) -> None:
    nt.Agent("frames", version="1.0.0", provider=nt.providers.scripted([])).run("r", store=store)


def open_again(store: MemoryStore) -> None:
    with pytest.raises(nt.errors.ReplayUnsafeError):
        call(store)
    with nt.run("doubt", store=store):
        raise AssertionError("a run with an open review was opened")


def call_later(store: MemoryStore) -> None:
    async def main() -> None:
        async with nt.run("later", store=store):
            await frames_lost_later(7)

    asyncio.run(main())


def name_no_run(store: MemoryStore) -> None:
    nt.run("", store=store)


def declare_a_graph(store: MemoryStore) -> None:
    nt.Graph("frames", version="1")


def declare_an_agent(store: MemoryStore) -> None:
    nt.Agent("frames", version="1", provider=nt.providers.scripted([]))


def read_the_clock_anywhere(store: MemoryStore) -> None:
    with nt.run("clock", store=store):
        nt.now()


def resume_another_version(store: MemoryStore) -> None:
    for version in ("1.0.0", "2.0.0"):
        flow: nt.Graph[Any] = nt.Graph("frames", version=version)

        @flow.node
        def wait(state: Any) -> Any:
            return nt.ask("Continue?", options=["yes"])

        flow.run("bound", {}, store=store)


@pytest.mark.parametrize(
    "go",
    [
        declare,
        declare_without_a_class,
        copy_nothing,
        call_wrongly,
        call,
        call_for_the_receipt,
        call_again,
        retry_wrongly,
        open_nothing,
        run_no_task,
        open_again,
        call_later,
        name_no_run,
        declare_a_graph,
        declare_an_agent,
        read_the_clock_anywhere,
        resume_another_version,
    ],
    ids=lambda go: str(go.__name__),
)
def test_no_more_than_one_line_of_ours_is_shown(go: Callable[[MemoryStore], None]) -> None:
    with pytest.raises(nt.NottwiceError) as caught:
        go(MemoryStore())
    shown = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert sum(name.startswith(OURS) for name in shown) <= 1
    assert shown.count(__file__) >= 2


def test_the_lines_of_the_program_inside_of_another_tool_stay() -> None:
    with pytest.raises(nt.errors.ReplayUnsafeError) as caught, nt.run("inner", store=MemoryStore()):
        frames_outer(7)
    shown = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "frames_outer" in shown


def test_the_exception_that_left_the_doubt_keeps_its_lines() -> None:
    with pytest.raises(nt.errors.ReplayUnsafeError) as caught:
        call(MemoryStore())
    assert isinstance(caught.value.__cause__, ValueError)
    shown = [frame.name for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)]
    assert shown[-1] == "frames_lost"
