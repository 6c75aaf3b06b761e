"""Does the process table tell only what it can know (P8, P57, P115)?"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from nottwice.model.run import HolderRecord, Life
from nottwice.store.machine import process_table
from nottwice.store.machine.locks import describe_this_process
from nottwice.store.machine.process_table import life_of, start_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs the Linux process table")
NO_SUCH_PID = 2**22 + 7


@pytest.fixture
def here() -> HolderRecord:
    return describe_this_process(0.0)


def test_a_process_that_is_there_is_alive(here: HolderRecord) -> None:
    assert life_of(replace(here, holder_id="there"), here=here) is Life.ALIVE


def test_a_process_that_is_gone_is_dead(here: HolderRecord) -> None:
    assert life_of(replace(here, pid=NO_SUCH_PID), here=here) is Life.DEAD


def test_a_process_of_another_start_is_another_one(here: HolderRecord) -> None:
    assert life_of(replace(here, pid_started="1"), here=here) is Life.DEAD


def test_a_process_that_is_dead_and_not_yet_buried_is_dead(here: HolderRecord) -> None:
    with subprocess.Popen(["true"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert life_of(replace(here, pid=child.pid), here=here) is Life.DEAD


@pytest.mark.parametrize(
    "differs",
    [
        {"boot_id": "another"},
        {"boot_id": ""},
        {"pid_namespace": "pid:[another]"},
        {"pid_namespace": ""},
        {"pid_started": ""},
    ],
)
def test_about_another_boot_or_namespace_it_tells_nothing(
    here: HolderRecord, differs: dict[str, Any]
) -> None:
    assert life_of(replace(here, **differs), here=here) is None
    assert life_of(replace(here, pid=NO_SUCH_PID, **differs), here=here) is None
    assert life_of(here, here=replace(here, **differs)) is None or "pid_started" in differs


@pytest.mark.parametrize("hidden", ["stat", "status"])
def test_a_process_that_exists_and_is_hidden_is_not_dead(
    here: HolderRecord, hidden: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with ``hidepid`` in the options of /proc, or where /proc is not mounted."""
    whole = process_table.read_text
    monkeypatch.setattr(
        process_table, "read_text", lambda path: "" if path.endswith(f"/{hidden}") else whole(path)
    )
    if hidden == "status":
        monkeypatch.setattr(os, "readlink", lambda path: "12345678")
    assert life_of(here, here=here) is None


def test_a_table_of_another_namespace_tells_nothing(
    here: HolderRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after ``unshare --pid`` without a /proc of its own; tests/kill/test_containers.py does."""
    monkeypatch.setattr(process_table, "read_text", lambda path: "NSpid:\t4711\t1")
    assert process_table.own_start() == ""
    assert life_of(here, here=here) is None


def test_the_start_of_a_process_is_a_number(here: HolderRecord) -> None:
    assert start_of(os.getpid()).isdigit()
    assert start_of(os.getpid()) == here.pid_started
    assert start_of(NO_SUCH_PID) == ""
