"""Does a parent that was killed find the child again that an unrepeatable value led to? (P29)"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.nursery import starting
from tests.postgres import server

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


# Every child mails and then waits until all have mailed. The kill meets all of them under way.
OTHER_INPUTS = """
import asyncio
import json
import os
import signal
import sys
import time

import nottwice as nt

layer, kills = sys.argv[1], sys.argv[2:] == ["kill"]
references = os.environ["REFERENCES"].split()


@nt.tool("unsafe_on_replay")
def send_mail(reference: str) -> None:
    with open("world.txt", "a") as world:
        world.write(reference + "\\n")


child = nt.Graph("child", version="1.0.0")


@child.node(then="end")
def mail(state):
    send_mail(state["reference"])


@child.node
def end(state):
    with open("under_way.txt", "a") as under_way:
        under_way.write(state["reference"] + "\\n")
    while kills:
        with open("under_way.txt") as under_way:
            if len(under_way.readlines()) == len(references):
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.005)


def spawn(reference):
    label = layer if layer == "label" else None
    return nt.spawn(child, {"reference": reference}, label=label).status


async def spawn_later(place, reference):
    # The tasks ask in another order than the killed ones did.
    await asyncio.sleep(0 if kills else 0.1 * (len(references) - place))
    return await asyncio.to_thread(spawn, reference)


async def gather():
    places = enumerate(references)
    return await asyncio.gather(*(spawn_later(place, one) for place, one in places))


def work():
    if layer == "gather":
        return asyncio.run(gather())
    if layer == "branches":
        return nt.map(spawn, references)
    return [spawn(one) for one in references]


parent = nt.Graph("parent", version="1.0.0")


@parent.node
def start(state):
    return {"ends": work()}


try:
    if layer in ("guard", "gather"):
        with nt.run("r", store=os.environ["STORE"]), nt.step("start"):
            ends = work()
    else:
        ends = parent.run("r", store=os.environ["STORE"])
        ends = ends.state["ends"] if ends.status == "completed" else ends.reviews[0].kind.value
except nt.errors.ReplayDriftError:
    ends = "drift"
import json
print(json.dumps(ends))
"""


@pytest.fixture(params=["sqlite", "json files", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return server.ledger_url(tmp_path)
    return str(tmp_path / "agent.db") if request.param == "sqlite" else f"file:{tmp_path}/runs"


def spawning(folder: Path, store: str, layer: str, references: str, *kill: str) -> object:
    program = folder / "program.py"
    program.write_text(OTHER_INPUTS)
    command = [sys.executable, str(program), layer, *kill]
    words = {"STORE": store, "REFERENCES": references}
    done = starting.run(command, cwd=folder, env={**os.environ, **words})
    assert done.returncode == (-signal.SIGKILL if kill else 0), done.stderr
    return None if kill else json.loads(done.stdout)


def mails(folder: Path) -> list[str]:
    return sorted((folder / "world.txt").read_text().split())


@pytest.mark.parametrize("layer", ["graph", "guard", "label"])
def test_another_child_is_refused_while_one_on_record_is_not_asked_for(
    layer: str, store: str, tmp_path: Path
) -> None:
    spawning(tmp_path, store, layer, "a", "kill")
    assert spawning(tmp_path, store, layer, "b") == "drift"
    assert mails(tmp_path) == ["a"]


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("layer", ["gather", "branches"])
def test_one_other_child_among_several_is_refused(layer: str, store: str, tmp_path: Path) -> None:
    spawning(tmp_path, store, layer, "a b c", "kill")
    assert spawning(tmp_path, store, layer, "a x c") == "drift"
    assert mails(tmp_path) == ["a", "b", "c"]


@pytest.mark.parametrize("layer", ["graph", "guard", "label", "gather", "branches"])
def test_killed_children_that_are_asked_for_again_end(
    layer: str, store: str, tmp_path: Path
) -> None:
    references = "a b c" if layer in ("gather", "branches") else "a"
    spawning(tmp_path, store, layer, references, "kill")
    ends = ["completed"] * len(references.split())
    assert spawning(tmp_path, store, layer, references) == ends
    assert mails(tmp_path) == references.split()
