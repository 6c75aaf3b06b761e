"""In which order are the calls of one model reply made?

A model that asks for a write and a commit in one reply means them in that order. So effects happen
one after the other, and a read sees everything asked for before it and nothing of what comes after.
Adjacent reads run in parallel. So do workers: each is its own run that may take hours, and a
coordinator wants to hand out several tasks in one reply. A worker that needs what another one found
can only be asked for in a later reply, because its goal is a text that the model writes. Between
workers and other effects the order holds. A tool declared with ``parallel=True`` has no order at
all. Promise kept here: P200.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence


class Lane(enum.Enum):
    """How a tool call relates to the others of its reply."""

    READ = "read"
    WORKER = "worker"
    EFFECT = "effect"
    ANY_TIME = "any time"

    @property
    def keeps_order(self) -> bool:
        """Whether it must not start if an earlier call that keeps the order did not happen."""
        return self in (Lane.WORKER, Lane.EFFECT)


def stages_of(lanes: Sequence[Lane]) -> list[list[int]]:
    """Return the numbers of the calls, stage by stage; those of one stage run in parallel."""
    ordered = [index for index, lane in enumerate(lanes) if lane is not Lane.ANY_TIME]
    stages: list[list[int]] = []
    for lane, group in itertools.groupby(ordered, key=lambda index: lanes[index]):
        if lane is Lane.EFFECT:
            stages += [[index] for index in group]
        else:
            stages.append(list(group))
    any_time = [index for index, lane in enumerate(lanes) if lane is Lane.ANY_TIME]
    if any_time:
        # In the first stage, so that a call that waits for a person does not hold them back.
        stages[:1] = [sorted(any_time + (stages[0] if stages else []))]
    return stages
