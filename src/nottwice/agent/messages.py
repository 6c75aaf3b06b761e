"""What a model and its harness say to each other: typed blocks, kept without loss (A2).

A conversation is a list of messages, and a message a list of blocks. As plain data every block
names its kind, so reading one is a table lookup and never a guess. Other fields that a provider
sends (reasoning signatures, cache marks, ids) are kept under ``extra`` and sent back with the
message. A block of an unknown kind is kept whole.
"""

from __future__ import annotations

import contextlib
import enum
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

from nottwice.agent.requests.files import File, recorded_file
from nottwice.errors import LedgerCorrupt, UsageError
from nottwice.model import values
from nottwice.model.data.records import frozen_record
from nottwice.model.data.shapes import checked
from nottwice.model.saving.frozen import thaw

Extra = Mapping[str, Any]


class Role(enum.Enum):
    """The side that speaks. Results of tools are user messages: the side that is not the model."""

    USER = "user"
    ASSISTANT = "assistant"


@frozen_record(frozen=True, slots=True)
class Text:
    """What was said."""

    kind: ClassVar[str] = "text"
    text: str
    extra: Extra = field(default_factory=dict)


@frozen_record(frozen=True, slots=True)
class Reasoning:
    """What the model thought before it spoke; a provider may need it back, with its signature."""

    kind: ClassVar[str] = "reasoning"
    text: str
    extra: Extra = field(default_factory=dict)


@frozen_record(frozen=True, slots=True)
class ToolCall:
    """A tool call that the model asks for.

    ``id`` is what the provider sent, and may not be unique. Requests use our own ids instead.
    """

    kind: ClassVar[str] = "tool_call"
    id: str
    name: str
    arguments: Mapping[str, Any]
    unreadable: str | None = None
    """What the model wrote instead of a JSON object of arguments; then ``arguments`` is empty."""
    extra: Extra = field(default_factory=dict)


