"""How often does a call wait for the disk? Counted at the kernel, through the public API."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import nottwice as nt

@nt.tool("unsafe_on_replay")
def send(to: str) -> str:
    return "sent"

@nt.tool("pure")
def look_up(to: str) -> str:
    return "found"

path, effects, replays, pure = sys.argv[1], *map(int, sys.argv[2:])
with nt.run("r", store=path):
    for number in range(effects):
        send(f"user {number}")
    for number in range(replays):
        send(f"user {number % max(effects, 1)}")
    for number in range(pure):
        look_up(f"user {number}")
"""


def syncs(folder: Path, effects: int, replays: int = 0, pure: int = 0) -> int:
    """How many fsync and fdatasync calls a program of so many calls makes, all in all."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    folder.mkdir()
    trace = folder / "trace"
    command = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(trace)]
    counts = [str(count) for count in (effects, replays, pure)]
    subprocess.run(
        [*command, sys.executable, "-c", PROGRAM, str(folder / "agent.db"), *counts],
        check=True,
        timeout=120,
    )
    return len(re.findall(r"\bf(?:data)?sync\(", trace.read_text(encoding="utf-8")))


def test_an_effect_costs_two_syncs_and_a_replay_none(tmp_path: Path) -> None:
    few = syncs(tmp_path / "few", effects=5)
    assert syncs(tmp_path / "more", effects=25) - few == 2 * 20
    assert syncs(tmp_path / "replayed", effects=5, replays=50) == few


def test_a_pure_call_costs_no_sync_of_its_own(tmp_path: Path) -> None:
    few = syncs(tmp_path / "few", effects=5)
    assert syncs(tmp_path / "pure", effects=5, pure=50) == few
