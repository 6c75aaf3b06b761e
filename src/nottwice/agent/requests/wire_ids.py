"""Under which ids and names are tool calls and their results sent to a model?

Under our own ids. A model API refuses a conversation in which two calls share an id, or an id has
an unusual character. Small models make up such ids: ``functions.refund:0`` in every turn. The
transcript keeps them unchanged, so one bad reply would break every later request of the run. Here
each call of a request gets a number, and each result the number of the call that it answers. If
several calls of one message share an id, their results match in order. While the conversation only
grows, the numbers are the same in every request, so it can be cached. The same applies to a tool
name that a model made up: if no API accepts it, it is sent with other characters. Promise kept
here: P204.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nottwice.agent.messages import Block, Message, Role, ToolCall, ToolResult

MOST_NAME_CHARACTERS = 64
_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")


def with_own_ids(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages with unique ids, on both sides of each tool call."""
    numbers = itertools.count(1)
    answered: dict[str, deque[str]] = {}
    renamed: list[Message] = []
    for message in messages:
        if message.role is Role.ASSISTANT:
            # Results are in the message after their calls, and in no later one.
            answered = defaultdict(deque)
            blocks = tuple(_called(message.blocks, numbers, answered))
        else:
            blocks = tuple(_answering(message.blocks, answered))
        renamed.append(replace(message, blocks=blocks))
    return tuple(renamed)


def _called(
    blocks: Iterable[Block], numbers: Iterator[int], answered: dict[str, deque[str]]
) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, ToolCall):
            own = f"call_{next(numbers)}"
            answered[block.id].append(own)
            yield replace(block, id=own, name=_spelled(block.name))
        else:
            yield block


def _spelled(name: str) -> str:
    """Return a name that every API accepts: the same one, if possible."""
    return _STRANGE.sub("_", name)[:MOST_NAME_CHARACTERS] or "unnamed"


def _answering(blocks: Iterable[Block], answered: dict[str, deque[str]]) -> Iterator[Block]:
    for block in blocks:
        if isinstance(block, ToolResult) and answered.get(block.call_id):
            yield replace(block, call_id=answered[block.call_id].popleft())
        else:
            yield block
