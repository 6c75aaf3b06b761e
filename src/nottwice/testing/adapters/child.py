"""Plays one scene with the author's driver: ``python -m nottwice.testing.adapters.child``.

The scene comes through standard input; what the driver saw is the last line of standard output.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

from nottwice.testing.adapters.scene import Driven, Scene


def load_driver(name: str) -> Callable[[Scene], Driven]:
    """Return the function that ``module:function`` names."""
    module, _, function = name.partition(":")
    found: Callable[[Scene], Driven] = getattr(importlib.import_module(module), function)
    return found


def main(driver: str) -> None:
    driven = load_driver(driver)(Scene.from_json(sys.stdin.read()))
    print(f"\n{json.dumps(asdict(driven))}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
