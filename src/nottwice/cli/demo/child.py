"""One agent process of ``nottwice demo``: it does its errand, and dies at a given point.

Its parent is ``python -m nottwice.cli.demo.child``, which forks one for every line it reads. What
an agent that lives prints is the list of points at which it could have died.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any, assert_never

import nottwice as nt
from nottwice.cli.demo import unprotected
from nottwice.testing.fatal import FatalClient, FatalPoints, FatalStore
from nottwice.testing.nursery import serve
from nottwice.testing.showcase import WAITS_FOR_A_PERSON, ShowcaseErrand, Way


def run(text: str) -> int:
    """Do an errand; the exit code says whether the run is complete or waits for a person."""
    errand = ShowcaseErrand.from_json(text)
    points = FatalPoints(die_at=errand.die_at)
    shop = FatalClient(errand.shop_url, points)
    match errand.way:
        case Way.NO_STATE:
            unprotected.serve_at(shop)
            unprotected.handle_without_state(errand.order_id)
        case Way.CHECKPOINT:
            unprotected.serve_at(shop)
            unprotected.handle_with_checkpoint(errand.order_id, Path(errand.checkpoint))
        case Way.NOTTWICE:
            agent = _load(Path(errand.script))
            agent.shop = shop
            store = FatalStore(Path(errand.ledger), points, intents=errand.intents)
            try:
                agent.handle(errand.ticket, errand.order_id, store=nt.Ledger(store))
            except nt.RunBlocked:
                return WAITS_FOR_A_PERSON
        case _:
            assert_never(errand.way)
    print(json.dumps(points.passed))
    return 0


def _load(script: Path) -> Any:
    """Import the script that the viewer will be shown, and no other copy of it."""
    # The folder is the viewer's: nothing is put there but what the demo speaks of.
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location(script.stem, script)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[script.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    serve(run)
