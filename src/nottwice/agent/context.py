"""What does the model see? A window, built for every request from what is on record (A1).

The window is working memory: it is bounded, it is never recorded, and nothing depends on it that
is not in the state. When the conversation outgrows it, older turns are compacted to a few lines
that say what was done. They stay in the transcript, and the model can recall them word for word.
Until the window moves, a prompt only grows at its end. So providers can read its beginning from
their cache, and accept earlier reasoning again. That is why the plan stays where it was shown, at
the beginning and in the results of the tools that change it, and is shown again only when the
window moves. Promise kept here: P205.

The user's messages are pinned, word for word up to a share of the window, and the newest one
always. Older ones get a line each, as long as the lines fit (P197). A single message must not fill
the window, nor must messages that pile up while a run waits: text longer than its share is cut
where it is shown, with a note on how to read the rest (P198, P235). The same applies to the
beginning of a run: its goal, its conditions and its plan (P215).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nottwice.agent.messages import (
    Block,
    Message,
    Role,
    Text,
    ToolCall,
    ToolResult,
    block_from_plain,
    described,
    said,
)
from nottwice.agent.requests.files import File, tokens_in
from nottwice.agent.state import RunState
from nottwice.errors import UsageError
from nottwice.model.data.records import frozen_record

BYTES_PER_TOKEN = 3
"""Most text has four. Too small a number only compacts early and reserves too much."""
MOST_LINES = 30
MOST_LINE_CHARACTERS = 200
LEAST_LINE_CHARACTERS = 40
PINNED_SHARE = 4
"""The user's messages before the window get one part in this many of it."""
MESSAGE_SHARE = 2
"""The results of one turn, or one message of the user, get one part in this many of it."""
STANDING_SHARE = 8
"""The conditions of the task, the plan, and the lines about older messages of the user get one part
in this many of it each."""
TASK, PLAN = -1, -2
"""The numbers under which ``recall`` finds the task and the plan, which are not messages."""
MOST_RECALLED_CHARACTERS = 20_000
LEAST_RECALLED_CHARACTERS = 500
Summarise = Callable[[Sequence[Message]], str]


@frozen_record(frozen=True, slots=True)
class Context:
    """What one request to a model contains, besides its tools."""

    system: str
    messages: tuple[Message, ...]


def default_context(state: RunState, instructions: str) -> Context:
    """The task, what was compacted, the plan at that time, and the recent messages."""
    opening = "\n\n".join(filter(None, (_task(state), _compacted(state), _standing(state))))
    files = map(block_from_plain, state.plain.get("files", ()))
    first = Message(Role.USER, (Text(opening or "Continue."), *files))
    messages = [first, *_pinned(state), *_recent(state)]
    if messages[-1].role is Role.ASSISTANT:
        messages.append(said("Continue."))
    return Context(instructions, tuple(_merged(messages)))


def estimate_tokens(plain: Any) -> int:
    """Estimate how many tokens plain data takes, rather too many than too few."""
    text = json.dumps(plain, ensure_ascii=False, default=repr)
    files = tokens_in(plain) if '"kind": "file"' in text else 0
    return len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN + 1 + files


