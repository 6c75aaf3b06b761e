"""Does a model go round in circles? It asks for the same again, or for the same few things in turn.

For each period up to ``MOST_PERIOD`` it is counted how many turns in a row were those of a period
before. So a circle is noticed however long it is kept up, and what is kept does not grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_PERIOD = 4
NONE: Mapping[str, Any] = {"of": [], "runs": [], "count": 0, "period": 1}
"""What is on record before anything was asked for."""


def follow(before: Mapping[str, Any], of: str) -> dict[str, Any]:
    """What is on record when the next thing is asked for.

    ``of``: the last things, newest first; ``runs``: for each period, for how many turns the model
    has asked for what it asked for a period before; ``count``: how often the circle was gone
    through, and ``period``: how many things are in it.
    """
    last, runs = list(before["of"]), list(before["runs"])
    runs += [0] * (MOST_PERIOD - len(runs))
    for place in range(MOST_PERIOD):
        same = place < len(last) and last[place] == of
        runs[place] = runs[place] + 1 if same else 0
    # The shortest of equal circles: the very same four times is no circle of two.
    counts = [(runs[place] // (place + 1) + 1, -(place + 1)) for place in range(MOST_PERIOD)]
    count, period = max(counts)
    return {"of": [of, *last][:MOST_PERIOD], "runs": runs, "count": count, "period": -period}
