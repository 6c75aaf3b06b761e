"""Can a process continue after Ctrl-C, wherever it strikes (P118)?

The interrupt is raised after every instruction behind which Python looks for signals: a call, a
jump backwards, the entry of a function.
"""

from __future__ import annotations

import asyncio
import contextlib
import dis
import functools
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import nottwice as nt
from nottwice.engine.session import current_attempt, current_scope

SOURCE = Path(nt.__file__).parent
LOOKS_FOR_SIGNALS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "RESUME", "JUMP_BACKWARD"}
sent: list[str] = []


class Interrupt(KeyboardInterrupt):
    """What Ctrl-C raises, told apart from a real one."""


@nt.tool("unsafe_on_replay", name="interrupted_mail")
def mail(to: str) -> str:
    sent.append(to)
    return "sent"


@nt.tool("pure", name="interrupted_look")
def look() -> str:
    return "seen"


def work(store: str) -> str:
    with nt.run("r", store=store):
        return mail("ann")


def work_with_pending_writes(store: str) -> str:
    with nt.run("r", store=store):
        look()
        return mail("ann")


flow = nt.Graph("interrupted", version="1.0.0")


@flow.node
def send(state: dict[str, Any]) -> dict[str, Any]:
    return {"answer": mail("ann")}


def work_in_graph(store: str) -> str:
    outcome = flow.run("r", {}, store=store)
    # If the attempt is in doubt, the run waits for a person.
    return "sent" if outcome.status == "waiting" else str(outcome.state["answer"])


async def work_async(store: str) -> str:
    async with nt.run("r", store=store):
        return await asyncio.to_thread(lambda: "idle") and mail("ann")


def in_loop(store: str) -> str:
    """The work in a loop of its own, which ends as asyncio.run ends one after an interrupt."""
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        try:
            task = loop.create_task(work_async(store))
            return loop.run_until_complete(task)
        finally:
            sys.settrace(None)
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                _, pending = loop.run_until_complete(asyncio.wait(left, timeout=20))
                assert not pending, "a task waits forever"


@functools.cache
def instructions(code: CodeType) -> dict[int, str]:
    return {one.offset: one.opname for one in dis.get_instructions(code)}


class Striking:
    """Interrupts at the nth place in some files; ``at`` says where."""

    def __init__(self, nth: int, files: tuple[str, ...]) -> None:
        self.left, self.at = nth, ""
        self._files = tuple(str(SOURCE / file) for file in files)
        self._before: dict[int, str | None] = {}

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if self.at or not frame.f_code.co_filename.startswith(self._files):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._look

    def _look(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "opcode" and not self.at:
            now = instructions(frame.f_code).get(frame.f_lasti)
            before = self._before.get(id(frame))
            self._before[id(frame)] = now
            if before in LOOKS_FOR_SIGNALS and now != "PUSH_EXC_INFO":
                self.left -= 1
                if not self.left:
                    self.at = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
                    raise Interrupt
        elif event == "return":
            self._before.pop(id(frame), None)
        return self._look


LOCKS = ("store/machine/locks.py", "store/machine/ofd.py")
CALLS = tuple(f"engine/calls/{name}.py" for name in ("alone", "dispatch", "in_flight"))
LEAVING = ("guard/run.py", "engine/drivers.py")
BODIES = ("engine/bodies.py", "engine/drivers.py")
LOOP = ("store/shared.py", "store/soon.py", "guard/run.py")


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.filterwarnings("ignore:.*:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:.*never awaited:RuntimeWarning")
@pytest.mark.parametrize(
    ("place", "do", "files", "stride"),
    [
        ("file:runs", work, LOCKS, 3),
        ("agent.db", work, CALLS, 1),
        ("agent.db", in_loop, LOOP, 1),
        ("file:runs", in_loop, LOOP, 3),
        ("agent.db", work_with_pending_writes, LEAVING, 1),
        ("agent.db", in_loop, LEAVING, 1),
        ("agent.db", work_in_graph, BODIES, 1),
        ("file:runs", work_with_pending_writes, LEAVING, 3),
    ],
)
def test_an_interrupt_anywhere_leaves_the_ledger_and_the_run_usable(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    do: Callable[[str], str],
    files: tuple[str, ...],
    stride: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    points = 0
    # How long the end of a block waits for calls in flight. None is, so it must not wait at all.
    monkeypatch.setattr("nottwice.guard.run.DRAIN_SECONDS", 0.1)
    waited: list[object] = []
    monkeypatch.setattr("nottwice.guard.run.wait", lambda *calls, **_: waited.append(calls))
    # Python 3.12 looks whether any frame wants opcodes only when tracing is switched on.
    sys._getframe().f_trace_opcodes = True
    while True:
        folder = tmp_path / str(points)
        folder.mkdir()
        monkeypatch.chdir(folder)
        nt.Ledger(place).close()
        sent.clear()
        striking = Striking(1 + points * stride, files)
        before = sys.gettrace()
        with contextlib.suppress(Interrupt, nt.NottwiceError):
            sys.settrace(striking)
            try:
                do(place)
            finally:
                sys.settrace(before)
        if not striking.at:
            break
        # Code that continues must not seem to be inside the run, or inside the tool.
        assert (current_scope.get(), current_attempt.get()) == (None, None), striking.at
        assert "is held until its last attempts" not in caplog.text, striking.at
        try:
            assert do(place) == "sent", striking.at
        except nt.errors.ReplayUnsafeError:
            pass
        except nt.RunBusy as busy:
            pytest.fail(f"{busy} after {striking.at}")
        assert len(sent) <= 1, striking.at
        assert not waited, striking.at
        points += 1
    assert points > 10
    # An interrupt may leave a connection that nothing names. Its warning is expected here only.
    gc.collect()
