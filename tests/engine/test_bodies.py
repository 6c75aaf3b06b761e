"""Is it told where code begins and returns, in the very context in which it runs?"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine import events

where: contextvars.ContextVar[str] = contextvars.ContextVar("where", default="outside")
BEGAN = {
    events.RunBegan: "run",
    events.StepBegan: "step",
    events.AttemptBegan: "attempt",
}
RETURNED = {
    events.RunReturned: "run",
    events.StepReturned: "step",
    events.AttemptReturned: "attempt",
}


@pytest.fixture
def heard() -> Iterator[list[tuple[str, str, int]]]:
    """What began and returned, in which context it was told, and in which thread."""
    found: list[tuple[str, str, int]] = []

    def hear(event: events.Event) -> None:
        thread = threading.get_ident()
        if type(event) in BEGAN:
            name = BEGAN[type(event)]
            found.append((f"{name} began", where.get(), thread))
            where.set(f"{where.get()} {name}")
        elif type(event) in RETURNED:
            name = RETURNED[type(event)]
            where.set(where.get().removesuffix(f" {name}"))
            found.append((f"{name} returned", where.get(), thread))

    stop = nt.events.listen(hear)
    yield found
    stop()


EXPECTED = [
    ("run began", "outside"),
    ("step began", "outside run"),
    ("attempt began", "outside run step"),
    ("attempt returned", "outside run step"),
    ("step returned", "outside run"),
    ("run returned", "outside"),
]


def in_context(run: Any) -> None:
    """Run with a context of its own, so that no test changes that of another."""
    contextvars.copy_context().run(run)


def test_a_block_its_steps_and_its_tools_are_told_inside_of_each_other(
    tmp_path: Path, heard: list[tuple[str, str, int]]
) -> None:
    bodies = []

    @nt.tool("unsafe_on_replay", name="bodies_mail")
    def mail() -> None:
        bodies.append(where.get())

    def work() -> None:
        with nt.run("r", store=tmp_path / "a.db"), nt.step("s"):
            mail()
        assert where.get() == "outside"

    in_context(work)
    assert [one[:2] for one in heard] == EXPECTED
    assert bodies == ["outside run step attempt"]
    assert len({one[2] for one in heard}) == 1


def test_the_same_is_told_in_an_event_loop_and_in_a_thread_with_a_time_limit(
    tmp_path: Path, heard: list[tuple[str, str, int]]
) -> None:
    @nt.tool("unsafe_on_replay", name="bodies_amail")
    async def amail() -> str:
        return where.get()

    @nt.tool("unsafe_on_replay", name="bodies_limited", time_limit="30s")
    def limited() -> str:
        return where.get()

    async def main() -> None:
        async with nt.run("r", store=tmp_path / "a.db"):
            async with nt.step("s"):
                assert await amail() == "outside run step attempt"
                assert limited() == "outside run step attempt"
        assert where.get() == "outside"

    in_context(lambda: asyncio.run(main()))
    assert [one[:2] for one in heard] == [*EXPECTED[:4], *EXPECTED[2:4], *EXPECTED[4:]]
    assert heard[4][2] == heard[5][2] != heard[0][2]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_graph_tells_of_its_nodes(
    is_async: bool, tmp_path: Path, heard: list[tuple[str, str, int]]
) -> None:
    @nt.tool("unsafe_on_replay", name=f"bodies_node_{is_async}")
    def mail() -> str:
        return where.get()

    flow = nt.Graph("bodies", version="1.0.0")

    async def later(state: Any) -> dict[str, Any]:
        return {"seen": mail()}

    def now(state: Any) -> dict[str, Any]:
        return {"seen": mail()}

    if is_async:
        flow.node(later)
    else:
        flow.node(now)

    def work() -> None:
        outcome: Any = flow.run("r", {}, store=tmp_path / "a.db")
        assert outcome.state["seen"] == "outside run step attempt"
        assert where.get() == "outside"

    in_context(work)
    assert [one[:2] for one in heard] == EXPECTED


def test_a_step_says_how_its_code_returned(tmp_path: Path) -> None:
    found: list[Any] = []
    stop = nt.events.listen(found.append)
    with pytest.raises(KeyError), nt.run("r", store=tmp_path / "a.db"), nt.step("bad"):
        raise KeyError("x")
    with pytest.raises(nt.RunWaits), nt.run("q", store=tmp_path / "a.db"), nt.step("waits"):
        nt.receive("paid")
    stop()
    returned = [one for one in found if type(one) is events.StepReturned]
    assert [(one.step, one.outcome, one.error_type) for one in returned] == [
        ("bad", "failed", "KeyError"),
        ("waits", "waiting", None),
    ]
