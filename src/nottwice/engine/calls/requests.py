"""What a caller passes to the engine and gets back: a call, and its receipt (L6)."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from nottwice.engine.session import Scope
from nottwice.model.call import CallIdentity
from nottwice.model.data.records import light_record
from nottwice.model.sealing.secrets import Known
from nottwice.model.tool import Tool

T = TypeVar("T")


@light_record(frozen=True, slots=True, kw_only=True)
class Request:
    """What a caller wants: one call, with everything that its record needs."""

    tool: Tool
    scope: Scope
    identity: CallIdentity
    args_json: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    key: str | None = None
    label: str | None = None
    retry: bool = False
    is_retried_when_repeated: bool = False
    """Whether the caller's next call like this tries again after a failure without effect (P242).
    If not, it gets the failure on record."""
    ask: str | None = None
    """Why a person must approve this call, whatever its tool says. None: no such reason."""
    trace_id: str | None = None
    clear_json: str | None = None
    """The arguments with their secrets, if there are any. They are never stored."""
    secrets: Known | None = None


@light_record(frozen=True, slots=True)
class Receipt(Generic[T]):
    """The proof that a call happened, and what it returned (L6)."""

    value: T
    replayed: bool
    """False: the result was produced just now. True: this is an earlier receipt."""
    id: str
    """The id of the call, the same live and replayed. Use it to ingest the result once."""
    attempts: int
    tool: str
    settled_by: str | None = None
    """What ended a doubt about the call: ``verify`` or a decision. None: there was no doubt."""

    def __repr__(self) -> str:
        # The value is left out: it may be large or secret, and receipts end up in logs (P227).
        how = "replayed" if self.replayed else f"attempt {self.attempts}"
        return f"<Receipt of {self.tool!r}, call {self.id}, {how}>"
