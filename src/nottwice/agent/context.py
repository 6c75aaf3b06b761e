"""What does the model see? Its window, made anew for every request from what is on record (A1).

The window is working memory: it is bounded, it is never recorded, and nothing depends on it that
is not in the state. When the conversation outgrows it, older turns are compacted to a few lines
that say what was done; they stay in the transcript, and the model can recall them word for word.
The parts that change stand at the end, so that providers can keep the rest cached.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nottwice.agent.messages import Message, Role, Text, ToolCall, said
from nottwice.agent.state import RunState
from nottwice.model.records import frozen_record

BYTES_PER_TOKEN = 3
"""Most text has four; too small a number only compacts early and reserves too much."""
MOST_LINES = 30
MOST_LINE_CHARACTERS = 200


@frozen_record(frozen=True, slots=True)
class Context:
    """What one request to a model is made of, beside its tools."""

    system: str
    messages: tuple[Message, ...]


def default_context(state: RunState, instructions: str) -> Context:
    """The task, what was compacted, what was said lately, and where the plan stands."""
    opening = "\n\n".join(filter(None, (_task(state), _compacted(state))))
    messages = [said(opening or "Go on."), *state.recent]
    standing = _standing(state)
    if standing:
        messages.append(said(standing))
    elif messages[-1].role is Role.ASSISTANT:
        messages.append(said("Go on."))
    return Context(instructions, tuple(_merged(messages)))


def estimate_tokens(plain: Any) -> int:
    """About how many tokens plain data takes, rather too many than too few."""
    text = json.dumps(plain, ensure_ascii=False, default=repr)
    return len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 1


def move_window(state: Mapping[str, Any], most_tokens: int) -> dict[str, int]:
    """Which part of the transcript the model sees next.

    It begins with a message of its own and never with the result of a tool that nobody sees being
    called. It is moved by half of its size at once: then the beginning of the conversation stays
    the same for many requests, and can be cached.
    """
    transcript, window = state["transcript"], state["window"]
    first, tokens = window["first"], window["tokens"]
    tokens += sum(estimate_tokens(message) for message in transcript[window["until"] :])
    if tokens > most_tokens:
        last_turn = _last_turn(transcript)
        while first < last_turn and (tokens > most_tokens // 2 or _is_answer(transcript[first])):
            tokens -= estimate_tokens(transcript[first])
            first += 1
    return {"first": first, "until": len(transcript), "tokens": tokens}


def recall(state: RunState, first: int, last: int, most_characters: int) -> str:
    """Messages of the transcript, by their numbers, as text."""
    lines: list[str] = []
    left = most_characters
    for number in range(max(0, first), min(last + 1, len(state.transcript))):
        text = f"[{number}] {_written(state.transcript[number])}"
        if len(text) > left:
            lines.append(f"[{number}] and later: ask for fewer messages at once")
            break
        left -= len(text)
        lines.append(text)
    return "\n".join(lines) or f"There are messages 0 to {len(state.transcript) - 1}."


def _last_turn(transcript: list[Any]) -> int:
    """Where the newest turn begins, which is never compacted."""
    for number in range(len(transcript) - 1, -1, -1):
        if transcript[number]["role"] == Role.ASSISTANT.value:
            return number
    return 0


def _is_answer(plain: Mapping[str, Any]) -> bool:
    """Whether a message answers tool calls of the one before it."""
    return any(block["kind"] == "tool_result" for block in plain["blocks"])


def _task(state: RunState) -> str:
    if not state.goal:
        return ""
    text = f"Your task: {state.goal}"
    if state.done_when:
        conditions = "\n".join(f"{n}. {one}" for n, one in enumerate(state.done_when, start=1))
        text += f"\n\nIt is done when all of this is true:\n{conditions}"
    return text


def _compacted(state: RunState) -> str:
    """What the turns that are not shown any more came to."""
    first = state.first_recent
    if first == 0:
        return ""
    effects = [one for one in state.plain["asked"] if one["message"] < first]
    lines = [
        f"- turn {one['turn']}: {_call_text(state, one)}, "
        f"{'done' if one['outcome'] == 'done' else 'which failed and took no effect'}"
        for one in effects[-MOST_LINES:]
    ]
    more = len(effects) - len(lines)
    head = f"Messages 0 to {first - 1} of this conversation are not shown any more."
    if lines:
        head += " What you did in them" + (f", after {more} more" if more else "") + ":"
    remembered = [f"- {one['name']}: {one['where']}" for one in state.plain["memory"][-MOST_LINES:]]
    notes = ["What you noted down where to find:", *remembered] if remembered else []
    return "\n".join([head, *lines, *notes, "Use the tool recall to read them word for word."])


def _call_text(state: RunState, asked: Mapping[str, Any]) -> str:
    calls = state.transcript[asked["message"]].tool_calls
    return call_text(calls[asked["index"]])


def call_text(call: ToolCall) -> str:
    """A tool call in one short line."""
    return _shortened(_call(call))


def _call(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _standing(state: RunState) -> str:
    """Where the plan stands; at the end, because it changes from turn to turn."""
    if not state.plan:
        return ""
    lines = [f"Your plan, step {min(state.cursor + 1, len(state.plan))} of {len(state.plan)}:"]
    for number, step in enumerate(state.plan):
        mark = "x" if number < state.cursor else ">" if number == state.cursor else " "
        lines.append(f"[{mark}] {step}")
    return "\n".join(lines)


def _merged(messages: Iterable[Message]) -> Iterator[Message]:
    """Neighbours of one side as one message: some models refuse two in a row."""
    held: Message | None = None
    for message in messages:
        if held is None or held.role is not message.role or held.extra or message.extra:
            if held is not None:
                yield held
            held = message
        else:
            held = Message(held.role, (*held.blocks, *message.blocks))
    if held is not None:
        yield held


def _written(message: Message) -> str:
    parts: list[str] = []
    for block in message.blocks:
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, ToolCall):
            parts.append(f"called {_call(block)}")
    parts += [f"result: {result.content}" for result in message.tool_results]
    return f"{message.role.value}: " + "; ".join(parts)


def _shortened(text: str) -> str:
    if len(text) <= MOST_LINE_CHARACTERS:
        return text
    return text[: MOST_LINE_CHARACTERS - 1] + "…"
