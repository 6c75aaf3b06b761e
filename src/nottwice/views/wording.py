"""What did a tool declare for people: a title for each call, where to look, what it returns?

It comes from the ledger, so none of the code that declares the tool is needed. Promises kept here:
P222, P224.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nottwice.model import values
from nottwice.model.tools.templates import fill, fill_look
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.reviews.queue import known_tool
from nottwice.store.interface import Store


class ToolTexts:
    """The tools of a ledger; each is looked up once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._found: dict[str, ToolRecord | None] = {}

    def record(self, tool: str) -> ToolRecord | None:
        """What is known about a tool; None if it was never recorded, or cannot be believed."""
        if tool not in self._found:
            self._found[tool] = known_tool(self._store, tool)
        return self._found[tool]

    def title(self, tool: str, args: Mapping[str, Any] | None) -> str | None:
        """One line about a call, as the tool declares it."""
        known = self.record(tool)
        if known is None or known.title is None or args is None:
            return None
        return fill(known.title, args)

    def look(
        self, tool: str, args: Mapping[str, Any] | None, *, call_id: str, key: str | None
    ) -> str | None:
        """Where a person checks whether a call happened, as the tool declares it."""
        known = self.record(tool)
        if known is None or known.look is None or args is None:
            return None
        return fill_look(known.look, args, call_id=call_id, key=key)

    def result_schema(self, tool: str) -> Any:
        """The JSON schema of a result; None if it is not known, or anything fits."""
        known = self.record(tool)
        stored = None if known is None else known.result_json
        return None if stored is None else values.decode(stored)
