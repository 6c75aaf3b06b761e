"""Attempts that are under way in this process, and who waits for whom."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from nottwice.errors import SelfWait
from nottwice.model.call import Call, CallIdentity, CallRow, call_from_row
from nottwice.model.secrets import Known

living: set[str] = set()
"""Ids of attempts whose body runs in this process, or is about to. A waiter can be interrupted or
cancelled at any moment; what it was waiting for is over only when its body has ended. A body that
was cancelled stays here until the process ends: a thread that it started may apply its effect at
any time (P125)."""


@dataclass(slots=True, eq=False)
class InFlight:
    """An attempt, or the wish for one, that is under way in this process."""

    identity: CallIdentity
    parent: InFlight | None
    row: CallRow | None = None
    begun: bool = False
    """The intent is being recorded or was: from here on the effect may happen."""
    waits_for: InFlight | None = None
    over: Future[None] | None = None
    scope: Any = None
    """Where the call was made, if that is not where it is being resolved."""
    counts: dict[tuple[str, str], int] | None = None
    """How many recorded values each attempt has asked for; see ``guard/recorded.py``."""
    secrets: Known | None = None
    """What it was given that must not be in its result."""

    @property
    def parent_call_id(self) -> str | None:
        """The call of the same run whose body asks for this one; see ``CallRow``."""
        parent = self.parent
        if parent is None or parent.identity.workflow_id != self.identity.workflow_id:
            return None
        return parent.identity.call_id if parent.row is None else parent.row.call_id

    def body_ended(self) -> None:
        if self.row is not None:
            living.discard(self.row.attempt_id)

    @property
    def call(self) -> Call | None:
        """The call as its tool sees it; built when it is asked for."""
        return call_from_row(self.row) if self.row is not None else None

    def chain(self) -> list[InFlight]:
        """This attempt and those it was called from."""
        found = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent)
        return found


def check_no_circle(
    target: InFlight, parent: InFlight | None, waiting: Iterable[InFlight] = ()
) -> None:
    """Refuse to wait for a call that, directly or not, waits for us (D13).

    ``waiting`` is who waits for whom already; whoever called a waiter waits with it.
    """
    ours = parent.chain() if parent is not None else []
    seen: set[InFlight] = set()
    pending = [target]
    while ours and pending:
        one = pending.pop()
        if one in ours:
            raise SelfWait(
                f"Tool {target.identity.tool_name!r} was called from inside the same call, and "
                "would wait for itself. The inner call was not made. Call it with other "
                "arguments, or repeat on purpose with .again('a label')."
            )
        if one not in seen:
            seen.add(one)
            waiters = (one, *(waiter for waiter in waiting if one in waiter.chain()))
            pending.extend(each.waits_for for each in waiters if each.waits_for is not None)
