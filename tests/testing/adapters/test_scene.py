"""A scene reaches the process that plays it whole, and its world counts what happened."""

from __future__ import annotations

from pathlib import Path

import pytest

import nottwice as nt
from nottwice.testing.adapters import Scene, ScriptedCall


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    script = ((ScriptedCall("charge", {"cents": 5}, "call_0"),), ())
    return Scene(tmp_path, script, answers={"1c6a9990": {"nottwice": {}}})


def test_a_scene_comes_back_from_text_as_it_was(scene: Scene) -> None:
    assert Scene.from_json(scene.to_json()) == scene


def test_the_model_says_what_the_script_has_for_its_number_of_replies(scene: Scene) -> None:
    assert [one.name for one in scene.reply(0)] == ["charge"]
    assert scene.reply(2) == ()


def test_every_effect_is_counted_and_a_read_is_none(scene: Scene) -> None:
    tools = scene.tools
    assert set(tools) == {"charge", "mail", "pay", "read", "refund", "write"}
    assert scene.effects == []
    assert tools["read"]() == "v0"
    tools["charge"](cents=5)
    tools["write"](text="v1")
    assert tools["read"]() == "v1"
    assert scene.effects == ["charge 5", "write v1"]


def test_a_bill_is_declined_once_without_effect(scene: Scene) -> None:
    with pytest.raises(nt.Permanent, match="card declined"):
        scene.pay(3)
    assert scene.effects == []
    assert scene.pay(3) == {"paid": 3}
    assert scene.effects == ["pay 3"]
