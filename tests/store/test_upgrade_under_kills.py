"""An older ledger is upgraded once, completely or not at all, whichever process opens or dies.

Real processes on a real file: one is killed at every line of the upgrade, several open it together.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import nottwice as nt
from nottwice.store.sqlite import schema as sqlite_schema
from nottwice.store.sqlite.schema import peek
from tests.store import kept_ledgers as kept

OLDEST = kept.NEWEST
KNOWN = kept.TO_COME[-1].number
FULL = os.environ.get("NOTTWICE_EVERY_LINE") == "1"
STRIDE = 1 if FULL else 2
PROCESSES = 6


def in_child(work: Callable[[], None]) -> int:
    """Do something in a forked process, and say how that ended."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(line: int) -> Callable[[FrameType, str, Any], Any]:
    """A tracer that kills this process at the n-th line of the upgrade."""
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if frame.f_code is not sqlite_schema.bring_forward.__code__:
            return None
        if event == "line":
            seen += 1
            if seen == line:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


def open_it(path: Path, line: int = 0) -> None:
    if line:
        sys.settrace(killed_at(line))
    nt.Ledger(path).close()


@pytest.fixture(autouse=True)
def a_nottwice_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The upgrade is that of one that knows more scripts than this one."""
    kept.become_a_nottwice_to_come(monkeypatch)


@pytest.fixture(scope="module")
def whole_shapes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, list[str]]:
    """What an uninterrupted ledger of each version looks like."""
    folder = tmp_path_factory.mktemp("whole")
    shapes: dict[int, list[str]] = {}
    for number in range(OLDEST, KNOWN + 1):
        path = folder / f"{number}.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            kept.restore(OLDEST, path)
            scripts = kept.TO_COME[:number]
            sqlite_schema.bring_forward(connection, str(path), scripts=scripts)
        shapes[number] = kept.shape(path)[2]
    return shapes


def test_killed_at_any_line_of_the_upgrade_it_is_of_one_version_and_continues(
    tmp_path: Path, whole_shapes: dict[int, list[str]]
) -> None:
    killed, versions, line = 0, set(), 1
    while True:
        path = tmp_path / f"{line}.db"
        kept.restore(OLDEST, path)
        ended = in_child(lambda path=path, line=line: open_it(path, line))  # type: ignore[misc]
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        killed += 1
        version, sound, tables = kept.shape(path)
        versions.add(version)
        assert sound == "ok"
        assert tables == whole_shapes[version], f"killed at line {line}: half of a version"
        assert in_child(lambda path=path: open_it(path)) == 0  # type: ignore[misc]
        assert kept.shape(path) == (KNOWN, "ok", whole_shapes[KNOWN])
        line += STRIDE
    assert killed > 5
    assert len(versions) > 1


def test_several_that_open_an_old_ledger_at_once_bring_it_forward_once(
    tmp_path: Path, whole_shapes: dict[int, list[str]]
) -> None:
    path = tmp_path / "agent.db"
    kept.restore(OLDEST, path)
    gate_out, gate_in = os.pipe()
    pids = []
    for _ in range(PROCESSES):
        pid = os.fork()
        if pid == 0:
            os.close(gate_in)
            os.read(gate_out, 1)
            status = 1
            try:
                open_it(path)
                status = 0
            finally:
                os._exit(status)
        pids.append(pid)
    os.close(gate_out)
    # Closing it lets all of them go at the same moment.
    os.close(gate_in)
    ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert ended == [0] * PROCESSES
    assert kept.shape(path) == (KNOWN, "ok", whole_shapes[KNOWN])
    assert peek(path) == KNOWN
    kept.sent.clear()
    assert kept.agent("done", "ann", str(path)) == [{"order": 3}, "mailed ann"]
    assert kept.sent == []
