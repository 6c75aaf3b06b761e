"""Is no ledger recreated where one was, unless a person says so (P116)?"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nottwice as nt
from tests.nursery import starting
from tests.store.abilities import ROOT

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
