"""Are the agents without nottwice honest: right when nothing goes wrong, and only then?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nottwice.cli.demo import unprotected
from nottwice.testing import World


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with World.start() as world:
        monkeypatch.setattr(unprotected, "shop", world.client())
        yield world


def test_without_state_each_start_does_everything(shop: World) -> None:
    unprotected.handle_without_state(7)
    unprotected.handle_without_state(7)
    tools = [effect.tool for effect in shop.effects()]
    assert tools == ["refund", "send_email", "refund", "send_email"]


def test_a_checkpoint_saves_from_repeating_what_is_saved(shop: World, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint.json"
    checkpoint.write_text(json.dumps(["refund"]))
    unprotected.handle_with_checkpoint(7, checkpoint)
    unprotected.handle_with_checkpoint(7, checkpoint)
    assert [effect.tool for effect in shop.effects()] == ["send_email"]
    assert json.loads(checkpoint.read_text()) == ["refund", "send_email"]
    assert list(tmp_path.iterdir()) == [checkpoint]


def test_a_checkpoint_cannot_know_of_an_act_it_did_not_live_to_save(
    shop: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dead(BaseException):
        """Plays the kill between act and save."""

    def die(done: list[str], checkpoint: Path) -> None:
        raise Dead

    checkpoint = tmp_path / "checkpoint.json"
    with monkeypatch.context() as patch:
        patch.setattr(unprotected, "save", die)
        with pytest.raises(Dead):
            unprotected.handle_with_checkpoint(7, checkpoint)
    unprotected.handle_with_checkpoint(7, checkpoint)
    assert shop.count("refund") == 2
