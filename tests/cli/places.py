"""Sandboxes for the tools of ``trying.py``: what happened is counted in the log of a world."""

from __future__ import annotations

import json
import os
from pathlib import Path

from nottwice.testing import Sandbox


def count(order: str, cents: int) -> int:
    lines = Path(os.environ["WORLD_LOG"]).read_text().splitlines()
    return sum(json.loads(line)["args"]["order"] == order for line in lines)


def arguments(number: str) -> dict[str, object]:
    return {"order": number, "cents": 100}


bank = Sandbox(arguments=arguments, count=count, changed={"cents": 200}, settles="50ms")
blind = Sandbox(arguments=arguments, count=lambda **given: 0, settles="10ms")
lost = Sandbox(arguments=arguments, count=lambda **given: None)  # type: ignore[arg-type]
elsewhere = "sandbox"
