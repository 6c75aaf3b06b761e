"""The published claims of an adapter, with LangChain and LangGraph, and real kills (P260, P263).

Importing LangChain takes seconds. So this process does it once, and forks for every scene.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from nottwice.testing.adapters import Scene
from nottwice.testing.adapters.child import load_driver
from nottwice.testing.adapters.suite import Call
from tests.langchain.inside.places import place_for
from tests.testing.adapters.forking import Forking


class PlacedScene(Scene):
    """A scene whose ledger is in the database that is tested."""

    @property
    def store(self) -> str:
        return place_for(self.folder)


class OnLangGraph(Forking):
    """What every way to use LangGraph can do."""

    def scene(self, replies: list[list[Call]], **options: Any) -> Scene:
        told = super().scene(replies, **options)
        return PlacedScene(**{each.name: getattr(told, each.name) for each in fields(told)})


class OnLangChain(OnLangGraph):
    """What every agent and graph of LangChain can do."""

    repeats = True
    declares = True
    streams = True
    shows_schemas = True


class TestAgent(OnLangChain):
    """`create_agent`, async, continued from the checkpoints of `NottwiceSaver`."""

    driver = "tests.langchain.inside.driving:drive_agent"


class TestNode(OnLangChain):
    """`ToolNode` in a `StateGraph`, sync, asked again from the beginning: no checkpoint is left."""

    driver = "tests.langchain.inside.driving:drive_node"


class TestTask(OnLangGraph):
    """`@task` in an `@entrypoint`, sync, continued from the writes that `NottwiceSaver` has."""

    driver = "tests.langchain.inside.driving:drive_task"


# Only what is called Test is collected, and the driver is imported before the first fork.
load_driver(TestAgent.driver)
