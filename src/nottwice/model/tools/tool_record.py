"""What does a ledger know about a tool, without importing the code that declares it?

It is recorded when a ledger first sees the tool, so that an operator can read what a call does,
where to check it, and what a result must look like. Promise kept here: P222.
"""

from __future__ import annotations

from nottwice.model.data.records import frozen_record
from nottwice.model.replay_class import ReplayClass


@frozen_record(frozen=True, slots=True)
class ToolRecord:
    """A tool as the process that last recorded it declared it."""

    tool_name: str
    replay_class: ReplayClass
    recorded_at: float
    summary: str | None = None
    """The first line of its docstring."""
    place: str | None = None
    """Where it is declared: ``agent.py:12``, as its package is imported."""
    title: str | None = None
    """A template for one line about a call."""
    look: str | None = None
    """A template that says where a person checks whether a call happened."""
    result_json: str | None = None
    """The JSON schema of its result. None: anything."""
