"""A run without a graph has the version that its program says, compared like that of a graph."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import nottwice as nt
from nottwice.errors import InvalidGraph, WorkflowVersionMismatch
from tests.nursery import starting

SENT: list[str] = []


@nt.tool("unsafe_on_replay")
def plain_mail(to: str) -> str:
    SENT.append(to)
    return f"mailed {to}"


@pytest.fixture(params=["ledger.db", "file:ledger"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    SENT.clear()
    prefix, _, name = request.param.rpartition(":")
    return f"{prefix}:{tmp_path / name}" if prefix else str(tmp_path / name)


def begin(store: str, version: str | None, run_id: str = "r") -> None:
    with pytest.raises(ConnectionError), nt.run(run_id, store=store, version=version):
        plain_mail("ann")
        raise ConnectionError


@pytest.mark.parametrize("version", ["1.2.0", "1.2.1", "1.2.7"])
def test_a_patch_resumes_it_with_its_receipts(store: str, version: str) -> None:
    begin(store, "1.2.1")
    with nt.run("r", store=store, version=version):
        assert plain_mail("ann") == "mailed ann"
        plain_mail("bob")
    assert SENT == ["ann", "bob"]


@pytest.mark.parametrize("version", ["1.3.0", "1.1.9", "2.0.0"])
def test_any_other_version_is_refused_and_says_what_to_do(store: str, version: str) -> None:
    begin(store, "1.2.0")
    for _ in range(2):
        with pytest.raises(WorkflowVersionMismatch) as caught:
            nt.run("r", store=store, version=version).__enter__()
    text = str(caught.value)
    assert f"version {version}" in text
    assert "version='1.2.0'" in text
    assert "version='1.2.1'" in text
    assert "nottwice cancel r" in text
    assert "nt.run('r-2'" in text
    assert (caught.value.facts["bound"], caught.value.facts["deployed"]) == ("1.2.0", version)
    assert SENT == ["ann"]
    # Nothing was done to it: the old code continues.
    with nt.run("r", store=store, version="1.2.0"):
        plain_mail("ann")
    assert SENT == ["ann"]


def test_each_way_that_the_error_names_works(store: str) -> None:
    begin(store, "1.2.0")
    with nt.run("r-2", store=store, version="2.0.0"):
        plain_mail("ann")
    assert SENT == ["ann", "ann"]
    with nt.run("r", store=store, version="1.2.1"):
        plain_mail("ann")
    assert SENT == ["ann", "ann"]
    begin(store, "1.2.0", "unwanted")
    with nt.Ledger(store) as ledger:
        nt.App(graphs=[], store=ledger).cancel("unwanted", by="ann", why="no longer wanted")
    with pytest.raises(nt.errors.RunAborted):
        nt.run("unwanted", store=store, version="1.2.0").__enter__()


def test_code_that_gives_no_version_does_not_resume_a_run_that_has_one(store: str) -> None:
    begin(store, "1.2.0")
    with pytest.raises(WorkflowVersionMismatch, match="gives no version"):
        nt.run("r", store=store).__enter__()
    assert SENT == ["ann"]


def test_a_run_that_began_without_a_version_is_not_compared(store: str) -> None:
    begin(store, None)
    for version in ("1.0.0", "2.0.0", None):
        with nt.run("r", store=store, version=version):
            plain_mail("ann")
    assert SENT == ["ann"]


def test_a_block_inside_of_the_same_run_is_compared_too(store: str) -> None:
    with nt.run("r", store=store, version="1.2.0"):
        with nt.run("r", store=store, version="1.2.4"):
            plain_mail("ann")
        with nt.run("r", store=store):
            plain_mail("ann")
        with pytest.raises(WorkflowVersionMismatch):
            nt.run("r", store=store, version="2.0.0").__enter__()
    assert SENT == ["ann"]


def test_async_blocks_and_ledgers_take_it_too() -> None:
    SENT.clear()

    async def opened(ledger: nt.Ledger, version: str) -> None:
        async with ledger.run("r", version=version):
            plain_mail("ann")

    with nt.Ledger(":memory:") as ledger:
        asyncio.run(opened(ledger, "1.0.0"))
        asyncio.run(opened(ledger, "1.0.1"))
        with pytest.raises(WorkflowVersionMismatch):
            asyncio.run(opened(ledger, "2.0.0"))
    assert SENT == ["ann"]


@pytest.mark.parametrize("version", ["1", "1.0", "v1.0.0", "", 1.0])
def test_a_version_is_three_numbers(tmp_path: Path, version: str) -> None:
    with pytest.raises(InvalidGraph, match="Write three numbers"):
        nt.run("r", store=tmp_path / "ledger.db", version=version)


PROGRAM = """
import os, signal, sys
import nottwice as nt

@nt.tool("unsafe_on_replay")
def mail(to: str) -> str:
    with open("world.txt", "a") as world:
        world.write(to + "\\n")
    return to

with nt.run("killed", store=sys.argv[1], version=sys.argv[2]):
    mail("ann")
    if len(sys.argv) > 3:
        os.kill(os.getpid(), signal.SIGKILL)
    mail("bob")
"""


def python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(PROGRAM)
    command = [sys.executable, *words]
    return starting.run(command, cwd=folder, env={**os.environ})


@pytest.mark.parametrize("store", ["agent.db", "file:agent"])
def test_the_version_of_a_killed_process_is_on_record(tmp_path: Path, store: str) -> None:
    killed = python(tmp_path, "program.py", store, "1.2.0", "KILL")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    refused = python(tmp_path, "program.py", store, "2.0.0")
    assert "WorkflowVersionMismatch" in refused.stderr
    assert (tmp_path / "world.txt").read_text() == "ann\n"

    shown = python(tmp_path, "-m", "nottwice", "show", "killed", "--store", store).stdout
    assert "version" in shown
    assert "1.2.0" in shown
    (version,) = json.loads(
        python(
            tmp_path, "-m", "nottwice", "runs", "--by-version", "--json", "--store", store
        ).stdout
    )["versions"]
    assert (version["graph"], version["version"]) == (None, "1.2.0")
    assert (version["open"], version["removal"]) == (1, "open_runs")
    table = python(tmp_path, "-m", "nottwice", "runs", "--by-version", "--store", store).stdout
    assert "nt.run 1.2.0" in table

    assert python(tmp_path, "program.py", store, "1.2.1").returncode == 0
    assert (tmp_path / "world.txt").read_text() == "ann\nbob\n"
    (version,) = json.loads(
        python(
            tmp_path, "-m", "nottwice", "runs", "--by-version", "--json", "--store", store
        ).stdout
    )["versions"]
    assert (version["open"], version["removal"]) == (0, "no_open_runs")


def test_the_state_file_names_the_version(tmp_path: Path) -> None:
    begin(f"file:{tmp_path}", "1.2.0")
    (file,) = tmp_path.glob("*.json")
    assert json.loads(file.read_text())["workflow_version"] == "1.2.0"
