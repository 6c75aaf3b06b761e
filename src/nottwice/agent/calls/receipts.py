"""How does a model read the whole result of a call, however long it is?

The transcript keeps the beginning of a long result; the receipt in the ledger has all of it. A cut
result says so, with the receipt's id, and ``recall`` pages through the receipt by that id. Promise
kept here: P232.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nottwice.agent.messages import ToolCall
from nottwice.agent.state import RunState
from nottwice.engine.asks import Doing, Read
from nottwice.engine.session import Scope
from nottwice.engine.stepping.steps import SPAWN
from nottwice.model import values
from nottwice.model.call import CallRow, CallStatus, ResultKind, StoredResult

RECALL = "recall"
SHORT_CHARACTERS = 12
"""How many characters of a receipt's id a model is told."""
LEAST_CHARACTERS = 6
"""How many characters of it a model must give."""


def cut(text: str, receipt_id: str, most_characters: int) -> str:
    """Return a result as the transcript keeps it; one that is cut says how to read the rest."""
    if len(text) <= most_characters:
        return text
    return (
        f"{text[:most_characters]}… (cut: it has {len(text):,} characters. Read on with recall: "
        f"receipt='{receipt_id[:SHORT_CHARACTERS]}', offset={most_characters})"
    )


def whole_text(stored: StoredResult) -> str:
    """Return a result as a model reads it, in full."""
    if stored.kind is ResultKind.NOT_KEPT:
        return "(Its result was not kept.)"
    value = values.decode(stored.json)
    return value if isinstance(value, str) else stored.json


def recalled(scope: Scope, state: RunState, calls: Sequence[ToolCall]) -> Doing[dict[str, str]]:
    """Return the texts of the receipts that a reply wants to read, by the id that it gave."""
    named = {
        wanted.strip()
        for call in calls
        if call.name == RECALL and isinstance(wanted := call.arguments.get("receipt"), str)
    }
    if not named:
        return {}
    contents = dict(_contents(state))
    run_id = scope.session.run_id
    rows: list[CallRow] = yield Read(lambda store: store.calls(run_id))
    whole = {row.call_id: row for row in rows if row.call_id in contents and _is_kept(row)}
    found: dict[str, str] = {}
    for name in named:
        fitting = [one for one in contents if one.startswith(name)]
        if len(name) >= LEAST_CHARACTERS and len(fitting) == 1:
            row = whole.get(fitting[0])
            found[name] = contents[fitting[0]] if row is None else whole_text(row.kept_result())
    return found


def page(receipts: Mapping[str, str], wanted: Any, offset: int, most_characters: int) -> str | None:
    """Return the part of a receipt from a character on; None: there is no such receipt."""
    name = wanted.strip() if isinstance(wanted, str) else ""
    text = receipts.get(name)
    if text is None:
        return None
    begin = max(0, offset)
    if begin >= len(text):
        return f"Receipt {name} has {len(text):,} characters. There is nothing from {begin} on."
    end = begin + most_characters
    if end >= len(text):
        return text[begin:]
    return f"{text[begin:end]}\n(There is more: recall with receipt='{name}', offset={end}.)"


def _contents(state: RunState) -> Iterator[tuple[str, str]]:
    """Yield what the transcript has of each receipt."""
    for message in state.transcript:
        for result in message.tool_results:
            if result.receipt_id is not None:
                yield result.receipt_id, result.content


def _is_kept(row: CallRow) -> bool:
    """Whether the ledger has what the model read; a worker's report is whole in the transcript."""
    return row.status is CallStatus.DONE and row.identity.tool_name != SPAWN
