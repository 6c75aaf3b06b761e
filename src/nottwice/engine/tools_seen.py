"""Which tools has this process recorded in a ledger? (P222)

A tool is recorded with the first commit of a run that uses it, once per process and declaration.
Only what it declares is remembered, because a tool that is kept alive keeps its name (P140).
"""

from __future__ import annotations

import logging
import weakref

from nottwice.errors import NottwiceError
from nottwice.model import values
from nottwice.model.call import CallIdentity
from nottwice.model.tool import OWN_PREFIX, Tool
from nottwice.model.tools.tool_record import ToolRecord
from nottwice.store.interface import Store

log = logging.getLogger("nottwice")
Declared = tuple[object, ...]
"""What a record says about a tool, except for its schema, which takes long to compute."""
_seen: weakref.WeakKeyDictionary[Store, dict[str, Declared]] = weakref.WeakKeyDictionary()


class ToolsMet:
    """The tools that a run has used in this process, and those that its next commit records."""

    def __init__(self, store: Store) -> None:
        self.met: dict[str, Tool] = {}
        """By name. Each was recorded, or will be."""
        self.new: dict[str, tuple[Declared, ToolRecord]] = {}
        self._seen = _seen_in(store)
        self._classes: dict[CallIdentity, str] = {}

    def class_of(self, identity: CallIdentity, name: str) -> str:
        """Return the class whose instance first made a call of an inherited method (P140)."""
        return self._classes.setdefault(identity, name)

    def note(self, tool: Tool, *, now: float) -> None:
        """Record a tool with the next commit, unless the ledger has it as it is declared here."""
        self.met[tool.name] = tool
        declared = _declared_by(tool)
        if declared is not None and self._seen.get(tool.name) != declared:
            self.new[tool.name] = declared, _record_of(tool, now=now)

    def written(self, new: dict[str, tuple[Declared, ToolRecord]]) -> None:
        """Remember tools whose records are durable now."""
        for name, one in new.items():
            self._seen[name] = one[0]
            if self.new.get(name) is one:
                del self.new[name]


def _seen_in(store: Store) -> dict[str, Declared]:
    """What this process has recorded in a ledger, by the names of the tools."""
    try:
        return _seen.setdefault(store, {})
    except TypeError:
        # A custom store that cannot be referred to weakly. Each run records its tools again.
        return {}


def _declared_by(tool: Tool) -> Declared | None:
    """Return what a tool declares. None: it is our own, and is not recorded."""
    if tool.name.startswith(OWN_PREFIX):
        return None
    texts = tool.summary, tool.place, tool.title, tool.look
    return tool.replay_class, *texts, tool.result_type()


def _record_of(tool: Tool, *, now: float) -> ToolRecord:
    """Return what to record about a tool."""
    return ToolRecord(
        tool_name=tool.name,
        replay_class=tool.replay_class,
        recorded_at=now,
        summary=tool.summary,
        place=tool.place,
        title=tool.title,
        look=tool.look,
        result_json=_result_schema(tool),
    )


def _result_schema(tool: Tool) -> str | None:
    """The schema of a result. It only helps people, so it must never be why a call fails."""
    try:
        _, schema = tool.schemas()
        return None if schema is None else values.encode(schema)
    except (NottwiceError, TypeError, ValueError, NameError, RecursionError) as error:
        log.debug("the result of tool %r has no schema: %r", tool.name, error)
        return None
