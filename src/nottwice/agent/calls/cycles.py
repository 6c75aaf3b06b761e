"""Does a model go in circles? It asks for the same thing again, or for the same few things in turn.

For each period up to ``MOST_PERIOD``, nottwice counts how many turns in a row repeated the turn one
period earlier. So a circle of any duration is noticed, and the record does not grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_PERIOD = 4
NONE: Mapping[str, Any] = {"of": [], "runs": [], "count": 0, "period": 1}
"""The record before the model has asked for anything."""


def follow(before: Mapping[str, Any], of: str) -> dict[str, Any]:
    """Update the record with the next thing that the model asks for.

    ``of``: the latest things, newest first. ``runs``: for each period, for how many turns the
    model has repeated what it asked for one period earlier. ``count``: how often the circle was
    completed. ``period``: how many things are in it.
    """
    last, runs = list(before["of"]), list(before["runs"])
    runs += [0] * (MOST_PERIOD - len(runs))
    for place in range(MOST_PERIOD):
        same = place < len(last) and last[place] == of
        runs[place] = runs[place] + 1 if same else 0
    # The shortest of equal circles: the same thing four times is not a circle of two.
    counts = [(runs[place] // (place + 1) + 1, -(place + 1)) for place in range(MOST_PERIOD)]
    count, period = max(counts)
    return {"of": [of, *last][:MOST_PERIOD], "runs": runs, "count": count, "period": -period}
