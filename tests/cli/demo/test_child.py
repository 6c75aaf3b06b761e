"""Does an agent process of the demo do its errand, die at its point, and tell how it ended?"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from nottwice.cli.demo import story as demo_module
from nottwice.testing import World
from nottwice.testing.nursery import Nursery
from nottwice.testing.showcase import WAITS_FOR_A_PERSON, ShowcaseErrand, Way


@pytest.fixture
def shop() -> Iterator[World]:
    with World.start() as world:
        yield world


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    nursery = Nursery(demo_module.NURSERY)
    yield nursery
    nursery.close()


@pytest.fixture
def errand(shop: World, tmp_path: Path) -> ShowcaseErrand:
    return ShowcaseErrand(
        way=Way.NOTTWICE,
        order_id=7,
        shop_url=shop.url,
        script=str(demo_module.AGENT),
        ledger=str(tmp_path / "ledger.db"),
        checkpoint=str(tmp_path / "checkpoint.json"),
    )


@pytest.mark.parametrize("way", list(Way))
def test_every_way_handles_its_ticket_and_names_its_points(
    way: Way, nursery: Nursery, shop: World, errand: ShowcaseErrand
) -> None:
    ended = nursery.run(replace(errand, way=way).to_json(), limit_seconds=60)
    assert ended.returncode == 0, ended.complaints
    assert [effect.tool for effect in shop.effects()] == ["refund", "send_email"]
    assert "after the effect of refund" in json.loads(ended.output)


def test_an_agent_dies_at_its_point_and_waits_when_it_cannot_know(
    nursery: Nursery, shop: World, errand: ShowcaseErrand
) -> None:
    fatal = replace(errand, die_at="after the effect of send_email")
    assert nursery.run(fatal.to_json(), limit_seconds=60).returncode == -signal.SIGKILL
    again = nursery.run(errand.to_json(), limit_seconds=60)
    assert again.returncode == WAITS_FOR_A_PERSON
    assert shop.count() == 2
