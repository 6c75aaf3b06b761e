"""Which arguments does another attempt use? Those on record, as far as they are kept (P132)."""

from __future__ import annotations

from typing import Any

from nottwice.engine.calls.requests import Request
from nottwice.errors import LedgerCorrupt
from nottwice.model import values
from nottwice.model.call import CallRow
from nottwice.model.sealing.secrets import holds_fingerprint
from nottwice.model.tool import Tool

Invocation = tuple[tuple[Any, ...], dict[str, Any]]


def invocation_for(request: Request, row: CallRow | None) -> Invocation:
    """Return how to call the tool. Another attempt uses what the first one recorded.

    The tool or its caller may have changed the objects since, and new code may have changed
    defaults. The record holds only a fingerprint of a secret, so a secret comes from this caller. A
    volatile argument may come from this caller too. But an effect that is done once for something
    keeps its recorded words, because people were shown those (P202).
    """
    tool, live = request.tool, (request.args, request.kwargs)
    if row is None or tool.rebuild is None:
        return live
    if tool.volatile and (tool.once_per is None or not record_suffices(tool, row)):
        return live
    return tool.rebuild(values.decode_object(request.clear_json or row.args_json))


def record_suffices(tool: Tool, row: CallRow) -> bool:
    """Whether the record holds every argument of the call (P132).

    It does not hold secrets, nor volatile arguments that are not plain data. Such an argument may
    be the very body of the tool, and its default is not what the caller passed.
    """
    if _has_secrets(row):
        return False
    if not tool.volatile:
        return True
    record = values.decode_object(row.args_json)
    # The record keeps what ``**rest`` collected under the name ``rest``.
    collected = [value.keys() for value in record.values() if isinstance(value, dict)]
    return set(tool.volatile) <= record.keys() | set().union(*collected)


def _has_secrets(row: CallRow) -> bool:
    """Whether the record holds a fingerprint, which cannot be used to make the call (P103)."""
    try:
        return holds_fingerprint(values.decode(row.args_json))
    except LedgerCorrupt:
        return False
