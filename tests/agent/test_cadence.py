"""When do beats become durable, and are replies and effects always?"""

from __future__ import annotations

from typing import Any

import pytest

import nottwice as nt
from nottwice.agent.cadence import read_cadence
from tests.agent.test_loop import SCRIPT
from tests.agent.workshop import Workshop


def commits(cadence: str | int) -> int:
    shop = Workshop(SCRIPT, cadence=cadence)
    shop.finish()
    return shop.host.points // 2


def test_the_more_often_beats_are_kept_the_more_it_costs() -> None:
    counts = [commits(cadence) for cadence in ("effects", 4, 2, "every_beat")]
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    assert commits("1h") == commits("effects")


@pytest.mark.parametrize("cadence", ["effects", "every_beat", 3, "10ms"])
def test_killed_anywhere_it_ends_the_same_whatever_the_cadence(cadence: str | int) -> None:
    expected = Workshop(SCRIPT, cadence=cadence)
    outcome = expected.finish()
    for dies_at in range(2, expected.host.points + 1, 3):
        shop = Workshop(SCRIPT, cadence=cadence)
        assert shop.run(dies_at=dies_at) is None
        assert shop.finish().state == outcome.state
        assert shop.world.effects == expected.world.effects
        assert len(shop.world.requests) <= 4 + 1, "a reply was paid for twice"


def test_time_that_passes_makes_beats_durable() -> None:
    shop = Workshop([{"get_order": {"order_id": 7}}, "done"], cadence="30s")
    quick = Workshop([{"get_order": {"order_id": 7}}, "done"], cadence="30s")
    quick.finish()
    read = shop.world.stumble

    def slowly(tool: str) -> None:
        shop.host.clock.advance(60)
        read(tool)

    shop.world.stumble = slowly  # type: ignore[method-assign]
    shop.finish()
    assert shop.host.points > quick.host.points


@pytest.mark.parametrize("given", ["often", 0, -1, True, None, 2.5, "", "0s"])
def test_what_is_no_cadence_is_refused(given: Any) -> None:
    with pytest.raises(nt.UsageError, match="does not say when beats become durable"):
        read_cadence(given)