def move_window(state: Mapping[str, Any], most_tokens: int) -> dict[str, Any]:
    """Choose the part of the transcript that the model sees next.

    The window never begins with the result of a tool whose call is not shown. A move leaves at most
    half of the limit in use, so the beginning of the conversation then stays the same for many
    requests and can be cached.
    """
    transcript, window = state["transcript"], state["window"]
    first, until, tokens = window["first"], window["until"], window["tokens"]
    if window.get("most") != most_tokens:
        until, tokens = first, 0
    tokens += sum(_shown_tokens(message, most_tokens) for message in transcript[until:])
    room = most_tokens - _opening_tokens(RunState(state), most_tokens)
    room -= _pinned_tokens(state, first, most_tokens // PINNED_SHARE)
    if tokens > room:
        last_turn, most_kept = _last_turn(transcript), min(most_tokens // 2, room * 3 // 4)
        while first < last_turn and (tokens > most_kept or _is_answer(transcript[first])):
            tokens -= _shown_tokens(transcript[first], most_tokens)
            first += 1
    moved = {"first": first, "until": len(transcript), "tokens": tokens, "most": most_tokens}
    stays = first == window["first"] and "plan" in window
    return {**moved, "plan": window["plan"] if stays else _plan_text(RunState(state))}


def summarise_heard(state: RunState, summarise: Summarise | None) -> dict[str, Any]:
    """Summarise, once, the user's messages that are not shown word for word.

    The summary is part of the state, so a hook that asks a model is not called for every request.
    """
    old, _ = _split_heard(state)
    if summarise is None or not old or state.plain["summary"]["until"] >= old[-1]:
        return {}
    text = summarise([state.transcript[number] for number in old])
    if not isinstance(text, str):
        raise UsageError(
            f"summarise returned {type(text).__name__} instead of a text. No model was asked."
        )
    return {"summary": {"until": old[-1], "text": text}}


def recall(
    state: RunState, first: int, last: int, offset: int = 0, *, most_characters: int | None = None
) -> str:
    """Return messages of the transcript as text, by number; the first from a given character on.

    The task and the plan have numbers before the first message.
    """
    left = most_recalled(state) if most_characters is None else most_characters
    lines: list[str] = []
    first = max(PLAN, first)
    for number in range(first, min(last + 1, len(state.transcript))):
        begin = max(0, offset) if number == first else 0
        text = f"[{number}] {_numbered(state, number)[begin:]}"
        if len(text) > left and lines:
            lines.append(f"[{number}] and later: ask for fewer messages")
            break
        lines.append(text[:left])
        if len(text) > left:
            following = begin + left - len(f"[{number}] ")
            lines.append(f"(There is more: recall with first={number}, offset={following}.)")
            break
        left -= len(text)
    return "\n".join(lines) or f"There are messages 0 to {len(state.transcript) - 1}."


def most_recalled(state: RunState) -> int:
    """Return the most that ``recall`` returns: as much as the window shows uncut."""
    most = state.plain["window"].get("most")
    if most is None:
        return MOST_RECALLED_CHARACTERS
    fitting = int(most) // MESSAGE_SHARE * BYTES_PER_TOKEN * 3 // 4
    return max(LEAST_RECALLED_CHARACTERS, min(MOST_RECALLED_CHARACTERS, fitting))


def _numbered(state: RunState, number: int) -> str:
    if number == PLAN:
        return _plan_text(state)
    if number == TASK:
        return "\n\n".join(filter(None, (state.goal, _conditions(state))))
    return _written(state.transcript[number])


# What the user said


def _pinned_tokens(state: Mapping[str, Any], first: int, share: int) -> int:
    """Return what the user's messages before the window take of it: at most their shares."""
    tokens, lines = 0, share * PINNED_SHARE // STANDING_SHARE
    for number in reversed(state["heard"]):
        if number < first:
            tokens += estimate_tokens(state["transcript"][number])
        if tokens >= share + lines:
            return share + lines
    return tokens


def _split_heard(state: RunState) -> tuple[list[int], list[int]]:
    """Split the user's messages before the window: those only summarised, and those shown."""
    before = [number for number in state.plain["heard"] if number < state.first_recent]
    most = state.plain["window"].get("most")
    if most is None or not before:
        return [], before
    left, shown = most // PINNED_SHARE, 0
    for number in reversed(before):
        left -= estimate_tokens(state.plain["transcript"][number])
        if left < 0:
            break
        shown += 1
    # The newest message of all is the task. If it is too long, part of it is shown.
    if before[-1] == state.plain["heard"][-1]:
        shown = max(1, shown)
    return before[: len(before) - shown], before[len(before) - shown :]


def _pinned(state: RunState) -> Iterator[Message]:
    """Yield what the user said before the window begins."""
    old, shown = _split_heard(state)
    if old:
        yield said("\n".join(_summed_up(state, old)))
    most = state.plain["window"].get("most")
    share = None if most is None else most // PINNED_SHARE
    for number in shown:
        message = _bounded(state.transcript[number], number, share)
        yield Message(Role.USER, (Text(f"The user said (message {number}):"), *message.blocks))


def _summed_up(state: RunState, old: list[int]) -> Iterator[str]:
    summary = state.plain["summary"]
    if summary["until"] >= old[0]:
        yield "What the user said before, summed up:"
        most = state.plain["window"].get("most") or 0
        yield _cut(summary["text"], most // PINNED_SHARE * BYTES_PER_TOKEN)
        old = [number for number in old if number > summary["until"]]
    if old:
        yield from _lines(state, old)


def _lines(state: RunState, numbers: Sequence[int]) -> Iterator[str]:
    """Yield a line for each message of the user, as long as they fit, and how to read them all."""
    most = state.plain["window"].get("most")
    left = None if most is None else most // STANDING_SHARE * BYTES_PER_TOKEN
    length = MOST_LINE_CHARACTERS
    if left is not None:
        fitting = left // len(numbers) - len("- message 12345: ''")
        length = max(LEAST_LINE_CHARACTERS, min(length, fitting))
    lines: list[str] = []
    for number in reversed(numbers):
        words = " ".join(described(state.transcript[number]).split())
        line = f"- message {number}: {_shortened(words, length)}"
        if left is not None:
            left -= _bytes(line)
            if left < 0 and lines:
                break
        lines.append(line)
    hidden = numbers[: len(numbers) - len(lines)]
    if hidden:
        yield (
            f"Not shown here: {len(hidden)} older messages of the user, among messages {hidden[0]} "
            f"to {hidden[-1]}."
        )
    yield "The user also said:"
    yield from reversed(lines)
    yield "Use the tool recall to read messages word for word, by their numbers."


# What is too long for one window


def _recent(state: RunState) -> Iterator[Message]:
    """Yield the recent messages, each with at most its share of the window.

    While a run waits, messages of the user pile up. Of those without a reply in between, the newest
    is shown, older ones up to a share, and the rest in a line each.
    """
    most = state.plain["window"].get("most")
    share = None if most is None else most // MESSAGE_SHARE
    piles = {} if most is None else _piled_up(state, most // PINNED_SHARE)
    hidden = {number for pile in piles.values() for number in pile}
    for number, message in enumerate(state.recent, start=state.first_recent):
        if number in piles:
            yield said("\n".join(_lines(state, piles[number])))
        if number not in hidden:
            yield _bounded(message, number, share)


def _piled_up(state: RunState, most_tokens: int) -> dict[int, list[int]]:
    """Find messages shown only as a line, by the first message of their group without a reply."""
    plain, found = state.plain["transcript"], dict[int, list[int]]()
    heard = [number for number in state.plain["heard"] if number >= state.first_recent]
    until = len(plain)
    while heard:
        begin = _last_turn(plain[:until])
        pile = [number for number in heard if begin <= number < until]
        left, old = most_tokens, list[int]()
        for number in reversed(pile[:-1]):
            left -= estimate_tokens(plain[number])
            if left < 0 and not Message.from_plain(plain[number]).files:
                old.insert(0, number)
        if old:
            found[old[0]] = old
        heard, until = [number for number in heard if number < begin], begin
    return found


def _shown_tokens(plain: Mapping[str, Any], most_tokens: int) -> int:
    """Estimate how many tokens a message takes where it is shown."""
    tokens = estimate_tokens(plain)
    if plain["role"] == Role.ASSISTANT.value:
        return tokens
    return min(tokens, most_tokens // MESSAGE_SHARE)


def _bounded(message: Message, number: int, most_tokens: int | None) -> Message:
    """Cut the long parts of a user's or tools' message to one length, so that all of them fit.

    The model's own messages are shown unchanged, because a provider may have signed them.
    """
    if most_tokens is None or message.role is Role.ASSISTANT:
        return message
    sizes = [_bytes(_content(block)) for block in message.blocks]
    level = _level(sizes, most_tokens * BYTES_PER_TOKEN)
    if level is None:
        return message
    places = _places(message)
    return replace(
        message,
        blocks=tuple(
            block if size <= level else _shown_part(block, size, level, number, place)
            for block, size, place in zip(message.blocks, sizes, places, strict=True)
        ),
    )


def _shown_part(block: Block, size: int, level: int, number: int, place: int) -> Block:
    """Return the beginning of a block, and how to read the rest."""
    content = _content(block)
    kept = content[: len(content) * level // size]
    text = (
        f"{kept}… (cut: it has {len(content):,} characters. Read on with recall: first={number}, "
        f"last={number}, offset={place + len(kept)})"
    )
    if isinstance(block, ToolResult):
        return replace(block, content=text)
    return replace(block, text=text) if isinstance(block, Text) else block


def _content(block: Block) -> str:
    if isinstance(block, ToolResult):
        return block.content
    return block.text if isinstance(block, Text) else ""


def _level(sizes: Sequence[int], most: int) -> int | None:
    """Return the length to cut the longest to, so that all take ``most``; None: they fit."""
    if sum(sizes) <= most:
        return None
    left = most
    for index, size in enumerate(sorted(sizes)):
        level = left // (len(sizes) - index)
        if size > level:
            return level
        left -= size
    return None


def _bytes(text: str) -> int:
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) if text else 0


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… (cut)"


def _last_turn(transcript: list[Any]) -> int:
    """Return where the newest turn begins, which is never compacted."""
    for number in range(len(transcript) - 1, -1, -1):
        if transcript[number]["role"] == Role.ASSISTANT.value:
            return number
    return 0


def _is_answer(plain: Mapping[str, Any]) -> bool:
    """Whether a message answers tool calls of the message before it."""
    return any(block["kind"] == "tool_result" for block in plain["blocks"])


def _task(state: RunState) -> str:
    if not state.goal:
        return ""
    goal = _begun(state, state.goal, PINNED_SHARE, TASK)
    # The same words whether or not the user has said more: a prompt only grows at its end (P205).
    text = (
        f"Your task: {goal}\n\nIf the user says more below, what the user says last is your task. "
        "What was said before holds as far as that does not change it."
    )
    place = len(state.goal) + len("\n\n")
    conditions = _begun(state, _conditions(state), STANDING_SHARE, TASK, place)
    return "\n\n".join(filter(None, (text, conditions)))


def _conditions(state: RunState) -> str:
    lines = [f"{number}. {one}" for number, one in enumerate(state.done_when, start=1)]
    return "\n".join(["It is done when all of this is true:", *lines]) if lines else ""


def _begun(state: RunState, text: str, share: int, number: int, place: int = 0) -> str:
    """Return as much of a text as its share of the window holds, and how to read the rest.

    ``place``: where the text begins in what ``recall`` returns for this number.
    """
    most, size = state.plain["window"].get("most"), _bytes(text)
    if most is None or size <= most // share * BYTES_PER_TOKEN:
        return text
    kept = text[: len(text) * (most // share * BYTES_PER_TOKEN) // size]
    return (
        f"{kept}… (cut: it has {len(text):,} characters. Read on with recall: first={number}, "
        f"offset={place + len(kept)})"
    )


def _opening_tokens(state: RunState, most_tokens: int) -> int:
    """Return what the task, its conditions and the plan take: at most their window shares."""
    shares = (
        (state.goal, PINNED_SHARE),
        (_conditions(state), STANDING_SHARE),
        (_plan_text(state), STANDING_SHARE),
    )
    return sum(min(estimate_tokens(text), most_tokens // share) for text, share in shares)


def _compacted(state: RunState) -> str:
    """Summarise the turns that are no longer shown."""
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
    # Notes from turns that are shown are left out: they would change the prompt's beginning.
    turns = sum(one["role"] == Role.ASSISTANT.value for one in state.plain["transcript"][:first])
    noted = [one for one in state.plain["memory"] if one["turn"] <= turns]
    remembered = [f"- {one['name']}: {one['where']}" for one in noted[-MOST_LINES:]]
    notes = ["What you noted down where to find:", *remembered] if remembered else []
    return "\n".join([head, *lines, *notes, "Use the tool recall to read them word for word."])


def _call_text(state: RunState, asked: Mapping[str, Any]) -> str:
    calls = state.transcript[asked["message"]].tool_calls
    return call_text(calls[asked["index"]])


def call_text(call: ToolCall) -> str:
    """Write a tool call in one short line."""
    return _shortened(_call(call))


def _call(call: ToolCall) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
    return f"{call.name}({arguments})"


def _standing(state: RunState) -> str:
    """Return the plan as of the last window move; later turns show what changed since."""
    told = state.plain["window"].get("plan")
    text = _plan_text(state) if told is None else str(told)
    return _begun(state, text, STANDING_SHARE, PLAN)


def _plan_text(state: RunState) -> str:
    if not state.plan:
        return ""
    lines = [f"Your plan, step {min(state.cursor + 1, len(state.plan))} of {len(state.plan)}:"]
    for number, step in enumerate(state.plan):
        mark = "x" if number < state.cursor else ">" if number == state.cursor else " "
        lines.append(f"[{mark}] {step}")
    return "\n".join(lines)


def _merged(messages: Iterable[Message]) -> Iterator[Message]:
    """Merge adjacent messages of one side: some models refuse two in a row."""
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
    return "".join(text for text, _ in _pieces(message))


def _places(message: Message) -> list[int]:
    """Return where the content of each block begins in the text that ``_written`` makes."""
    found, place = [0] * len(message.blocks), 0
    for text, index in _pieces(message):
        if index is not None:
            found[index] = place
        place += len(text)
    return found


def _pieces(message: Message) -> Iterator[tuple[str, int | None]]:
    """Yield a message as pieces of text; a piece that is the content of a block has its index."""
    separator = f"{message.role.value}: "
    for index, block in enumerate(message.blocks):
        if isinstance(block, ToolCall):
            yield f"{separator}called {_call(block)}", None
        elif isinstance(block, ToolResult):
            yield f"{separator}result: ", None
            yield block.content, index
        elif isinstance(block, Text):
            yield separator, None
            yield block.text, index
        elif isinstance(block, File):
            yield f"{separator}[file {block.name}]", None
        else:
            continue
        separator = "; "


def _shortened(text: str, most: int = MOST_LINE_CHARACTERS) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
