"""What did a run do to the world? Read from the ledger, never copied into the run's state (A1)."""

from __future__ import annotations

from typing import Any

from nottwice.model import values
from nottwice.model.call import CallRow, ResultKind
from nottwice.model.data.records import frozen_record
from nottwice.store.interface import Store


@frozen_record(frozen=True, slots=True)
class AgentEffect:
    """One effect as recorded in the ledger."""

    receipt_id: str
    tool: str
    args: dict[str, Any]
    status: str
    """``done``, ``failed``, or in doubt: ``pending`` or ``unknown``."""
    key: str | None
    """The key by which its upstream recognises it."""
    label: str | None
    """The label that distinguishes a deliberate repeat from the first call."""
    result: Any
    attempts: int
    started_at: float


def effects_of(store: Store, run_id: str) -> list[AgentEffect]:
    """Return the effects of a run, oldest first."""
    return [_effect(row) for row in store.calls(run_id) if row.replay_class.effectful]


def _effect(row: CallRow) -> AgentEffect:
    kept = row.result is not None and row.result.kind is not ResultKind.NOT_KEPT
    return AgentEffect(
        receipt_id=row.call_id,
        tool=row.identity.tool_name,
        args=values.decode_object(row.args_json),
        status=row.status.value.lower(),
        key=row.key,
        label=row.label,
        result=values.decode(row.result.json) if kept and row.result is not None else None,
        attempts=row.attempt,
        started_at=row.created_at,
    )
