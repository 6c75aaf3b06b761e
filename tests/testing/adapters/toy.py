"""Drives the toy framework of the guide, with its adapter and with adapters that are wrong."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import nottwice as nt
from nottwice import adapters
from nottwice.testing.adapters import Driven, Scene
from nottwice.testing.adapters import scene as scenes
from tests.tidy import documents
from tests.tidy.source import ROOT

MOST_THREADS = 0
"""How many calls are made at the same time. 0: all."""
GUIDE = "docs/guides/write-an-adapter.md"


def load_guide() -> dict[str, Any]:
    """What the code on the page defines; nothing is started."""
    text = (ROOT / GUIDE).read_text(encoding="utf-8")
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in documents.blocks(GUIDE, text):
        if block.language == "python":
            exec(compile(block.code, GUIDE, "exec"), namespace)
    return namespace


def drive(scene: Scene) -> Driven:
    """Play a scene with the toy. The calls of one reply are made in threads."""
    page = load_guide()

    def bare(function: Any) -> Any:
        return lambda thread, arguments, answers: function(**arguments)

    tools = {name: bare(function) for name, function in scene.tools.items()}
    if scene.protected:
        tools = page["protect"](scene.tools, scene.store, scene.declared)
    told: list[str] = []
    replies = 0
    while asked := scene.reply(replies):
        replies += 1
        toys = [page["Toy"](page["scripted"]((one.name, one.arguments)), tools) for one in asked]
        with ThreadPoolExecutor(MOST_THREADS or len(toys)) as pool:
            turns = [pool.submit(toy.turn, scene.thread, dict(scene.answers)) for toy in toys]
        errors = [turn.exception() for turn in turns]
        if any(errors):
            stopped = [str(one) for one in errors if one and not isinstance(one, page["Paused"])]
            paused = [one.args[0] for one in errors if isinstance(one, page["Paused"])]
            return Driven(told, paused, stopped[0] if stopped else "")
        told += [turn.result()[0] for turn in turns]
    return Driven(told)


# Adapters that are wrong, each in its own way.


def drive_without_protection(scene: Scene) -> Driven:
    return drive(replace(scene, protected=False))


def drive_with_a_run_of_its_own(scene: Scene) -> Driven:
    return drive(replace(scene, thread=uuid.uuid4().hex))


def drive_with_recorded_reads(scene: Scene) -> Driven:
    """Every call is an effect, so a read after a write is answered from its receipt."""
    with patch.object(Scene, "declared", {}):
        return drive(scene)


def drive_with_a_yes_that_decides(scene: Scene) -> Driven:
    right = adapters.answer

    def wrong(handle: Any, review: Any, given: Any, **words: Any) -> Any:
        if given is True:
            given = nt.did_not_happen().payload(review, by="the framework", why="yes")
        return right(handle, review, given, **words)

    with patch.object(adapters, "answer", wrong):
        return drive(scene)


def drive_with_doubts_told_to_the_model(scene: Scene) -> Driven:
    with patch.object(adapters, "verdict_of", lambda error: "told_to_model"):
        return drive(scene)


def drive_one_by_one(scene: Scene) -> Driven:
    with patch(f"{__name__}.MOST_THREADS", 1), patch.object(scenes, "MOST_LOOKS", 20):
        return drive(scene)


def drive_with_classes_alone(scene: Scene) -> Driven:
    """What identifies an effect, and what needs an approval, does not reach the ledger."""
    with patch.object(Scene, "declared", scene.classes):
        return drive(scene)


def drive_into_a_stop(scene: Scene) -> Driven:
    return Driven(stopped="the store is away")
