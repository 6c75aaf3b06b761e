"""One agent process of ``nottwice demo``: it does its errand, and dies where it is told to.

Its parent is ``python -m nottwice.cli.demo_child``, which forks one for every line it reads. What
an agent that lives prints is the list of points at which it could have died.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import assert_never

import nottwice as nt
from nottwice.cli import demo_agent, demo_unprotected
from nottwice.testing.fatal import FatalClient, FatalStore, Points
from nottwice.testing.nursery import serve
from nottwice.testing.showcase import WAITS_FOR_A_PERSON, Errand, Way


def run(text: str) -> int:
    """Do an errand; the exit code says whether the run is through or waits for a person."""
    errand = Errand.from_json(text)
    points = Points(die_at=errand.die_at)
    demo_agent.shop = demo_unprotected.shop = FatalClient(errand.shop_url, points)
    match errand.way:
        case Way.NO_STATE:
            demo_unprotected.handle_without_state(errand.order_id)
        case Way.CHECKPOINT:
            demo_unprotected.handle_with_checkpoint(errand.order_id, Path(errand.checkpoint))
        case Way.NOTTWICE:
            store = FatalStore(Path(errand.ledger), points, intents=errand.intents)
            try:
                demo_agent.handle(errand.ticket, errand.order_id, store=nt.open(store))
            except nt.RunBlocked:
                return WAITS_FOR_A_PERSON
        case _:
            assert_never(errand.way)
    print(json.dumps(points.passed))
    return 0


if __name__ == "__main__":
    serve(run)
