"""When do beats become durable, and are replies and effects always?"""

from __future__ import annotations

import pytest

from tests.agent.test_loop import SCRIPT
from tests.agent.workshop import Workshop


def commits(words: str | int) -> int:
    shop = Workshop(SCRIPT, checkpoints=words)
    shop.finish()
    return shop.host.points // 2


def test_the_more_often_beats_are_kept_the_more_it_costs() -> None:
    counts = [commits(words) for words in ("on_exit", "effects", 4, 2, "every_step")]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    assert commits("1h") == commits("effects")


@pytest.mark.sampled(part="sweeps", keep=2)
@pytest.mark.parametrize("words", ["effects", "every_step", "on_exit", 3, "10ms"])
def test_killed_anywhere_it_ends_the_same_whatever_its_checkpoints(words: str | int) -> None:
    expected = Workshop(SCRIPT, checkpoints=words)
    outcome = expected.finish()
    for dies_at in range(2, expected.host.points + 1, 3):
        shop = Workshop(SCRIPT, checkpoints=words)
        assert shop.run(dies_at=dies_at) is None
        assert shop.finish().state == outcome.state
        assert shop.world.effects == expected.world.effects
        assert len(shop.world.requests) <= 4 + 1, "a reply was paid for twice"
