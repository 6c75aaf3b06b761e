"""In which order is it done what one reply of a model asks for?

A model that asks for a write and a commit in one reply means them in that order. So effects happen
one after the other, and a read sees what was asked for before it and nothing of what comes after.
Reads next to each other run together. So do workers: each is a run of its own that may take hours,
and to hand out several tasks in one reply is what a coordinator has them for; one that needs what
another found can only be asked for in a later reply, because its goal is a text that the model
writes. Between workers and other effects the order holds. A tool that is declared with
``parallel=True`` has no order at all. Promise kept here: P200.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence


class Lane(enum.Enum):
    """How a tool call stands to the others of its reply."""

    READ = "read"
    WORKER = "worker"
    EFFECT = "effect"
    ANY_TIME = "any time"

    @property
    def keeps_order(self) -> bool:
        """Whether it is not begun after one before it that keeps order and did not happen."""
        return self in (Lane.WORKER, Lane.EFFECT)


def stages_of(lanes: Sequence[Lane]) -> list[list[int]]:
    """The numbers of the calls, stage by stage; those of one stage run together."""
    ordered = [index for index, lane in enumerate(lanes) if lane is not Lane.ANY_TIME]
    stages: list[list[int]] = []
    for lane, group in itertools.groupby(ordered, key=lambda index: lanes[index]):
        if lane is Lane.EFFECT:
            stages += [[index] for index in group]
        else:
            stages.append(list(group))
    any_time = [index for index, lane in enumerate(lanes) if lane is Lane.ANY_TIME]
    if any_time:
        # Not behind anything: one that waits for a person does not hold them back.
        stages[:1] = [sorted(any_time + (stages[0] if stages else []))]
    return stages
