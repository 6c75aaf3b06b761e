"""With which arguments is another attempt made? With those on record, as far as they are (P132)."""

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
    """How to call the tool: for another attempt, with what the first one recorded.

    The tool or its caller may have changed the objects since, and new code its defaults. Of a
    secret the record has only a fingerprint, so there it is what this caller gave. A volatile
    argument may be as fresh as its caller's; but the words of an effect that is done once for
    something are those on record, which is what people are shown (P202).
    """
    tool, live = request.tool, (request.args, request.kwargs)
    if row is None or tool.rebuild is None:
        return live
    if tool.volatile and (tool.once_per is None or not record_suffices(tool, row)):
        return live
    return tool.rebuild(values.decode_object(request.clear_json or row.args_json))


def record_suffices(tool: Tool, row: CallRow) -> bool:
    """Whether the record holds every argument of the call (P132).

    It does not hold a secret, or a volatile argument that is not plain data: that may be the very
    body of the tool, and its default is not what the caller gave.
    """
    if _has_secrets(row):
        return False
    if not tool.volatile:
        return True
    record = values.decode_object(row.args_json)
    # What ``**rest`` collected is in the record under the name of ``rest``.
    collected = [value.keys() for value in record.values() if isinstance(value, dict)]
    return set(tool.volatile) <= record.keys() | set().union(*collected)


def _has_secrets(row: CallRow) -> bool:
    """Whether its record holds a fingerprint, with which the call cannot be made (P103)."""
    try:
        return holds_fingerprint(values.decode(row.args_json))
    except LedgerCorrupt:
        return False