@frozen_record(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call, as the model reads it."""

    kind: ClassVar[str] = "tool_result"
    call_id: str
    """The ``id`` of the ToolCall that it answers."""
    content: str
    is_error: bool = False
    receipt_id: str | None = None
    """The id of the call in the ledger; ingest by it, once (L6). None: nothing was called."""
    extra: Extra = field(default_factory=dict)
    files: tuple[File, ...] = ()
    """The files that the model is shown with the text (P208)."""


@frozen_record(frozen=True, slots=True)
class Unknown:
    """A block of an unknown kind, as the provider sent it."""

    kind: ClassVar[str] = "unknown"
    payload: Any
    extra: Extra = field(default_factory=dict)


Block = Text | Reasoning | ToolCall | ToolResult | File | Unknown
Spoken = str | File | Sequence[str | File]
"""What a user says: a text, a file, or a list of both."""


@frozen_record(frozen=True, slots=True)
class Message:
    """One turn of one side."""

    role: Role
    blocks: tuple[Block, ...]
    extra: Extra = field(default_factory=dict)

    @property
    def text(self) -> str:
        """Its text, without reasoning and tools."""
        return "\n".join(block.text for block in self.blocks if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolCall))

    @property
    def files(self) -> tuple[File, ...]:
        """The files in it, without those in results of tools."""
        return tuple(block for block in self.blocks if isinstance(block, File))

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return tuple(block for block in self.blocks if isinstance(block, ToolResult))

    def to_plain(self) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "role": self.role.value,
            "blocks": [block_to_plain(block) for block in self.blocks],
        }
        return _with_extra(plain, self.extra)

    @classmethod
    def from_plain(cls, plain: Any) -> Message:
        """Read what ``to_plain`` wrote; anything else is LedgerCorrupt."""
        match plain:
            case {"role": ("user" | "assistant") as role, "blocks": list(blocks), **rest}:
                if rest.keys() <= {"extra"}:
                    read = tuple(block_from_plain(block) for block in blocks)
                    if type(extra := thaw(plain.get("extra", {}))) is dict:
                        return cls(Role(role), read, extra)
        raise _unreadable(plain)


def said(text: str, *, role: Role = Role.USER) -> Message:
    """A message of one text."""
    return Message(role, (Text(text),))


def spoken(message: Any, *, word: str = "message") -> Message:
    """Turn what a user says into a message; UsageError if it is empty."""
    parts = [message] if isinstance(message, str | File) else message
    if isinstance(parts, list | tuple) and all(isinstance(one, str | File) for one in parts):
        blocks = tuple(Text(one) if isinstance(one, str) else one for one in parts)
        if any(isinstance(one, File) or one.text.strip() for one in blocks):
            return Message(Role.USER, blocks)
    raise UsageError(
        f"{word}={message!r} says nothing. Nothing was sent. Write some text, or a list of texts "
        "and files: ['What is this?', nt.agent.File('scan.png')]."
    )


def to_payload(message: Message) -> dict[str, Any]:
    """Turn what a user says into the payload of its event."""
    payload: dict[str, Any] = {"text": described(message)}
    if any(isinstance(block, File) for block in message.blocks):
        payload["blocks"] = [block_to_plain(block) for block in message.blocks]
    return payload


def from_payload(payload: Any) -> Message:
    """Read what was said: a text, texts and files, or anything else as JSON.

    Any program may send such an event, with any payload. An unreadable payload becomes text.
    """
    if isinstance(payload, dict) and isinstance(payload.get("blocks"), list):
        blocks = tuple(_said_on_record(block) for block in payload["blocks"])
        if blocks and None not in blocks:
            return Message(Role.USER, tuple(block for block in blocks if block is not None))
    match payload:
        case {"text": str(text)} | str(text):
            return said(text)
    return said(values.encode(payload))


def _said_on_record(plain: Any) -> Text | File | None:
    """Read a text or a file as ``to_payload`` writes it; None: it is neither."""
    with contextlib.suppress(LedgerCorrupt):
        block = block_from_plain(plain)
        if isinstance(block, Text | File) and not block.extra:
            return block
    return None


def described(message: Message) -> str:
    """Return what was said in words, each file as its name and the beginning of its hash."""
    parts: list[str] = []
    for block in message.blocks:
        if isinstance(block, Text):
            parts.append(block.text)
        elif isinstance(block, File):
            hashed = "" if block.sha256 is None else f" sha256:{block.sha256[:16]}"
            parts.append(f"[{block.where if block.is_address else block.name}{hashed}]")
    return "\n".join(parts)


def answered_calls(messages: Iterable[Message]) -> Iterator[tuple[ToolCall, ToolResult]]:
    """Yield each tool call with its result. Calls of one reply that share an id match in order.

    Results are in the message after their calls, and in no later one.
    """
    waiting: dict[str, deque[ToolCall]] = {}
    for message in messages:
        if message.role is Role.ASSISTANT:
            waiting = defaultdict(deque)
            for call in message.tool_calls:
                waiting[call.id].append(call)
            continue
        for result in message.tool_results:
            if waiting.get(result.call_id):
                yield waiting[result.call_id].popleft(), result


def first_unseen(messages: Sequence[Message]) -> int:
    """Return the number of the first message that the model has not answered yet."""
    for number in range(len(messages) - 1, -1, -1):
        if messages[number].role is Role.ASSISTANT:
            return number + 1
    return 0


def block_to_plain(block: Block) -> dict[str, Any]:
    """Turn a block into plain data, with its kind."""
    plain: dict[str, Any] = {"kind": block.kind}
    match block:
        case Text() | Reasoning():
            plain["text"] = block.text
        case ToolCall():
            plain |= {"id": block.id, "name": block.name, "arguments": dict(block.arguments)}
            if block.unreadable is not None:
                plain["unreadable"] = block.unreadable
        case ToolResult():
            plain |= {"call_id": block.call_id, "content": block.content}
            if block.is_error:
                plain["is_error"] = True
            if block.receipt_id is not None:
                plain["receipt_id"] = block.receipt_id
            if block.files:
                plain["files"] = [file.to_plain() for file in block.files]
        case File():
            return block.to_plain()
        case Unknown():
            plain["payload"] = block.payload
    return _with_extra(plain, block.extra)


def block_from_plain(plain: Any) -> Block:
    """Read what ``block_to_plain`` wrote; anything else is LedgerCorrupt."""
    kind = plain.get("kind") if isinstance(plain, dict) else None
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if read is None:
        raise _unreadable(plain)
    try:
        return checked(read(**{name: thaw(plain[name]) for name in plain if name != "kind"}))
    except TypeError:
        raise _unreadable(plain) from None


def _result_on_record(*, files: Any = (), **rest: Any) -> ToolResult:
    read = [_file_on_record(**plain) for plain in files]
    return ToolResult(**rest, files=tuple(read))


def _file_on_record(*, kind: str = File.kind, **rest: Any) -> File:
    if kind != File.kind:
        raise TypeError(f"{kind!r} is no file")
    return checked(recorded_file(**rest))


_KINDS: dict[str, Callable[..., Block]] = {
    **{one.kind: one for one in (Text, Reasoning, ToolCall, Unknown)},
    ToolResult.kind: _result_on_record,
    File.kind: _file_on_record,
}


def _with_extra(plain: dict[str, Any], extra: Extra) -> dict[str, Any]:
    if extra:
        plain["extra"] = dict(extra)
    return plain


def _unreadable(plain: object) -> LedgerCorrupt:
    return LedgerCorrupt(
        f"A recorded message cannot be read: {str(plain)[:80]!r} is not what nottwice writes. It "
        "was not used, and no model was asked. Restore the ledger from a backup."
    )
