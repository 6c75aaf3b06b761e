"""Is no ledger recreated where one was, unless a person says so (P116)?"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import nottwice as nt
from tests.nursery import starting
from tests.store.abilities import ROOT
from tests.store.test_upgrade_under_kills import in_child

STORES = Path(nt.__file__).parent / "store"
MAKES_LEDGERS = (str(STORES / "sqlite"), str(STORES / "machine"))

AGENT = """
import os, signal, sys
import nottwice as nt

@nt.tool("unsafe_on_replay")
def mail(to: str) -> str:
    with open(sys.argv[2], "a") as file:
        file.write(to + "\\n")
    return "sent"

with nt.run("invoice-7", store=sys.argv[1]):
    mail("ann")
    if sys.argv[3:] == ["dies"]:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def agent(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    given = [str(folder / "agent.db"), str(folder / "effects.txt"), *words]
    command = [sys.executable, "-c", AGENT, *given]
    return starting.run(command, cwd=ROOT)


def sent(folder: Path) -> list[str]:
    return (folder / "effects.txt").read_text().split()


@pytest.mark.parametrize("dies", [False, True])
def test_nothing_is_done_again_after_a_ledger_was_deleted(tmp_path: Path, *, dies: bool) -> None:
    ended = agent(tmp_path, *(["dies"] if dies else []))
    assert ended.returncode == (-signal.SIGKILL if dies else 0), ended.stderr
    (tmp_path / "agent.db").unlink()
    for _ in range(2):
        refused = agent(tmp_path)
        assert refused.returncode == 1
        assert "LedgerDeleted: There is no ledger at" in refused.stderr
    assert sent(tmp_path) == ["ann"]
    assert not (tmp_path / "agent.db").exists()


def test_a_caller_who_removes_what_the_error_names_starts_over(tmp_path: Path) -> None:
    agent(tmp_path, "dies")
    (tmp_path / "agent.db").unlink()
    with pytest.raises(nt.errors.LedgerDeleted, match="remove what it left: rm ") as refused:
        nt.Ledger(tmp_path / "agent.db")
    command = shlex.split(str(refused.value).partition("what it left: ")[2])
    assert {Path(word).name for word in command[1:]} == {"agent.db.holders", "agent.db-wal"}
    subprocess.run(command, check=True)
    assert agent(tmp_path).returncode == 0
    assert sent(tmp_path) == ["ann", "ann"]


@pytest.mark.parametrize("left", ["", "\n"])
@pytest.mark.parametrize("dies", [False, True])
def test_nothing_is_done_again_after_a_ledger_was_emptied(
    tmp_path: Path, left: str, *, dies: bool
) -> None:
    agent(tmp_path, *(["dies"] if dies else []))
    (tmp_path / "agent.db").write_text(left)
    for _ in range(2):
        refused = agent(tmp_path)
        assert refused.returncode == 1
        assert "LedgerDeleted: " in refused.stderr
        assert "it was emptied or replaced. Nothing was written" in refused.stderr
    assert sent(tmp_path) == ["ann"]
    command = shlex.split(refused.stderr.partition("what it left: ")[2])
    assert command == ["rm", str(tmp_path / "agent.db.holders")]
    subprocess.run(command, check=True)
    assert agent(tmp_path).returncode == 0
    assert sent(tmp_path) == ["ann", "ann"]


def test_a_ledger_whose_file_another_program_made_again_was_emptied_too(tmp_path: Path) -> None:
    agent(tmp_path)
    (tmp_path / "agent.db").unlink()
    with contextlib.closing(sqlite3.connect(tmp_path / "agent.db")) as saver:
        saver.execute("CREATE TABLE checkpoints (thread_id TEXT)")
    assert "LedgerDeleted: " in agent(tmp_path).stderr
    assert sent(tmp_path) == ["ann"]


def killed_at(nth: int) -> Callable[[FrameType, str, Any], Any]:
    """A tracer that kills this process at the nth line of the rooms that make a ledger."""
    seen = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if not frame.f_code.co_filename.startswith(MAKES_LEDGERS):
            return None
        if event == "line":
            seen += 1
            if seen == nth:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    return trace


@pytest.mark.sampled(part="sweeps", keep=1)
@pytest.mark.parametrize("first", [1, 14, 27])
def test_a_first_start_may_be_killed_anywhere_and_the_next_one_works(
    tmp_path: Path, first: int
) -> None:
    for nth in range(first, 10_000, 41):
        ledger = tmp_path / f"{nth}.db"

        def first_start(nth: int = nth, ledger: Path = ledger) -> None:
            sys.settrace(killed_at(nth))
            nt.Ledger(ledger)
            sys.settrace(None)

        def next_start(ledger: Path = ledger) -> None:
            nt.Ledger(ledger).close()
            ledger.write_bytes(b"")
            with pytest.raises(nt.errors.LedgerDeleted):
                nt.Ledger(ledger)

        ended = in_child(first_start)
        assert in_child(next_start) == 0, nth
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
    assert nth > 100


def test_a_log_alone_is_enough_to_refuse(tmp_path: Path) -> None:
    (tmp_path / "agent.db-wal").write_bytes(b"the last commits")
    with pytest.raises(nt.errors.LedgerDeleted, match=r"agent\.db-wal is still there"):
        nt.Ledger(tmp_path / "agent.db")
    assert (tmp_path / "agent.db-wal").read_bytes() == b"the last commits"


def test_this_very_process_does_not_begin_again_either(tmp_path: Path) -> None:
    with nt.run("r", store=tmp_path / "agent.db"):
        pass
    for file in ("agent.db", "agent.db-wal", "agent.db-shm"):
        (tmp_path / file).unlink(missing_ok=True)
    with pytest.raises(nt.errors.LedgerDeleted), nt.run("r", store=tmp_path / "agent.db"):
        pass


def test_who_only_looks_hears_that_there_is_no_ledger(tmp_path: Path) -> None:
    (tmp_path / "agent.db.holders").touch()
    with pytest.raises(nt.errors.NoLedger):
        nt.Ledger(tmp_path / "agent.db", create=False)


def test_many_processes_that_make_one_ledger_do_not_take_it_for_deleted(tmp_path: Path) -> None:
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        command = [sys.executable, "-m", "tests.store.programs", "crowd", str(folder / "a.db"), "8"]
        ended = starting.run(command, cwd=ROOT)
        assert '"started": 8' in ended.stdout, ended.stdout + ended.stderr
        assert os.path.exists(folder / "a.db.holders")
