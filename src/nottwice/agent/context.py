"""What does the model see? Its window, made anew for every request from what is on record (A1).

The window is working memory: it is bounded, it is never recorded, and nothing depends on it that
is not in the state. When the conversation outgrows it, older turns are compacted to a few lines
that say what was done; they stay in the transcript, and the model can recall them word for word.
A prompt only ever grows at its end, until the window moves: then providers read its beginning from
their cache, and take thoughts back. So the plan stands where it was told, at the beginning and in
the results of the tools that change it, and is told anew when the window moves. Promise kept here:
P205.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nottwice.agent.files import File, tokens_in
from nottwice.agent.messages import Message, Role, Text, ToolCall, block_from_plain, said
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
    """The task, what was compacted, where the plan stood then, and what was said lately."""
    opening = "\n\n".join(filter(None, (_task(state), _compacted(state), _standing(state))))
    files = map(block_from_plain, state.plain.get("files", ()))
    messages = [Message(Role.USER, (Text(opening or "Go on."), *files)), *state.recent]
    if messages[-1].role is Role.ASSISTANT:
        messages.append(said("Go on."))
    return Context(instructions, tuple(_merged(messages)))


def estimate_tokens(plain: Any) -> int:
    """About how many tokens plain data takes, rather too many than too few."""
    text = json.dumps(plain, ensure_ascii=False, default=repr)
    files = tokens_in(plain) if '"kind": "file"' in text else 0
    return len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 1 + files


def move_window(state: Mapping[str, Any], most_tokens: int) -> dict[str, Any]:
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
    moved = {"first": first, "until": len(transcript), "tokens": tokens}
    stays = first == window["first"] and "plan" in window
    return {**moved, "plan": window["plan"] if stays else _plan_text(RunState(state))}


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
    # What was noted in turns that are shown is left out: it would change the prompt's beginning.
    turns = sum(one["role"] == Role.ASSISTANT.value for one in state.plain["transcript"][:first])
    noted = [one for one in state.plain["memory"] if one["turn"] <= turns]
    remembered = [f"- {one['name']}: {one['where']}" for one in noted[-MOST_LINES:]]
    notes = ["What you noted down where to find:", *remembered] if remembered else []
    return "\n".join([head, *lines, *notes, "Use the tool recall to read them word for word."])


def _call_text(state: RunState, asked: Mapping[str, Any]) -> str:
    calls = state.transcript[asked["message"]].tool_calls
    return _shortened(_call(calls[asked["index"]]))


def _call(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _standing(state: RunState) -> str:
    """Where the plan stood when the window was last moved; later turns tell what changed since."""
    told = state.plain["window"].get("plan")
    return _plan_text(state) if told is None else str(told)


def _plan_text(state: RunState) -> str:
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
        elif isinstance(block, File):
            parts.append(f"[file {block.name}]")
    parts += [f"result: {result.content}" for result in message.tool_results]
    return f"{message.role.value}: " + "; ".join(parts)


def _shortened(text: str) -> str:
    if len(text) <= MOST_LINE_CHARACTERS:
        return text
    return text[: MOST_LINE_CHARACTERS - 1] + "…"
