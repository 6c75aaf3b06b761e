"""The published claims of an adapter, with LangChain and LangGraph, and real kills (P260, P263).

Importing LangChain takes seconds. So this process does it once, does nothing else with it, and
forks a real process for every scene.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from dataclasses import asdict, fields
from typing import Any

from nottwice.testing.adapters import AdapterConformance, Scene
from nottwice.testing.adapters.child import load_driver
from nottwice.testing.adapters.suite import Call
from tests.langchain.inside.places import place_for


class PlacedScene(Scene):
    """A scene whose ledger is in the database that is tested."""

    @property
    def store(self) -> str:
        return place_for(self.folder)


class Forking(AdapterConformance):
    """The suite in forked processes."""

    driver = ""
    repeats = True

    def scene(self, replies: list[list[Call]], **options: Any) -> Scene:
        told = super().scene(replies, **options)
        return PlacedScene(**{each.name: getattr(told, each.name) for each in fields(told)})

    def process(self, scene: Scene) -> subprocess.CompletedProcess[str]:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            _play(load_driver(self.driver), scene, writing)
        os.close(writing)
        with os.fdopen(reading) as said:
            text = said.read()
        _, status = os.waitpid(pid, 0)
        return subprocess.CompletedProcess([], os.waitstatus_to_exitcode(status), text, text)


def _play(drive: object, scene: Scene, writing: int) -> None:
    """Play a scene and end this process, whatever happens."""
    code = 1
    try:
        assert callable(drive)
        text = json.dumps(asdict(drive(scene)))
        code = 0
    except BaseException:
        text = traceback.format_exc()
    with os.fdopen(writing, "w") as out:
        out.write(text)
    sys.stderr.flush()
    os._exit(code)


class TestAgent(Forking):
    """`create_agent`, async, continued from the checkpoints of `NottwiceSaver`."""

    driver = "tests.langchain.inside.driving:drive_agent"


class TestNode(Forking):
    """`ToolNode` in a `StateGraph`, sync, asked again from the beginning: no checkpoint is left."""

    driver = "tests.langchain.inside.driving:drive_node"


class TestTask(Forking):
    """`@task` in an `@entrypoint`, sync, continued from the writes that `NottwiceSaver` has."""

    driver = "tests.langchain.inside.driving:drive_task"


# Only what is called Test is collected, and the driver is imported before the first fork.
load_driver(TestAgent.driver)
