"""What do spans show of a call besides its name and its outcome? Nothing, unless it is asked for.

What is shown comes from the record, where secrets are only fingerprints. Promise kept here: P344.
"""

from __future__ import annotations

from typing import Any

from nottwice.engine.calls.in_flight import InFlight
from nottwice.model import values
from nottwice.model.call import CallRow, ResultKind
from nottwice.model.data.records import frozen_record
from nottwice.otel import names

KINDS = ("arguments", "results", "keys", "errors")
MOST_CHARACTERS = 8192


@frozen_record(frozen=True, slots=True)
class Content:
    """What spans show."""

    arguments: bool = False
    results: bool = False
    keys: bool = False
    errors: bool = False

    def before(self, row: CallRow) -> dict[str, Any]:
        """Return what is shown of a call before its tool runs."""
        found: dict[str, Any] = {}
        if self.arguments:
            found[names.ARGUMENTS] = row.args_json[:MOST_CHARACTERS]
        if self.keys and row.key is not None:
            found[names.KEY] = row.key
        return found

    def after(self, mine: InFlight | None) -> dict[str, Any]:
        """Return what is shown of a call after its tool has returned."""
        result = None if mine is None or mine.row is None else mine.row.result
        if not self.results or result is None or result.kind is ResultKind.NOT_KEPT:
            return {}
        return {names.RESULT: result.json[:MOST_CHARACTERS]}


def model_of(row: CallRow) -> str | None:
    """Return the model that an agent asks with this call."""
    found = values.decode_object(row.args_json).get("model")
    return found if isinstance(found, str) else None


def usage_of(mine: InFlight | None) -> dict[str, Any]:
    """Return the tokens that the reply of a model has cost."""
    result = None if mine is None or mine.row is None else mine.row.result
    if result is None or result.kind is ResultKind.NOT_KEPT:
        return {}
    plain = values.decode(result.json)
    reply = plain.get("reply") if isinstance(plain, dict) else None
    usage = reply.get("usage") if isinstance(reply, dict) else None
    if not isinstance(usage, dict):
        return {}
    said = {names.INPUT_TOKENS: "input_tokens", names.OUTPUT_TOKENS: "output_tokens"}
    found: dict[str, Any] = {
        name: usage[key] for name, key in said.items() if isinstance(usage.get(key), int)
    }
    if isinstance(reply, dict) and isinstance(reply.get("model"), str):
        found[names.RESPONSE_MODEL] = reply["model"]
    return found
