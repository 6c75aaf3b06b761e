"""Does a parent that was killed find the child again that an unrepeatable value led to? (P29)"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.nursery import starting

PROGRAM = """
import os
import signal
import sys
import uuid

import nottwice as nt


@nt.tool("unsafe_on_replay")
def send_mail(reference: str) -> None:
    with open("world.txt", "a") as world:
        world.write(reference + "\\n")


@nt.tool("pure")
def look_up() -> str:
    return str(uuid.uuid4())


child = nt.Graph("child", version="1.0.0")


@child.node(then="end")
def mail(state):
    send_mail(state["reference"])


@child.node
def end(state):
    if sys.argv[2:] == ["kill"]:
        os.kill(os.getpid(), signal.SIGKILL)


parent = nt.Graph("parent", version="1.0.0")


@parent.node
def start(state):
    nt.spawn(child, {"reference": f"{nt.uuid()} {look_up()}"})


if sys.argv[1] == "graph":
    parent.run("r", store="agent.db")
else:
    with nt.run("r", store="agent.db"), nt.step("start"):
        start({})
"""


@pytest.mark.parametrize("layer", ["graph", "guard"])
def test_a_killed_parent_finds_the_child_that_has_acted(layer: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), layer]
    killed = starting.run([*command, "kill"], cwd=tmp_path)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = starting.run(command, cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert len((tmp_path / "world.txt").read_text().splitlines()) == 1
